"""Families of torchvision and of speech models that torch_vision.py has not: one or two blocks of each."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.torch_modules.vision import unit


class Scaled(nn.Module):
    """Channels scaled by what their means say."""

    def __init__(self, channels: int, act: Any = nn.ReLU, gate: Any = nn.Sigmoid) -> None:
        super().__init__()
        self.pool, self.gate, self.act = nn.AdaptiveAvgPool2d(1), gate(), act()
        self.down, self.up = nn.Conv2d(channels, 4, 1), nn.Conv2d(4, channels, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, c, h, w] -> the same"""
        return x * self.gate(self.up(self.act(self.down(self.pool(x)))))


class Inverted(nn.Module):
    """Wide, along each channel, scaled, narrow: MobileNetV3 and EfficientNet."""

    def __init__(self, act: Any, gate: Any) -> None:
        super().__init__()
        self.wide = unit(8, 24, 1, act=act)
        self.along = unit(24, 24, 5, groups=24, act=act)
        self.scaled = Scaled(24, nn.ReLU if gate is nn.Hardsigmoid else nn.SiLU, gate)
        self.narrow = nn.Sequential(nn.Conv2d(24, 8, 1, bias=False), nn.BatchNorm2d(8))

    def forward(self, x: Any) -> Any:
        """f32[b, 8, h, w] -> the same"""
        return x + self.narrow(self.scaled(self.along(self.wide(x))))


def classifier(body: Any, act: Any = nn.ReLU) -> Any:
    """A stem, a body of 8 channels, means, classes."""
    return nn.Sequential(unit(3, 8, stride=2, act=act), body, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 5))


def mobilenet_v3() -> Any:
    """Hard swish and hard sigmoid."""
    return classifier(Inverted(nn.Hardswish, nn.Hardsigmoid), nn.Hardswish)


def efficientnet() -> Any:
    """Swish and sigmoid."""
    return classifier(nn.Sequential(Inverted(nn.SiLU, nn.Sigmoid), Inverted(nn.SiLU, nn.Sigmoid)), nn.SiLU)


