"""Functions of tensors, with what they take: each uses a few operators of ATen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
import torch
import torch.nn.functional as F

from jfuse.frontends.torch_modules.open_boxes import batched_nms
from tests.models.torch_modules.torchvision_operators import operators

SIZE = jax.export.symbolic_shape("n")[0]
Row = tuple[str, Callable[..., Any], tuple[Any, ...]]


@dataclass(frozen=True)
class Spec:
    """A shape, None where it is open, and a dtype: what a module takes."""

    shape: tuple[Any, ...]
    dtype: Any = np.float32


def f32(*shape: Any) -> Spec:
    return Spec(shape)


def i64(*shape: Any) -> Spec:
    return Spec(shape, np.int64)


class Of(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__()
        self.function = function
        self.eval()

    def forward(self, *arguments: Any) -> Any:
        """The function's results."""
        return self.function(*arguments)


B = None
X, IDS, IMAGE, VOLUME = f32(B, 4, 6), i64(B, 3), f32(B, 4, 8, 8), f32(2, 3, 2, 3, 4)
_RNG = np.random.default_rng(5)


def weights(*shape: int) -> Any:
    """Numbers of a normal distribution."""
    return torch.from_numpy(_RNG.normal(size=shape).astype(np.float32))


W, TABLE, FILTERS, GROUPED = weights(6, 6), weights(8, 5), weights(6, 4, 3, 3), weights(8, 1, 3, 3)
VECTOR, DEEP, VOLUMES = weights(6), weights(8, 1, 3, 3, 3), f32(1, 4, 2, 5, 5)

