"""PyTorch models, written as torchvision, transformers and audio libraries write them: what they take, what fuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.frontends.torch_modules.rows import f32, i64
from tests.models.torch_modules import detection, families, recurrent, vision

LSTM, RNN = "jfuse.lstm", "jfuse.rnn"


@dataclass(frozen=True)
class TorchModel:
    """A module with its specs.   fuses: the composites that become one operator. transposes: how many there may be"""

    module: Callable[[], Any]
    specs: tuple[Any, ...]
    fuses: tuple[str, ...] = ()
    transposes: int | None = None
    draw: dict[str, Any] = field(default_factory=dict)

    def make(self) -> Any:
        """The module in eval mode, with fresh weights of one seed."""
        torch.manual_seed(0)
        module = self.module().eval()
        for part in module.modules():
            if isinstance(part, nn.modules.batchnorm._BatchNorm):
                part.running_mean.uniform_(-0.2, 0.2)
                part.running_var.uniform_(0.5, 1.5)
        return module


class Encoder(nn.Module):
    """Embedded tokens through layers of an encoder, their mean to classes."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.places = nn.Parameter(torch.randn(64, 8))
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, **options)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(8, 3)

    def forward(self, ids: Any) -> Any:
        """i64[b, t] -> f32[b, 3]"""
        x = self.embed(ids) + self.places[: ids.shape[1]]
        return self.head(self.layers(x).mean(1))


class Padded(nn.Module):
    """An encoder's layer over sequences of which some elements do not count."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Any, counts: Any) -> Any:
        """f32[b, t, 8], f32[b, t] -> f32[b, t, 8]"""
        return self.layer(x, src_key_padding_mask=counts < 0)


class Decoder(nn.Module):
    """A layer of a decoder over what an encoder gave."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerDecoderLayer(8, 2, 16, batch_first=True)

    def forward(self, x: Any, memory: Any) -> Any:
        """f32[b, t, 8], f32[b, s, 8] -> f32[b, t, 8]"""
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return self.layer(x, memory, tgt_mask=mask, tgt_is_causal=True)


class Causal(nn.Module):
    """A block of a language model as GPT-2 has it, with the weights of the embedding for the result."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.enter, self.leave = nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide, self.narrow = nn.Linear(8, 32), nn.Linear(32, 8)

    def forward(self, ids: Any) -> Any:
        """i64[b, t] -> f32[b, t, 11]"""
        x = self.embed(ids)
        b, t, _ = x.shape
        q, k, v = (p.view(b, t, 2, 4).transpose(1, 2) for p in self.enter(self.first(x)).split(8, -1))
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.leave(found.transpose(1, 2).reshape(b, t, 8))
        x = x + self.narrow(F.gelu(self.wide(self.second(x)), approximate="tanh"))
        return x @ self.embed.weight.T


class Rotary(nn.Module):
    """A block as Llama has it: root mean square norm, rotary places, grouped heads, a gated product."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.after = nn.RMSNorm(16), nn.RMSNorm(16)
        self.q, self.k, self.v = nn.Linear(16, 16, False), nn.Linear(16, 8, False), nn.Linear(16, 8, False)
        self.o = nn.Linear(16, 16, False)
        self.gate, self.up, self.down = nn.Linear(16, 32, False), nn.Linear(16, 32, False), nn.Linear(32, 16, False)

    def forward(self, x: Any) -> Any:
        """f32[b, t, 16] -> f32[b, t, 16]"""
        b, t, _ = x.shape
        h = self.norm(x)
        angles = torch.arange(t)[:, None] / 100 ** (torch.arange(2) / 2)
        cos, sin = angles.cos().repeat(1, 2), angles.sin().repeat(1, 2)
        q = rotated(self.q(h).view(b, t, 4, 4).transpose(1, 2), cos, sin)
        k = rotated(self.k(h).view(b, t, 2, 4).transpose(1, 2), cos, sin)
        v = self.v(h).view(b, t, 2, 4).transpose(1, 2)
        found = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        x = x + self.o(found.transpose(1, 2).reshape(b, t, 16))
        h = self.after(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotated(x: Any, cos: Any, sin: Any) -> Any:
    """x turned by angles."""
    first, second = x.chunk(2, -1)
    return x * cos + torch.cat([-second, first], -1) * sin


class Cached(nn.Module):
    """One step of attention to a cache, which is returned with what is new."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 24)

    def forward(self, x: Any, cache: dict[str, Any]) -> Any:
        """f32[b, 8], f32[b, t, 8] each -> the same"""
        q, k, v = self.enter(x)[:, None].chunk(3, -1)
        keys, values = torch.cat([cache["k"], k], 1), torch.cat([cache["v"], v], 1)
        weights = F.softmax(q @ keys.mT / 8**0.5, -1)
        return {"y": (weights @ values)[:, 0], "k": keys, "v": values}


class VisionTransformer(nn.Module):
    """Patches of an image, a token for the class, a layer of an encoder."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 8))
        self.places = nn.Parameter(torch.randn(1, 17, 8))
        self.layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True, norm_first=True, activation="gelu")
        self.head = nn.Linear(8, 5)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> f32[b, 5]"""
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.token.expand(x.shape[0], -1, -1), x], 1) + self.places
        return self.head(self.layer(x)[:, 0])


class Mixer(nn.Module):
    """A block of an MLP-Mixer."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.Linear(12, 6))
        self.channels = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)

    def forward(self, x: Any) -> Any:
        """f32[b, 6, 8] -> f32[b, 6, 8]"""
        x = x + self.tokens(self.first(x).mT).mT
        return x + self.channels(self.second(x))