class Fire(nn.Module):
    """SqueezeNet's block: narrow, then wide by two sizes of window."""

    def __init__(self) -> None:
        super().__init__()
        self.squeeze, self.small, self.large = nn.Conv2d(8, 4, 1), nn.Conv2d(4, 4, 1), nn.Conv2d(4, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """f32[b, 8, h, w] -> the same"""
        x = F.relu(self.squeeze(x))
        return torch.cat([F.relu(self.small(x)), F.relu(self.large(x))], 1)


def squeezenet() -> Any:
    """Classes by a convolution of one pixel, and the mean of them."""
    stem = nn.Sequential(nn.Conv2d(3, 8, 3, stride=2), nn.ReLU(), nn.MaxPool2d(3, 2, ceil_mode=True))
    return nn.Sequential(
        stem, Fire(), Fire(), nn.Dropout(), nn.Conv2d(8, 5, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten()
    )


class RegNet(nn.Module):
    """A block of RegNetY: convolutions by groups, scaled, beside a shortcut."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(unit(8, 8, 1), unit(8, 8, groups=2, stride=2), Scaled(8), nn.Conv2d(8, 8, 1))
        self.short = nn.Sequential(nn.Conv2d(8, 8, 1, 2), nn.BatchNorm2d(8))

    def forward(self, x: Any) -> Any:
        """f32[b, 8, h, w] -> f32[b, 8, h / 2, w / 2]"""
        return F.relu(self.short(x) + self.body(x))


def regnet() -> Any:
    """Two blocks."""
    return classifier(nn.Sequential(RegNet(), RegNet()))


class Swin(nn.Module):
    """A block of a Swin transformer: attention within shifted windows of 4 by 4, with biases by distance."""

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 8, 2, 2)
        self.first, self.second = nn.LayerNorm(8), nn.LayerNorm(8)
        self.enter, self.leave = nn.Linear(8, 24), nn.Linear(8, 8)
        self.wide, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.distances = nn.Parameter(torch.randn(49, 2))
        places = torch.stack(torch.meshgrid(torch.arange(4), torch.arange(4), indexing="ij")).flatten(1)
        apart = places[:, :, None] - places[:, None] + 3
        self.register_buffer("index", apart[0] * 7 + apart[1])

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> f32[b, 8, 8, 8], channels last"""
        x = self.patches(x).permute(0, 2, 3, 1)
        for shift in (0, 2):
            x = x + self.attended(self.first(x), shift)
            x = x + self.narrow(F.gelu(self.wide(self.second(x))))
        return x

    def attended(self, x: Any, shift: int) -> Any:
        """f32[b, 8, 8, 8] -> the same"""
        b = x.shape[0]
        x = torch.roll(x, (-shift, -shift), (1, 2)) if shift else x
        windows = x.view(b, 2, 4, 2, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(b * 4, 16, 8)
        q, k, v = self.enter(windows).view(b * 4, 16, 3, 2, 4).permute(2, 0, 3, 1, 4).unbind(0)
        bias = self.distances[self.index.flatten()].view(16, 16, 2).permute(2, 0, 1)
        found = torch.softmax(q * 0.5 @ k.mT + bias, -1) @ v
        x = self.leave(found.transpose(1, 2).reshape(b * 4, 16, 8))
        x = x.view(b, 2, 2, 4, 4, 8).permute(0, 1, 3, 2, 4, 5).reshape(b, 8, 8, 8)
        return torch.roll(x, (shift, shift), (1, 2)) if shift else x


class DeepLab(nn.Module):
    """Pyramid of windows with gaps, and the mean of the image, as large as the input again."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(unit(3, 8, stride=2), unit(8, 8, stride=2))
        self.parts = nn.ModuleList(
            [unit(8, 4, 1), *(nn.Sequential(nn.Conv2d(8, 4, 3, padding=d, dilation=d), nn.ReLU()) for d in (2, 3))]
        )
        self.mean = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 4, 1), nn.ReLU())
        self.head = nn.Conv2d(16, 3, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> {"out": f32[b, 3, 16, 16]}"""
        y = self.stem(x)
        mean = F.interpolate(self.mean(y), size=y.shape[-2:], mode="bilinear", align_corners=False)
        y = self.head(torch.cat([*(part(y) for part in self.parts), mean], 1))
        return {"out": F.interpolate(y, size=x.shape[-2:], mode="bilinear", align_corners=False)}


class LRASPP(nn.Module):
    """The lighter head of MobileNetV3: two maps, one of them scaled by a gate."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = unit(3, 6, stride=2, act=nn.Hardswish), unit(6, 8, stride=2, act=nn.Hardswish)
        self.change = unit(8, 8, 1)
        self.scale = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(8, 8, 1, bias=False), nn.Sigmoid())
        self.low, self.high = nn.Conv2d(6, 3, 1), nn.Conv2d(8, 3, 1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> f32[b, 3, 8, 8]"""
        low = self.fine(x)
        high = self.coarse(low)
        high = self.change(high) * self.scale(high)
        return self.low(low) + self.high(F.interpolate(high, size=low.shape[-2:], mode="bilinear", align_corners=False))


class BoxHead(nn.Module):
    """Faster R-CNN's second stage: features of regions to classes, and boxes decoded from offsets of each class."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(8 * 9, 16), nn.Linear(16, 16)
        self.classes, self.boxes = nn.Linear(16, 3), nn.Linear(16, 12)

    def forward(self, regions: Any, proposals: Any) -> Any:
        """f32[n, 8, 3, 3], f32[n, 4] -> scores f32[n, 3], boxes f32[n, 3, 4] within an image of 16 by 16"""
        x = F.relu(self.second(F.relu(self.first(regions.flatten(1)))))
        offsets = self.boxes(x).reshape(-1, 3, 4) / torch.tensor([10.0, 10.0, 5.0, 5.0])
        size = (proposals[:, 2:] - proposals[:, :2])[:, None]
        centre = proposals[:, None, :2] + 0.5 * size + offsets[..., :2] * size
        half = 0.5 * size * offsets[..., 2:].clamp(max=4.135).exp()
        boxes = torch.stack([centre - half, centre + half], 2).flatten(2).clamp(0, 16)
        return {"scores": F.softmax(self.classes(x), -1), "boxes": boxes}


class Proposals(nn.Module):
    """RetinaNet's head over maps of two sizes, with anchors that follow from the sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.fine, self.coarse = unit(3, 8, stride=4, kernel=3), unit(8, 8, stride=2)
        self.scores, self.offsets = nn.Conv2d(8, 2, 3, padding=1), nn.Conv2d(8, 4, 3, padding=1)

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> scores f32[b, n, 2], boxes f32[b, n, 4]"""
        fine = self.fine(x)
        scores, boxes = [], []
        for feature in (fine, self.coarse(fine)):
            b, _, h, w = feature.shape
            ys, xs = torch.meshgrid(torch.arange(h) * 16 / h, torch.arange(w) * 16 / w, indexing="ij")
            centre = torch.stack([xs, ys], -1).reshape(-1, 2)
            offsets = self.offsets(feature).permute(0, 2, 3, 1).reshape(b, -1, 4)
            scores.append(self.scores(feature).permute(0, 2, 3, 1).reshape(b, -1, 2).sigmoid())
            boxes.append(torch.cat([centre + offsets[..., :2], offsets[..., 2:].exp()], -1))
        return {"scores": torch.cat(scores, 1), "boxes": torch.cat(boxes, 1)}


class SpatialTransformer(nn.Module):
    """An image read on a grid that a network computes from it."""

    def __init__(self) -> None:
        super().__init__()
        self.where = nn.Sequential(nn.Conv2d(3, 4, 5, 4), nn.ReLU(), nn.Flatten(), nn.Linear(36, 6))

    def forward(self, x: Any) -> Any:
        """f32[b, 3, 16, 16] -> the same"""
        grid = F.affine_grid(self.where(x).view(-1, 2, 3), [x.shape[0], 3, 16, 16], align_corners=False)
        return F.grid_sample(x, grid, align_corners=False)


class StaticCache(nn.Module):
    """Attention to a cache of a fixed length, of which the step at a place is written, as transformers has it."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.leave, self.norm = nn.Linear(8, 24), nn.Linear(8, 8), nn.LayerNorm(8)

    def forward(self, x: Any, cache: dict[str, Any], place: Any) -> Any:
        """f32[2, 1, 8], caches f32[2, 2, 6, 4], i64[1] -> f32[2, 1, 8], the caches"""
        q, k, v = (p.view(2, 1, 2, 4).transpose(1, 2) for p in self.enter(self.norm(x)).split(8, -1))
        keys, values = cache["k"].index_copy(2, place, k), cache["v"].clone()
        values[:, :, place] = v
        seen = torch.arange(6)[None, None, None] <= place
        y = F.scaled_dot_product_attention(q, keys, values, attn_mask=seen)
        return x + self.leave(y.transpose(1, 2).reshape(2, 1, 8)), keys, values


class Relative(nn.Module):
    """Attention by distances as Transformer-XL has it: scores of all distances, shifted row by row."""

    def __init__(self) -> None:
        super().__init__()
        self.enter, self.places, self.leave = nn.Linear(8, 24), nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
        self.u, self.v = nn.Parameter(torch.randn(2, 4)), nn.Parameter(torch.randn(2, 4))

    def forward(self, x: Any) -> Any:
        """f32[b, t, 8] -> the same"""
        b, t, _ = x.shape
        q, k, v = self.enter(x).view(b, t, 3, 2, 4).unbind(2)
        apart = torch.arange(t - 1, -t, -1.0)[:, None] * torch.exp(torch.arange(0, 8, 2) * -1.15)
        encoded = torch.stack([apart.sin(), apart.cos()], -1).flatten(1)
        p = self.places(encoded).view(1, 2 * t - 1, 2, 4).transpose(1, 2)
        content = (q + self.u).transpose(1, 2) @ k.permute(0, 2, 3, 1)
        place = (q + self.v).transpose(1, 2) @ p.mT
        place = F.pad(place, (1, 0)).view(b, 2, 2 * t, t)[:, :, 1:].view(b, 2, t, 2 * t - 1)[..., :t]
        found = torch.softmax((content + place) / 2, -1) @ v.transpose(1, 2)
        return self.leave(found.transpose(1, 2).reshape(b, t, 8))


class Conformer(nn.Module):
    """A block for speech: half a step of a dense part, attention, gated convolutions over time, half a step again."""

    def __init__(self) -> None:
        super().__init__()
        self.before, self.after = self.dense(), self.dense()
        self.attention = nn.MultiheadAttention(8, 2, batch_first=True)
        self.norms = nn.ModuleList(nn.LayerNorm(8) for _ in range(3))
        self.gates, self.along = nn.Conv1d(8, 16, 1), nn.Conv1d(8, 8, 5, padding=2, groups=8)
        self.norm, self.across = nn.BatchNorm1d(8), nn.Conv1d(8, 8, 1)

    @staticmethod
    def dense() -> Any:
        """f32[b, t, 8] -> the same"""
        return nn.Sequential(nn.LayerNorm(8), nn.Linear(8, 16), nn.SiLU(), nn.Linear(16, 8))

    def forward(self, x: Any) -> Any:
        """f32[b, t, 8] -> the same"""
        x = x + 0.5 * self.before(x)
        y = self.norms[0](x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        y = F.glu(self.gates(self.norms[1](x).mT), 1)
        x = x + self.across(F.silu(self.norm(self.along(y)))).mT
        return self.norms[2](x + 0.5 * self.after(x))


class Waves(nn.Module):
    """The front end of wav2vec 2: convolutions over samples, normed by groups, then positions by a convolution."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm = nn.Conv1d(1, 8, 10, 5, bias=False), nn.GroupNorm(8, 8)
        self.second, self.layer = nn.Conv1d(8, 8, 3, 2, bias=False), nn.LayerNorm(8)
        self.places = nn.utils.parametrizations.weight_norm(nn.Conv1d(8, 8, 4, padding=2, groups=2), dim=2)

    def forward(self, x: Any) -> Any:
        """f32[b, 160] -> f32[b, 15, 8]"""
        x = F.gelu(self.second(F.gelu(self.norm(self.first(x[:, None])))))
        x = self.layer(x.mT)
        return x + F.gelu(self.places(x.mT)[..., :-1]).mT


class Mel(nn.Module):
    """Logarithms of energies in bands, less their means over time: a front end with overlapping frames."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("window", torch.hamming_window(32))
        self.register_buffer("bands", torch.rand(17, 6))

    def forward(self, x: Any) -> Any:
        """f32[b, 128] -> f32[b, 7, 6]"""
        x = torch.cat([x[:, :1], x[:, 1:] - 0.97 * x[:, :-1]], 1)
        frames = x.unfold(1, 32, 16) * self.window
        energies = torch.log(torch.fft.rfft(frames).abs().square() @ self.bands + 1.0)
        return energies - energies.mean(1, keepdim=True)


class Translation(nn.Module):
    """An encoder and a decoder of embedded tokens, with a causal mask."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(11, 8)
        self.both = nn.Transformer(8, 2, 1, 1, 16, batch_first=True)
        self.head = nn.Linear(8, 11)

    def forward(self, source: Any, target: Any) -> Any:
        """i64[b, 6], i64[b, 5] -> f32[b, 5, 11]"""
        mask = nn.Transformer.generate_square_subsequent_mask(target.shape[1])
        return self.head(self.both(self.embed(source), self.embed(target), tgt_mask=mask, tgt_is_causal=True))