ELEMENTWISE: tuple[Row, ...] = (
    ("arithmetic", lambda x: (x + 1) * x - x / (2 + x.abs()) + torch.sign(x) * -x + (1 - x), (X,)),
    ("alpha", lambda x: torch.add(x, x * x, alpha=2) - torch.sub(x, 3, alpha=2) + torch.rsub(x, 2.0), (X,)),
    ("powers", lambda x: x**2 + x**3 + x.abs() ** 0.5 + (x.abs() + 1) ** -0.5 + 2**x + x.abs() ** 1.7, (X,)),
    ("exponentials", lambda x: x.exp() + x.expm1() + (x.abs() + 1).log() + x.abs().log1p() + torch.exp2(x), (X,)),
    ("logarithms", lambda x: torch.log2(x.abs() + 1) + torch.log10(x.abs() + 1), (X,)),
    ("roots", lambda x: x.abs().sqrt() + (x.abs() + 1).rsqrt() + x.square() + (x.abs() + 1).reciprocal(), (X,)),
    ("circular", lambda x: x.sin() + x.cos() + x.atan() + torch.atan2(x, x + 3) + x.tanh() + x.sinh(), (X,)),
    ("error functions", lambda x: torch.erf(x) + torch.special.erfc(x) + torch.erfinv(x.tanh()), (X,)),
    ("rounding", lambda x: x.floor() + x.ceil() + x.round() + x.trunc() + (x * 3).round(decimals=1) + x.frac(), (X,)),
    ("comparisons", lambda x: torch.where((x > 0) & ~(x >= 1) | (x == -1), x, -x) + (x < 0) + (x != 2), (X,)),
    ("clips", lambda x: x.clamp(-0.5, 0.5) + x.clamp(min=0.1) + x.clamp(max=-0.1) + torch.maximum(x, -x), (X,)),
    (
        "integers",
        lambda i: i // 2 + i % 3 + (i ^ 1) + (i & 1) + (i | 4) + torch.div(i, 2, rounding_mode="trunc"),
        (IDS,),
    ),
    (
        "promotion",
        lambda x, i: x[:, :3, 0] * i + i / 2 + (i > 1) + i.float() + (i + 0.5) + torch.tensor(2.0) * i,
        (X, IDS),
    ),
    ("as another", lambda x, i: x * i.cumsum(1)[:, :1, None].type_as(x) + i[:, :1, None].to(x), (X, IDS)),
    ("an integer as another", lambda i: (i.ne(1).int().cumsum(1).type_as(i.int()) + i.int()) * i.long(), (IDS,)),
    ("finite", lambda x: x.isfinite().float() + x.isnan() + torch.nan_to_num(x), (X,)),
    (
        "mixtures",
        lambda x: torch.lerp(x, x * 2, 0.3) + torch.addcmul(x, x, x, value=2) + torch.addcdiv(x, x, x.exp()),
        (X,),
    ),
    ("masks", lambda x: x.masked_fill(x > 0, -1.0) + torch.logical_xor(x > 0, x > 1) + torch.logical_not(x > 0), (X,)),
    (
        "division",
        lambda x: torch.div(x, 0.7, rounding_mode="floor") + torch.remainder(x, 0.7) + torch.fmod(x, 0.7),
        (X,),
    ),
    ("in place", lambda x: (x * 2).relu_().add_(1.0).mul_(x), (X,)),
)
ACTIVATIONS: tuple[Row, ...] = (
    ("relus", lambda x: F.relu(x) + F.relu6(x) + F.leaky_relu(x, 0.2) + F.prelu(x, torch.tensor([0.1])), (X,)),
    ("prelu of channels", lambda x: F.prelu(x, torch.tensor([0.1, 0.2, 0.3, 0.4])), (X,)),
    ("exponential units", lambda x: F.elu(x) + F.elu(x, 0.5) + F.selu(x) + F.celu(x, 0.7), (X,)),
    ("smooth", lambda x: F.gelu(x) + F.gelu(x, approximate="tanh") + F.silu(x) + F.mish(x) + F.softplus(x), (X,)),
    ("softplus with beta", lambda x: F.softplus(x, beta=2.0) + F.logsigmoid(x) + torch.sigmoid(x), (X,)),
    ("hard", lambda x: F.hardtanh(x) + F.hardsigmoid(x) + F.hardswish(x) + F.hardtanh(x, -2.0, 0.5), (X,)),
    ("shrinks", lambda x: F.softshrink(x) + F.hardshrink(x) + F.tanhshrink(x) + F.threshold(x, 0.1, 2.0), (X,)),
    ("softmax", lambda x: F.softmax(x, -1) + F.log_softmax(x, 1) + F.softmax(x, 1) + F.softmin(x, 2), (X,)),
    ("random slopes", lambda x: F.rrelu(x) + F.rrelu(x, 0.1, 0.5), (X,)),
    ("gates", lambda x: F.glu(x, -1) + F.glu(x, 1).sum(1, keepdim=True)[..., :3] + F.softsign(x[..., :3]), (X,)),
)
SHAPES: tuple[Row, ...] = (
    ("views", lambda x: x.view(x.shape[0], -1) + x.reshape(-1, 24) + x.flatten(1) + x.shape[0], (X,)),
    ("unflatten", lambda x: x.unflatten(-1, (2, 3)).transpose(1, 2).flatten(2), (X,)),
    ("squeezes", lambda x: x[:, :1].squeeze(1) + x.unsqueeze(1)[:, 0, 0] + x[:, None, 1].squeeze(), (f32(B, 4, 6),)),
    ("permutations", lambda x: x.permute(2, 0, 1).movedim(0, -1).transpose(1, 2).mT + x.swapaxes(1, 2).mT, (X,)),
    ("broadcasts", lambda x: x[:, :1].expand(-1, 4, -1) + x[:, :1].expand_as(x) + x[:, :1].repeat(1, 4, 1), (X,)),
    ("repeats", lambda x: x[:, :2].repeat_interleave(2, dim=1) + x[0].tile(1, 1), (X,)),
    ("joins", lambda x: torch.cat([x, x.new_zeros(x.shape[0], 1, 6), x.flip(1)], 1), (X,)),
    ("stacks", lambda x: torch.stack([x, -x], 1).sum(1) + torch.stack(x.unbind(1), 1), (X,)),
    ("parts", lambda x, i: (*x[:, :1].unbind(1), *i.unbind(1), *i[:, 1:2].unbind(1)), (X, IDS)),
    ("splits", lambda x: (*x.split(4, 2), *x.split([1, 3], 1), *x.chunk(3, -1)), (X,)),
    ("slices", lambda x: x[:, 1:3, ::2] + x[:, -3:-1, 1::2] + x[:, :2, -1:], (X,)),
    ("selects", lambda x: x[:, 1] + x[:, -1] + x.select(1, 0) + x[:, :, 2].sum(1, keepdim=True), (X,)),
    ("pads", lambda x: F.pad(x, (1, 2, 0, 1), value=3.0) + F.pad(F.pad(x, (2, 2, 1, 1)), (-1, 0, -1, 0)), (X,)),
    ("open pads", lambda x: F.pad(x, (0, 0, x.shape[0], 1)), (f32(B, 3),)),
    ("reflections", lambda x: F.pad(x, (1, 2), mode="reflect") + F.pad(x, (1, 2), mode="replicate"), (X,)),
    ("circles", lambda x: F.pad(x, (1, 2), mode="circular") + F.pad(x.roll(1, 2), (1, 2)), (X,)),
    ("ranges", lambda x: x * torch.arange(6) + torch.arange(x.shape[0])[:, None, None] + torch.arange(0, 12, 2), (X,)),
    ("downwards", lambda x: torch.arange(x.shape[0] - 1, -x.shape[0], -1.0) + torch.arange(x.shape[0], 0, -1)[0], (X,)),
    ("open ranges", lambda x: torch.arange(1, 2 * x.shape[0], 2) + torch.full((x.shape[0],), 3), (X,)),
    ("fills", lambda x: torch.zeros_like(x) + torch.ones(x.shape[0], 4, 6) + torch.full_like(x, 2.0), (X,)),
    ("one hot", lambda i: F.one_hot(i, 5), (IDS,)),
    ("triangles", lambda x: x.tril() + x.triu(1) + torch.ones(4, 6).tril(-1), (X,)),
    ("written slices", lambda x: written(x), (X,)),
    ("dict results", lambda x: {"b": x + 1, "a": (x * 2, x), "none": None}, (X,)),
    ("pixel shuffles", lambda x: F.pixel_unshuffle(F.pixel_shuffle(x, 2), 4), (IMAGE,)),
    ("channel shuffle", lambda x: F.channel_shuffle(x, 2), (IMAGE,)),
)