def mlp() -> Any:
    """Two dense layers."""
    return nn.Sequential(nn.Linear(5, 8), nn.ReLU(inplace=True), nn.Dropout(), nn.Linear(8, 3), nn.Softmax(-1))


IMAGE = f32(None, 3, 16, 16)
FEW: dict[str, TorchModel] = {
    "lstm-open-time": TorchModel(
        lambda: recurrent.Layer(nn.LSTM(5, 6, batch_first=True)), (f32(None, None, 5),), (LSTM,)
    ),
    "single-shot-detector": TorchModel(detection.SingleShot, (f32(1, 3, 32, 32),)),
}
MORE: dict[str, TorchModel] = {
    "mlp": TorchModel(mlp, (f32(None, 5),)),
    "convolutions": TorchModel(vision.Convolutions, (f32(None, 3, 16, 16),), transposes=1),
    "residual": TorchModel(vision.Residual, (f32(None, 3, 16, 16),), transposes=1),
    "bottleneck": TorchModel(vision.Bottleneck, (f32(None, 3, 16, 16),), transposes=1),
    "vgg": TorchModel(vision.vgg, (f32(None, 3, 16, 16),), transposes=2),
    "mobilenet": TorchModel(vision.MobileNet, (f32(None, 3, 16, 16),), transposes=1),
    "squeeze-and-excite": TorchModel(vision.SqueezeExcite, (f32(None, 3, 16, 16),), transposes=1),
    "densenet": TorchModel(vision.DenseNet, (f32(None, 3, 16, 16),), transposes=1),
    "shufflenet": TorchModel(vision.ShuffleNet, (f32(2, 8, 8, 8),)),
    "inception": TorchModel(vision.Inception, (f32(None, 3, 12, 12),), transposes=2),
    "convnext": TorchModel(vision.ConvNext, (f32(None, 3, 16, 16),), transposes=1),
    "unet": TorchModel(vision.UNet, (f32(None, 1, 16, 16),), transposes=0),
    "segmentation": TorchModel(vision.Segmentation, (f32(None, 3, 16, 16),), transposes=2),
    "detection": TorchModel(vision.Detection, (f32(None, 3, 16, 16),)),
    "autoencoder": TorchModel(vision.autoencoder, (f32(None, 1, 16, 16),), transposes=0),
    "super-resolution": TorchModel(vision.super_resolution, (f32(None, 1, 8, 8),)),
    "open-image": TorchModel(vision.fully_convolutional, (f32(1, 3, None, None),), transposes=2),
    "volumes": TorchModel(vision.volumes, (f32(1, 1, 4, 6, 6),)),
    "vision-transformer": TorchModel(VisionTransformer, (f32(None, 3, 16, 16),)),
    "mixer": TorchModel(Mixer, (f32(None, 6, 8),)),
    "encoder": TorchModel(Encoder, (i64(None, 6),)),
    "encoder-open-time": TorchModel(lambda: Encoder(norm_first=True, activation="gelu"), (i64(None, None),)),
    "encoder-with-pads": TorchModel(Padded, (f32(None, 6, 8), f32(None, 6))),
    "decoder": TorchModel(Decoder, (f32(None, 5, 8), f32(None, 7, 8))),
    "causal": TorchModel(Causal, (i64(None, None),)),
    "rotary": TorchModel(Rotary, (f32(None, None, 16),)),
    "cached": TorchModel(Cached, (f32(None, 8), {"k": f32(None, 6, 8), "v": f32(None, 6, 8)})),
    "mobilenet-v3": TorchModel(families.mobilenet_v3, (IMAGE,), transposes=1),
    "efficientnet": TorchModel(families.efficientnet, (IMAGE,), transposes=1),
    "squeezenet": TorchModel(families.squeezenet, (IMAGE,), transposes=1),
    "regnet": TorchModel(families.regnet, (IMAGE,), transposes=1),
    "swin": TorchModel(families.Swin, (f32(2, 3, 16, 16),)),
    "deeplab": TorchModel(families.DeepLab, (IMAGE,), transposes=2),
    "lraspp": TorchModel(families.LRASPP, (IMAGE,), transposes=2),
    "box-head": TorchModel(families.BoxHead, (f32(None, 8, 3, 3), f32(None, 4))),
    "proposals": TorchModel(families.Proposals, (IMAGE,)),
    "one-class-detector": TorchModel(detection.OneClass, (f32(1, 3, 32, 32),)),
    "two-stage-detector": TorchModel(detection.TwoStage, (f32(1, 3, 32, 32),)),
    "masks-of-regions": TorchModel(detection.Masks, (f32(2, 3, 32, 32), f32(2, 4, 4))),
    "spatial-transformer": TorchModel(families.SpatialTransformer, (IMAGE,)),
    "cache-written-in-place": TorchModel(
        families.StaticCache, (f32(2, 1, 8), {"k": f32(2, 2, 6, 4), "v": f32(2, 2, 6, 4)}, i64(1))
    ),
    "text-in-image": TorchModel(recurrent.TextInImage, (f32(None, 1, 16, None),), (LSTM,) * 4),
    "relative-places": TorchModel(families.Relative, (f32(None, None, 8),)),
    "conformer": TorchModel(families.Conformer, (f32(None, None, 8),)),
    "waves": TorchModel(families.Waves, (f32(None, 160),)),
    "mel": TorchModel(families.Mel, (f32(None, 128),)),
    "translation": TorchModel(families.Translation, (i64(None, 6), i64(None, 5))),
    **{name: TorchModel(module, specs, fuses) for name, (module, specs, fuses) in recurrent.MODELS.items()},
}
