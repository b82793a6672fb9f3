"""Pools over images and volumes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.nn.windows import window_counts
from jfuse.lowering.rule_tools.image_layout import (
    PoolAttributes,
    as_in,
    channels_last,
    fixed_sides,
    on_images,
    padded,
    taps,
)
from jfuse.lowering.rule_tools.query import dtype, rank, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers

# What MAX_POOL_2D takes, in 16-bit floats by way of f32.
_POOLED = frozenset({DType.f32, DType.f16, DType.bf16, DType.i8, DType.i16, DType.u8})


@lowers("MaxPool")
def lower_max_pool(x: Array, *, how: PoolAttributes) -> Array:
    """The largest element of each window.   number[b,h,w,c] (or number[b,c,h,w])"""
    if _depth(how) != 1:
        return _max_over_channels(channels_last(x, how.layout), how)
    _refuse_batches(how.ksize)

    def pool(image: Array, padding: str) -> Array:
        return max_pool(image, how.window, how.steps, padding)

    return on_images(x, pool, how.window, how, least(dtype(x)))


@lowers("MaxPoolV2")
def lower_max_pool_v2(x: Array, ksize: Array, strides: Array, *, padding: str, data_format: str = "NHWC") -> Array:
    """As MaxPool, the window given by operands."""
    return lower_max_pool(
        x, ksize=static(ksize, "ksize"), strides=static(strides, "strides"), padding=padding, data_format=data_format
    )


@lowers("MaxPoolWithArgmax")
def lower_max_pool_with_argmax(
    x: Array, *, how: PoolAttributes, Targmax: DType = DType.i64, include_batch_in_index: bool = False
) -> tuple[Array, Array]:
    """The largest element of each window, and where it stands, counted through f[h,w,c] or f[b,h,w,c]."""
    _refuse_batches(how.ksize)
    window, steps, padding = how.window, how.steps, how.padding
    sides = fixed_sides(x, window, steps, (1, 1)) if padding == "SAME" else ((0, 0), (0, 0))
    inner = padded(x, sides, least(dtype(x))) if padding == "SAME" else x
    places = ops.arg_max(ops.pack(*taps(inner, window, steps, (1, 1)), axis=0), np.int32(0), output_type=DType.i32)
    first, distances = _counted(x, window, steps, [before for before, _ in sides], include_batch_in_index, padding)
    positions = ops.add(ops.gather(distances, places, axis=0), first)
    return max_pool(x, window, steps, padding), ops.cast(positions, out_data_type=Targmax)


@lowers("AvgPool")
def lower_avg_pool(value: Array, *, how: PoolAttributes) -> Array:
    """The mean of each window, of its elements within the image.   f[b,h,w,c] (or f[b,c,h,w])"""
    _refuse_batches(how.ksize)
    if _depth(how) != 1:
        actual = f"ksize {tuple(how.ksize)}"
        raise LowerError("a mean over channels as a pool", found=actual, remedy="use tf.reduce_mean")

    def pool(image: Array, padding: str) -> Array:
        return average_pool(image, how.window, how.steps, padding)

    return on_images(value, pool, how.window, how)


@lowers("MaxPool3D")
def lower_max_pool_3d(x: Array, *, how: PoolAttributes) -> Array:
    """The largest element of each window.   f[b,d,h,w,c] (or f[b,c,d,h,w])"""
    return _pool_3d(x, max_pool, how)


@lowers("AvgPool3D")
def lower_avg_pool_3d(x: Array, *, how: PoolAttributes) -> Array:
    """The mean of each window, of its elements within the volume.   f[b,d,h,w,c] (or f[b,c,d,h,w])"""
    return _pool_3d(x, average_pool, how)


Pool = Callable[[Array, Sequence[int], Sequence[int], str], Array]


def max_pool(image: Array, window: Sequence[int], strides: Sequence[int], padding: str) -> Array:
    """The largest element of each window.   number[b,h,w,c] -> number[b,h',w',c]"""
    if dtype(image) in _POOLED:
        return ops.max_pool_2d(image, **_options(window, strides, padding))
    if padding == "SAME":
        image = padded(image, fixed_sides(image, window, strides, (1, 1)), least(dtype(image)))
    shape, steps = (np.array((1, *v, 1), np.int64) for v in (window, strides))
    init = np.array(least(dtype(image)), dtype(image).numpy)
    return ops.reduce_window(image, init, shape, steps, np.ones(4, np.int64), reduce_function="MAXIMUM")


def average_pool(image: Array, window: Sequence[int], strides: Sequence[int], padding: str) -> Array:
    """The mean of each window.   f[b,h,w,c] -> f[b,h',w',c]"""
    return ops.average_pool_2d(image, **_options(window, strides, padding))


def least(kind: DType) -> float:
    """The least value of a dtype, the identity of the maximum."""
    return float(-np.inf) if kind.is_float else np.iinfo(kind.numpy).min


def _options(window: Sequence[int], strides: Sequence[int], padding: str) -> dict[str, Any]:
    (height, width), (stride_h, stride_w) = window, strides
    sizes = {"filter_height": height, "filter_width": width, "stride_h": stride_h, "stride_w": stride_w}
    return {"padding": padding, **sizes}


def _pool_3d(x: Array, pool: Pool, how: PoolAttributes) -> Array:
    """A pool over height and width, then one over depth: each image of a volume is an image of the batch first.

    Largest elements and means of boxes are those of their slices, all slices of a box being of one size.
    """
    _refuse_batches(how.ksize)
    volume = channels_last(x, how.layout)
    (depth, *window), (step, *steps) = how.window, how.steps
    if any(v != 1 for v in (*window, *steps)):
        batch, slices, *image = volume.shape
        pooled = pool(shaped(volume, (batch * slices, *image), volume), window, steps, how.padding)
        volume = shaped(pooled, (batch, slices, *pooled.shape[1:]), volume)
    if depth != 1 or step != 1:
        batch, slices, height, width, channels = volume.shape
        flat = shaped(volume, (batch, slices, height * width, channels), volume)
        pooled = pool(flat, (depth, 1), (step, 1), how.padding)
        volume = shaped(pooled, (batch, pooled.shape[1], height, width, channels), volume)
    return as_in(volume, how.layout)


def _depth(how: PoolAttributes) -> int:
    """How many channels a window has."""
    return how.ksize[how.layout.index("C")]


def _max_over_channels(images: Array, how: PoolAttributes) -> Array:
    """The largest of the channels that stand together in a window.   TensorFlow knows no overlaps here."""
    if any(size != 1 for size in how.window):
        raise LowerError("pooling over pixels and channels at once", found=f"ksize {tuple(how.ksize)}")
    count = _depth(how)
    *pixels, channels = images.shape
    parts = shaped(images, (*pixels, channels // count, count), images)
    return as_in(ops.reduce_max(parts, np.array([rank(parts) - 1], np.int32)), how.layout)


def _counted(
    x: Array, window: Sequence[int], strides: Sequence[int], before: Sequence[int], batches: bool, padding: str
) -> tuple[np.ndarray, np.ndarray]:
    """The number of each window's first element, and the distance of its others from that."""
    batch, *sizes = x.shape
    if not all(map(is_known, (*sizes, batch if batches else 0))):
        raise LowerError(
            "the places of largest elements in an image of open size",
            found=str(type_of(x)),
            remedy="fix the sizes of the model's input",
        )
    height, width, channels = sizes
    counts = window_counts(sizes[:2], window, strides, (1, 1), padding)
    pixels, distances = numbers_in_windows((height, width), counts, window, strides, (1, 1), before)
    first = pixels[..., None] * channels + np.arange(channels, dtype=np.int32)
    if batches:
        first = first + np.arange(batch, dtype=np.int32)[:, None, None, None] * (height * width * channels)
    return first, distances * np.int32(channels)


def numbers_in_windows(
    sizes: Sequence[int],
    counts: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    before: Sequence[int],
) -> tuple[np.ndarray, np.ndarray]:
    """The number of each window's first pixel, row by row, and the distance of its others from that.

    One entry for each spatial axis.   counts: of windows; before: the width of the padding -> i32[counts], i32[n]
    """
    steps = [int(np.prod(sizes[axis + 1 :])) for axis in range(len(sizes))]
    starts = (np.arange(n) * s - b for n, s, b in zip(counts, strides, before, strict=True))
    others = (np.arange(w) * d for w, d in zip(window, dilations, strict=True))
    first, distances = (
        sum(np.meshgrid(*(v * step for v, step in zip(lines, steps, strict=True)), indexing="ij"))
        for lines in (starts, others)
    )
    return np.asarray(first, np.int32), np.asarray(distances, np.int32).reshape(-1)


def _refuse_batches(ksize: Sequence[int]) -> None:
    if ksize[0] != 1:
        raise LowerError(
            "pooling over the batch", found=f"ksize {tuple(ksize)}", remedy="use tf.reduce_max or tf.reduce_mean"
        )