def written(x: Any) -> Any:
    """Writing by slices."""
    y = x.clone()
    y[:, 0] = 1.0
    y[:, 1:3, ::2] = x[:, 1:3, ::2] * 2
    y[..., -1] += 3.0
    return y


REDUCTIONS: tuple[Row, ...] = (
    ("sums", lambda x: x.sum(0) + x.mean((0, 1)) + x.sum() + x.prod(0) + (x > 0).sum(0) + x.mean(), (X,)),
    ("variances", lambda x: x.var(1) + x.std(1, unbiased=False) + torch.var_mean(x, 1)[1] + x.std(1), (X,)),
    ("extremes", lambda x: x.amax(-1) + x.amin(-1) + x.argmax(-1) + x.argmin(-1) + x.max(), (X,)),
    ("pairs", lambda x: (*x.max(1), *x.min(2, keepdim=True)), (X,)),
    ("booleans", lambda x: (x > 0).all(-1).float() + (x > 1).any(-1) + (x > 3).any(), (X,)),
    ("running", lambda x: x.cumsum(1) + x.cumprod(2), (X,)),
    ("open sorts", lambda x: (*x.sort(1, descending=True), x.argsort(1)), (f32(2, None),)),
    ("medians", lambda x: (*x.median(1), *x.median(2, keepdim=True), x.median()), (f32(2, 5, 7),)),
    ("running extremes", lambda x: (*x.cummax(1), *x.cummin(2)), (X,)),
    ("buckets", lambda x: torch.bucketize(x, VECTOR.sort()[0]) + torch.bucketize(x, W[0].sort()[0], right=True), (X,)),
    ("without a rule", lambda x: torch.diff(x) + torch.heaviside(x, torch.tensor(0.5))[..., :5], (X,)),
    ("sorts", lambda x: (*x.sort(1), *x.sort(2, descending=True), *x.topk(3), *x.topk(2, 1, largest=False)), (X,)),
    ("norms", lambda x: x.norm(dim=-1) + torch.linalg.vector_norm(x, 1, dim=-1) + x.logsumexp(-1), (X,)),
    ("unit vectors", lambda x: F.normalize(x, dim=1) + F.cosine_similarity(x, x.flip(1), dim=1)[:, None], (X,)),
)
PRODUCTS: tuple[Row, ...] = (
    (
        "groups of rows",  # PyTorch exports bfloat16 alone; sums of small integers are exact in it
        lambda x, i: F.grouped_mm(
            F.pad(x[0].sign(), (0, 2)).bfloat16(),
            torch.arange(-60, 68).fmod(7).reshape(2, 8, 8).bfloat16(),
            offs=torch.cat([i[0, :1], i[0, :1] * 0 + 4]).int(),
        ).float(),
        (X, IDS),
    ),
    ("linear", lambda x: F.linear(x, W, VECTOR) + F.linear(x, W) + x @ W, (X,)),
    ("vectors", lambda x: x @ VECTOR + VECTOR @ x[0, :1].T + torch.outer(x[0, :, 0], x[0, :, 1])[0], (X,)),
    ("batched", lambda x: torch.bmm(x, x.mT) + torch.einsum("bij,bkj->bik", x, x), (X,)),
    ("addmm", lambda x: torch.addmm(VECTOR, x[:, 0], W, beta=2, alpha=3), (X,)),
    ("attention", lambda x: F.scaled_dot_product_attention(x, x, x), (f32(B, 2, 5, 4),)),
    (
        "causal attention",
        lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3),
        (f32(B, 2, 5, 4),),
    ),
    ("open causal", lambda x: F.scaled_dot_product_attention(x, x, x, is_causal=True), (f32(B, 2, None, 4),)),
    ("masked attention", lambda x: F.scaled_dot_product_attention(x, x, x, x[:, :1, :, :1] > -1), (f32(B, 2, 4, 4),)),
    ("distances", lambda x: torch.cdist(x, x + 1), (f32(2, 4, 6),)),
)
CONVOLUTIONS: tuple[Row, ...] = (
    ("conv2d", lambda x: F.conv2d(x, FILTERS, VECTOR, padding=1), (IMAGE,)),
    ("strides", lambda x: F.conv2d(x, FILTERS, stride=2, padding=(1, 0)), (IMAGE,)),
    ("same", lambda x: F.conv2d(x, FILTERS, padding="same", dilation=2), (IMAGE,)),
    ("depthwise", lambda x: F.conv2d(x, GROUPED, padding=1, groups=4), (IMAGE,)),
    ("groups", lambda x: F.conv2d(x, FILTERS[:, :2], padding=1, groups=2), (f32(2, 4, 8, 8),)),
    ("conv1d", lambda x: F.conv1d(x, FILTERS[:, :, 0], VECTOR, padding=2, dilation=2), (f32(B, 4, 9),)),
    ("open conv1d", lambda x: F.conv1d(x, FILTERS[:, :, 0], stride=2), (f32(B, 4, None),)),
    ("conv3d", lambda x: F.conv3d(x, FILTERS[:, :2, None], padding=(0, 1, 1)), (f32(1, 2, 3, 5, 5),)),
    ("depthwise conv3d", lambda x: F.conv3d(x, DEEP, DEEP[:, 0, 0, 0, 0], padding=1, groups=4), (f32(B, 4, 3, 5, 5),)),
    ("strides of volumes", lambda x: F.conv3d(x, DEEP, None, (2, 1, 2), (1, 1, 0), groups=4), (f32(2, 4, 5, 5, 5),)),
    ("groups of volumes", lambda x: F.conv3d(x, DEEP[:, :, 0].repeat(1, 2, 1, 1)[:, :, None], groups=2), (VOLUMES,)),
    ("transposed", lambda x: F.conv_transpose2d(x, FILTERS.transpose(0, 1), VECTOR, stride=2, padding=1), (IMAGE,)),
    ("more", lambda x: F.conv_transpose2d(x, FILTERS.mT.transpose(0, 1), None, 2, 1, output_padding=1), (IMAGE,)),
    ("transposed in groups", lambda x: F.conv_transpose2d(x, FILTERS[:4, :3], None, 2, groups=2), (f32(2, 4, 5, 5),)),
    ("transposed1d", lambda x: F.conv_transpose1d(x, FILTERS[:, :, 0].transpose(0, 1), None, 2), (f32(B, 4, 7),)),
    ("fold", lambda x: F.fold(F.unfold(x, 3, padding=1, stride=2), (8, 8), 3, padding=1, stride=2), (IMAGE,)),
    ("unfold", lambda x: F.unfold(x, 3, padding=1, stride=2), (f32(2, 4, 8, 8),)),
)
POOLS: tuple[Row, ...] = (
    ("max", lambda x: F.max_pool2d(x, 2) + F.max_pool2d(x, 3, 2, 1), (IMAGE,)),
    ("max with ceil", lambda x: F.max_pool2d(x, 3, 2, ceil_mode=True), (IMAGE,)),
    ("mean", lambda x: F.avg_pool2d(x, 2) + F.avg_pool2d(x, 3, 2, 1), (IMAGE,)),
    ("mean without pads", lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False), (IMAGE,)),
    (
        "mean with ceil",
        lambda x: F.avg_pool2d(x, 3, 2, ceil_mode=True) + F.avg_pool2d(x, 3, 2, 1, True, False)[..., :4, :4],
        (IMAGE,),
    ),
    ("over time", lambda x: F.max_pool1d(x, 2) + F.avg_pool1d(x, 2), (f32(B, 4, 8),)),
    ("adaptive", lambda x: F.adaptive_avg_pool2d(x, 1) + F.adaptive_avg_pool2d(x, 4)[..., :1, :1], (IMAGE,)),
    ("adaptive parts", lambda x: F.adaptive_avg_pool2d(x, (3, 5)) + F.adaptive_max_pool2d(x, (3, 5)), (IMAGE,)),
    ("adaptive1d", lambda x: F.adaptive_avg_pool1d(x, 3) + F.adaptive_max_pool1d(x, 1), (f32(B, 4, 8),)),
    ("volumes", lambda x: F.max_pool3d(x, 2) + F.avg_pool3d(x, 2), (f32(1, 2, 4, 4, 4),)),
    ("padded volumes", lambda x: F.max_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1)), (f32(B, 2, 3, 8, 8),)),
    ("volumes of one size", lambda x: F.max_pool3d(x, 3, 1, 1) + F.max_pool3d(x, (3, 1, 1), 1, (1, 0, 0)), (VOLUME,)),
    ("volumes with ceil", lambda x: F.max_pool3d(x, 2, ceil_mode=True), (f32(1, 2, 3, 5, 4),)),
    ("gaps", lambda x: F.max_pool2d(x, 3, 1, 1, 2) + F.max_pool2d(x, 2, 1, 1, 4), (IMAGE,)),
    ("uneven gaps", lambda x: F.max_pool2d(x, (3, 2), (2, 1), (1, 0), (2, 3), ceil_mode=True), (f32(B, 3, 11, 9),)),
    ("gaps over time", lambda x: F.max_pool1d(x, 3, 2, 1, 2), (f32(B, 3, 9),)),
    ("gaps of open width", lambda x: F.max_pool2d(x, 2, 1, dilation=2), (f32(2, 3, 7, None),)),
    (
        "gaps of volumes and images",
        lambda x: (F.max_pool3d(x, 2, 1, 0, (1, 2, 2)), F.max_pool2d(x[0], 2, 1, 1, 2)),
        (VOLUMES,),
    ),
    ("numbers", lambda x: F.max_pool2d(x, 2, return_indices=True), (IMAGE,)),
    ("numbers of padded windows", lambda x: F.max_pool2d(x, 3, 2, 1, 2, True, return_indices=True), (f32(B, 2, 9, 7),)),
    ("numbers over time", lambda x: F.max_pool1d(x, 3, 2, 1, ceil_mode=True, return_indices=True), (f32(B, 2, 8),)),
    ("numbers of one image", lambda x: F.max_pool2d(x[0], 2, return_indices=True), (f32(1, 4, 8, 8),)),
    ("numbers in volumes", lambda x: F.max_pool3d(x, 2, 1, return_indices=True), (VOLUMES,)),
    ("back", lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2), (IMAGE,)),
    (
        "back with gaps",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 2, 3, return_indices=True), 2, 3, 0, (8, 8)),
        (IMAGE,),
    ),
    ("back over time", lambda x: F.max_unpool1d(*F.max_pool1d(x, 2, return_indices=True), 2), (f32(B, 4, 8),)),
    ("back in volumes", lambda x: F.max_unpool3d(*F.max_pool3d(x, 2, return_indices=True), 2), (f32(2, 2, 2, 4, 4),)),
    (
        "overlapping back",
        lambda x: F.max_unpool2d(*F.max_pool2d(x, 3, 2, 1, return_indices=True), 3, 2, 1, (8, 8)),
        (IMAGE,),
    ),
    ("means of padded volumes", lambda x: F.avg_pool3d(x, 3, 2, 1), (f32(1, 2, 4, 4, 4),)),
)


def sampled(mode: str, pads: str, corners: bool) -> Callable[..., Any]:
    """An image read at places, some of them beyond its edges."""
    return lambda x, grid: F.grid_sample(x, grid, mode, pads, corners)


def antialiased(mode: str, corners: bool, **how: Any) -> Callable[..., Any]:
    """An image of another size, smoothed."""
    return lambda x: F.interpolate(x, mode=mode, align_corners=corners, antialias=True, **how)


RESIZES: tuple[Row, ...] = (
    ("nearest", lambda x: F.interpolate(x, scale_factor=2.0) + F.interpolate(x, size=(16, 16)), (IMAGE,)),
    ("bilinear", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (IMAGE,)),
    ("corners", lambda x: F.interpolate(x, size=(5, 11), mode="bilinear", align_corners=True), (IMAGE,)),
    ("fraction", lambda x: F.interpolate(x, scale_factor=1.3, mode="bilinear"), (IMAGE,)),
    ("nearest from centres", lambda x: F.interpolate(x, size=(5, 11), mode="nearest-exact"), (IMAGE,)),
    ("volumes", lambda x: F.interpolate(x, scale_factor=2.0, mode="trilinear"), (f32(2, 3, 2, 3, 4),)),
    ("volumes by corners", lambda x: F.interpolate(x, size=(3, 5, 4), mode="trilinear", align_corners=True), (VOLUME,)),
    ("near volumes", lambda x: F.interpolate(x, scale_factor=2.0), (VOLUME,)),
    *(
        (f"grid {mode} {pads} {corners}", sampled(mode, pads, corners), (f32(2, 3, 5, 6), f32(2, 4, 3, 2)))
        for mode in ("bilinear", "nearest", "bicubic")
        for pads in ("zeros", "border", "reflection")
        for corners in (False, True)
    ),
    (
        "in a volume",
        lambda x, g: F.grid_sample(x, g, padding_mode="reflection", align_corners=False),
        (VOLUME, f32(2, 2, 3, 2, 3)),
    ),
    ("near in a volume", lambda x, g: F.grid_sample(x, g, "nearest", align_corners=True), (VOLUME, f32(2, 1, 3, 2, 3))),
    (
        "turned volumes",
        lambda x, t: F.grid_sample(x, F.affine_grid(t, x.shape, False), align_corners=False),
        (VOLUME, f32(2, 3, 4)),
    ),
    ("bicubic", lambda x: F.interpolate(x, scale_factor=2.0, mode="bicubic"), (IMAGE,)),
    *(
        (f"antialiased {mode} {corners} {how}", antialiased(mode, corners, **how), (f32(B, 3, 16, 13),))
        for mode in ("bilinear", "bicubic")
        for corners in (False, True)
        for how in ({"size": (6, 5)}, {"size": (20, 4)}, {"scale_factor": (0.3, 1.7)})
    ),
    ("linear", lambda x: F.interpolate(x, size=11, mode="linear") + F.interpolate(x, size=11), (f32(B, 4, 8),)),
    ("open", lambda x: F.interpolate(x, scale_factor=2.0, mode="bilinear"), (f32(1, 3, None, None),)),
)
NORMALIZATIONS: tuple[Row, ...] = (
    ("batch", lambda x: F.batch_norm(x, weights_of(4), weights_of(4) ** 2, weights_of(4), None), (IMAGE,)),
    ("layer", lambda x: F.layer_norm(x, (6,), VECTOR, VECTOR) + F.layer_norm(x, (4, 6)), (X,)),
    ("group", lambda x: F.group_norm(x, 2, weights_of(4), weights_of(4)), (IMAGE,)),
    (
        "native group",
        lambda x: torch.native_group_norm(x, weights_of(4), None, x.shape[0], 4, 64, 2, 1e-5)[0],
        (IMAGE,),
    ),
    ("instance", lambda x: F.instance_norm(x, weight=weights_of(4)), (IMAGE,)),
    ("root mean square", lambda x: F.rms_norm(x, (6,), VECTOR) + F.rms_norm(x, (6,), eps=1e-5), (X,)),
    ("local response", lambda x: F.local_response_norm(x, 3), (IMAGE,)),
)


def weights_of(count: int) -> Any:
    """A few numbers."""
    return torch.linspace(0.5, 2.0, count)


INDEXING: tuple[Row, ...] = (
    ("rows of a table", lambda i: F.embedding(i, TABLE) + TABLE[i], (IDS,)),
    ("columns of a table", lambda i: TABLE[:, i], (IDS,)),
    ("pairs", lambda x, i: x[torch.arange(x.shape[0])[:, None], i], (X, IDS)),
    (
        "along an axis",
        lambda x, i: torch.gather(x[:, :, 0], 1, i) + x[:, :, 0].take_along_dim(i, 1),
        (f32(2, 4, 6), i64(2, 3)),
    ),
    ("index select", lambda x, i: x.index_select(1, i[0]) + x[:, [0, 1, -1]], (X, IDS)),
    ("two axes", lambda x, i: x[:, i[0], i[0]], (X, IDS)),
    ("one place", lambda x, i: x[:, i[0, 0]], (X, IDS)),
    ("where a mask holds", lambda x, i: (x[x > 0], x[i[:, 0] > 0], torch.masked_select(x, x[:, :1] > 0)), (X, IDS)),
    ("places of a mask", lambda x: (*torch.where(x > 0), torch.nonzero(x[0, 0] > 0)), (X,)),
    ("copied slices", lambda x, i: x.index_copy(1, i[0, :1], x[:, :1] * 2).index_copy(2, i[1], x[..., 3:]), (X, IDS)),
    ("bags", lambda i: F.embedding_bag(i, TABLE) + F.embedding_bag(i, TABLE, mode="sum", padding_idx=1), (IDS,)),
    ("open bags", lambda i: F.embedding_bag(i.flatten(), TABLE, torch.tensor([0, 2, 2, 5])), (IDS,)),
    ("scatters", lambda x, i: x[:, :, 0].scatter(1, i[:, :1], 9.0).scatter_add(1, i, x[:, :3, 1]), (X, IDS)),
    ("added slices", lambda x, i: x.index_add(1, i[0], x[:, :3] * 2), (X, IDS)),
    ("windows", lambda x: x.unfold(2, 3, 2) * 2, (X,)),
    ("open windows", lambda x: x.unfold(1, 3, 2) * 2, (f32(2, None),)),
    ("written rows", lambda x, i: x[0].index_put((i[0, :1],), x[0, :1] * 2), (X, IDS)),
)


def regions(sampling_ratio: int, aligned: bool) -> Callable[..., Any]:
    """Features of regions, of which some reach beyond the image."""

    def found(x: Any, boxes: Any) -> Any:
        image = torch.arange(2.0).repeat_interleave(3)[:, None]
        rois = torch.cat([image, boxes.flatten(0, 1) * 9 + torch.tensor([0.0, 0.0, 9.0, 9.0])], 1)
        return operators().roi_align(x, rois, 0.5, 3, 2, sampling_ratio, aligned)

    return found


def largest_of_regions(x: Any, boxes: Any) -> Any:
    """Of regions of which some reach beyond the image."""
    image = torch.arange(2.0).repeat_interleave(3)[:, None]
    rois = torch.cat([image, boxes.flatten(0, 1) * 9 + torch.tensor([0.0, 0.0, 9.0, 9.0])], 1)
    return operators().roi_pool(x, rois, 0.5, 3, 2)[0]


REGIONS = torch.tensor([[0.0, 1.0, 2.0, 9.0, 7.0], [1.0, -3.0, 0.0, 4.0, 15.0]])
BOXES, SCORES = f32(SIZE, 4), f32(SIZE)
DETECTION: tuple[Row, ...] = (
    *((f"regions {r} {a}", regions(r, a), (f32(2, 3, 9, 7), f32(2, 3, 4))) for r in (1, 2) for a in (False, True)),
    ("largest of regions", lambda x, b: largest_of_regions(x, b), (f32(2, 3, 9, 7), f32(2, 3, 4))),
    ("fixed regions", lambda x: operators().roi_align(x, REGIONS, 0.5, 3, 2, -1, True), (f32(2, 3, 9, 7),)),
    ("fixed small regions", lambda x: operators().roi_align(x, REGIONS, 0.1, 3, 2, -1, False), (f32(2, 3, 9, 7),)),
    ("suppression", lambda b, s: operators().nms(boxes_of(b), s, 0.3), (f32(20, 4), f32(20))),
    ("suppression of equal scores", lambda b, s: operators().nms(boxes_of(b), s.round(), 0.3), (f32(20, 4), f32(20))),
    ("corners in any order", lambda b, s: operators().nms(b, s, 0.1), (f32(20, 4), f32(20))),
    ("suppression by classes", lambda b, s: in_classes(b, s), (f32(20, 4), f32(20))),
    ("no box at all", lambda b, s: chosen_corners(b, s), (f32(9, 4), f32(9))),
    ("any number", lambda b, s: operators().nms(boxes_of(b), s, 0.5)[:4], (BOXES, SCORES)),
    ("no suppression", lambda b, s: operators().nms(boxes_of(b), s, 1.0), (f32(9, 4), f32(9))),
    ("each by itself", lambda b, s: operators().nms(boxes_of(b), s, 0.0), (f32(9, 4), f32(9))),
)


def in_classes(boxes: Any, scores: Any) -> Any:
    """Suppression among boxes of one class."""
    operators()
    return batched_nms(boxes_of(boxes), scores, (scores > 0).long(), 0.3)


def chosen_corners(boxes: Any, scores: Any) -> Any:
    """Corners of the boxes whose score is high, which none may have."""
    few, none = boxes[scores > 0.5], boxes[scores > 9]
    return (*few.unbind(1), *none.unbind(1), *none[None].unbind(0))


def boxes_of(x: Any) -> Any:
    """Boxes by centre and size."""
    return torch.cat([x[:, :2] - x[:, 2:].abs(), x[:, :2] + x[:, 2:].abs()], 1)


def steps(x: Any, count: int, *more: Any) -> tuple[Any, ...]:
    """As many scales and zero points."""
    return x, torch.linspace(0.01, 0.03, count), torch.arange(count, dtype=torch.int32) - 1, *more


FAKE = torch.fake_quantize_per_tensor_affine
BY_CHANNEL = torch.fake_quantize_per_channel_affine
TRAINED: tuple[Row, ...] = (
    ("one range", lambda x: FAKE(x, 0.02, 3, -128, 127) + FAKE(x, 0.01, 120, 0, 255), (X,)),
    (
        "symmetric",
        lambda x: FAKE(x, 0.02, 0, -127, 127) + FAKE(x, 0.2, 0, -8, 7) + FAKE(x, 1e-4, 0, -32768, 32767),
        (X,),
    ),
    ("no type", lambda x: FAKE(x, 0.02, 3, -100, 27) + FAKE(x, 0.1, 2, 0, 20), (X,)),
    ("tensors", lambda x: FAKE(x, torch.tensor(0.02), torch.tensor(3, dtype=torch.int32), -128, 127), (X,)),
    ("channels", lambda x: BY_CHANNEL(*steps(x, 6, 2, -128, 127)) + BY_CHANNEL(*steps(x, 4, 1, -8, 7)), (X,)),
    ("weights", lambda x: F.linear(FAKE(x, 0.02, 3, -128, 127), BY_CHANNEL(*steps(W, 6, 0, -127, 127))), (X,)),
    ("a computed scale", lambda x: FAKE(x, x.abs().max() / 127, torch.tensor(0, dtype=torch.int32), -127, 127), (X,)),
)
DISTINCT: tuple[Row, ...] = (
    ("elements", lambda i: torch.unique(i), (IDS,)),
    ("real elements", lambda x: torch.unique(x.round()), (X,)),
    ("all of them", lambda i: torch.unique(i * 5 % 7 - 2, return_inverse=True, return_counts=True), (i64(None, 4),)),
    ("slices", lambda i: torch.unique(i, dim=0, return_inverse=True, return_counts=True), (i64(B, 2),)),
    ("columns", lambda i: torch.unique(i[:3], dim=1, return_inverse=True), (i64(3, None),)),
    ("runs", lambda i: torch.unique_consecutive(i, return_inverse=True, return_counts=True), (IDS,)),
    ("runs of slices", lambda i: torch.unique_consecutive(i, return_counts=True, dim=0), (i64(B, 1),)),
)
SIGNALS: tuple[Row, ...] = (
    ("spectrum", lambda x: torch.fft.rfft(x).abs() + torch.fft.rfft(x, norm="ortho").real, (X,)),
    ("and back", lambda x: torch.fft.irfft(torch.fft.rfft(x, n=8), n=8), (X,)),
    (
        "frames",
        lambda x: torch.stft(x, 16, 4, window=torch.hann_window(16), return_complex=True).abs() ** 2,
        (f32(2, 64),),
    ),
    (
        "narrow frames",
        lambda x: torch.view_as_real(torch.stft(x, 16, 8, 12, torch.ones(12), center=False, return_complex=True)),
        (f32(2, 40),),
    ),
)
