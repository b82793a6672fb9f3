"""Pools over images, whose channels are axis 1."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, product
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.kernels.nn.windows import extent
from jfuse.lowering.from_jax.shapes import lower_pad
from jfuse.lowering.from_torch.convolution import Steps, entries
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import broadcast_value, lower_slice_, lower_unsqueeze, to_last, transposed
from jfuse.lowering.ops.linalg.matmul import matrix_product
from jfuse.lowering.ops.nn.pool import least, numbers_in_windows
from jfuse.lowering.rule_tools.image_layout import known_padding
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import DEFAULT, lowers_torch


def _windows(
    x: Array, kernel: Steps, stride: Steps, padding: Steps, ceil_mode: bool, count: int, dilation: Steps = 1
) -> tuple[list[int], list[int], list[tuple[int, int]]]:
    """Sizes, strides and paddings; in ceil_mode with as much more at the end as the last windows need."""
    sizes = entries(kernel, count)
    steps = entries(stride, count) if stride else sizes
    reaches = map(extent, sizes, entries(dilation, count))
    sides = []
    for size, window, step, width in zip(x.shape[-count:], reaches, steps, entries(padding, count), strict=True):
        more = 0
        if ceil_mode:
            if not is_known(size):
                raise LowerError("ceil_mode over an open size", found=str(type_of(x)), remedy="fix height and width")
            total = int(size) + 2 * width
            windows = -(-(total - window) // step) + 1
            windows -= (windows - 1) * step >= int(size) + width  # the last one starts within the image
            more = max((windows - 1) * step + window - total, 0)
        sides.append((width, width + more))
    return list(sizes), list(steps), sides


def _pool(name: str, x: Array, sizes: list[int], steps: list[int], sides: list[tuple[int, int]]) -> Array:
    """TensorFlow's pool; over one axis as over images of height 1."""
    count = len(sizes)
    if rank(x) == count + 1:  # one image
        pooled = _pool(name, lower_unsqueeze(x, 0), sizes, steps, sides)
        return shaped(pooled, tuple(pooled.shape[1:]), x, *sources())
    if count == 1:
        wide = lower_unsqueeze(x, 2)
        pooled = _pool(name, wide, [1, *sizes], [1, *steps], [(0, 0), *sides])
        return shaped(pooled, (*pooled.shape[:2], *pooled.shape[3:]), x, *sources())
    if count == 3:  # TensorFlow's pools over volumes take no paddings of one's own
        padding = padding_of(x, sizes, steps, sides)
        if padding == "EXPLICIT":
            x, padding = _padded(x, sides, least(dtype(x))), "VALID"
        volumes = DEFAULT.lowers[name + "3D"]
        return volumes(x, ksize=(1, 1, *sizes), strides=(1, 1, *steps), data_format="NCDHW", padding=padding)
    flat = [w for pair in sides for w in pair]
    return DEFAULT.lowers[name](
        x,
        ksize=(1, 1, *sizes),
        strides=(1, 1, *steps),
        data_format="NCHW",
        **({"padding": "EXPLICIT", "explicit_paddings": (0, 0, 0, 0, *flat)} if any(flat) else {"padding": "VALID"}),
    )


def _max_pool(count: int) -> None:
    def lower(
        x: Array,
        kernel: Steps,
        stride: Steps = (),
        padding: Steps = 0,
        dilation: Steps = 1,
        ceil_mode: bool = False,
    ) -> Array:
        windows = _windows(x, kernel, stride, padding, ceil_mode, count, dilation)
        if any(d != 1 for d in entries(dilation, count)):
            return _dilated_max(x, *windows, entries(dilation, count))
        return _pool("MaxPool", x, *windows)

    lower.__doc__ = f"The largest element of each window over {count} axes."
    lowers_torch(f"aten.max_pool{count}d")(lower)


def _dilated_max(
    x: Array, sizes: list[int], steps: list[int], sides: list[tuple[int, int]], dilations: Sequence[int]
) -> Array:
    """The largest elements along one axis after the other: of slices, one for each element of a window."""
    x = _padded(x, sides, least(dtype(x)))
    for number, (size, step, dilation) in enumerate(zip(sizes, steps, dilations, strict=True)):
        x = reduce(ops.maximum, _taps(x, rank(x) - len(sizes) + number, size, step, dilation))
    return x


def _taps(x: Array, axis: int, size: int, step: int, dilation: int) -> list[Array]:
    """For each element of a window what all windows along an axis hold there."""
    taps_, others = [], (1 << rank(x)) - 1 & ~(1 << axis)
    steps = np.array([step if i == axis else 1 for i in range(rank(x))], np.int32)
    for begin in range(0, extent(size, dilation), dilation):
        end = begin - extent(size, dilation) + 1  # counted from the end; 0 is the end
        bounds = (np.array([v if i == axis else 0 for i in range(rank(x))], np.int32) for v in (begin, end))
        masks = {"begin_mask": others, "end_mask": others if end else others | 1 << axis}
        taps_.append(ops.strided_slice(x, *bounds, steps, **masks))
    return taps_


def _max_pool_with_indices(count: int) -> None:
    def lower(
        x: Array, kernel: Steps, stride: Steps = (), padding: Steps = 0, dilation: Steps = 1, ceil_mode: bool = False
    ) -> Any:
        pooled = DEFAULT.lowers_torch[f"aten.max_pool{count}d"](x, kernel, stride, padding, dilation, ceil_mode)
        if not all(map(is_known, x.shape[-count:])):
            return pooled, None
        sizes, steps, sides = _windows(x, kernel, stride, padding, ceil_mode, count, dilation)
        gaps, counts = entries(dilation, count), [int(d) for d in pooled.shape[-count:]]
        taps = [_padded(x, sides, least(dtype(x)))]
        for number, how in enumerate(zip(sizes, steps, gaps, strict=True)):
            taps = [tap for v in taps for tap in _taps(v, rank(x) - count + number, *how)]
        which = ops.arg_max(ops.pack(*taps, axis=0), np.int32(0), output_type=DType.i32)
        spatial, before = [int(d) for d in x.shape[-count:]], [low for low, _ in sides]
        first, distances = numbers_in_windows(spatial, counts, sizes, steps, gaps, before)
        return pooled, as_type(ops.add(ops.gather(distances, which, axis=0), first), DType.i64)

    lower.__doc__ = (
        "The largest element of each window, and its number among those of its channel where sizes are known."
    )
    lowers_torch(f"aten.max_pool{count}d_with_indices")(lower)


def _avg_pool(count: int) -> None:
    def lower(
        x: Array,
        kernel: Steps,
        stride: Steps = (),
        padding: Steps = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> Array:
        sizes, steps, sides = _windows(x, kernel, stride, padding, ceil_mode, count)
        within = padding_of(x, sizes, steps, sides) if not count_include_pad else ""
        if within == "SAME":  # TensorFlow's mean is of elements within the image, too
            return _pool("AvgPool", x, sizes, steps, sides)
        pooled = _pool("AvgPool", _padded(x, sides), sizes, steps, [(0, 0)] * count)
        if divisor_override is not None:
            return ops.mul(pooled, scalar(np.prod(sizes) / divisor_override, x))
        shares = _shares(x, sizes, steps, sides, entries(padding, count), count_include_pad)
        return pooled if shares is None else ops.div(pooled, shares)

    lower.__doc__ = f"The mean of each window over {count} axes."
    lowers_torch(f"aten.avg_pool{count}d")(lower)


for _count in (1, 2, 3):
    _max_pool(_count)
    _max_pool_with_indices(_count)
    _avg_pool(_count)


def _padded(x: Array, sides: list[tuple[int, int]], value: float = 0) -> Array:
    """x with a value around its last axes; channels are last there, as they are for the pool."""
    if not any(w for pair in sides for w in pair):
        return x
    channel = rank(x) - len(sides) - 1
    wide = [(0, 0, 0)] * channel + [(*pair, 0) for pair in sides] + [(0, 0, 0)]
    order = [i for i in range(rank(x)) if i != channel] + [channel]
    images = lower_pad(transposed(x, order), scalar(value, x), padding_config=wide)
    return transposed(images, [int(i) for i in np.argsort(order)])


def padding_of(x: Array, sizes: list[int], steps: list[int], sides: list[tuple[int, int]]) -> str:
    """Return TensorFlow's name for these paddings."""
    return known_padding(x.shape[-len(sizes) :], sizes, steps, (1,) * len(sizes), tuple(sides))


def _shares(
    x: Array,
    sizes: list[int],
    steps: list[int],
    sides: list[tuple[int, int]],
    padding: Sequence[int],
    counts_padding: bool,
) -> Any:
    """The share of each window that PyTorch counts, of what was padded; None where that is all."""
    if not any(w for pair in sides for w in pair):
        return None
    shares = np.ones((), np.float32)
    for size, window, step, pair, width in zip(x.shape[-len(sizes) :], sizes, steps, sides, padding, strict=True):
        if counts_padding and pair == (width, width):
            row = np.ones(1, np.float32)
        elif not is_known(size):
            raise LowerError("a mean without its padding over an open size", remedy="fix height and width")
        else:
            inner = np.ones(int(size) + (2 * width if counts_padding else 0), np.float32)
            around = (0, pair[1] - width) if counts_padding else pair
            padded = np.pad(inner, around)
            starts = range(0, len(padded) - window + 1, step)
            row = np.array([padded[s : s + window].mean() for s in starts], np.float32)
        shares = np.multiply.outer(shares, row)
    return None if (shares == 1).all() else shares


@lowers_torch("aten.max_unpool2d", "aten.max_unpool3d")
def lower_max_unpool(
    x: Array, indices: Array, output_size: Sequence[Dim], stride: Steps = (), padding: Steps = ()
) -> Array:
    """The elements at their numbers among those of their channel, 0 elsewhere.   x: f[n, c, …] or f[c, …]"""
    before = tuple(x.shape[: rank(x) - len(output_size)])
    rows = (*before, product(tuple(x.shape[len(before) :])))
    empty = broadcast_value(np.zeros((), dtype(x).numpy), (*before, product(tuple(output_size))))
    places, elements = (shaped(v, rows, v, *sources()) for v in (indices, x))
    filled = DEFAULT.lowers_torch["aten.scatter"](empty, -1, places, elements)
    return shaped(filled, (*before, *output_size), x, *sources())


@lowers_torch(*(f"aten.{form}adaptive_avg_pool{n}d" for n in (1, 2, 3) for form in ("", "_")))
def lower_adaptive_avg_pool(x: Array, output: Steps) -> Array:
    """Means of so many parts: one for all, equal windows, or products with the shares of each element."""
    count = 1 if isinstance(output, int) else len(output)
    sizes_ = entries(output, count)
    axes = range(rank(x) - count, rank(x))
    if all(w == 1 for w in sizes_):
        return ops.mean(x, np.asarray(list(axes), np.int32), keep_dims=True)
    sizes = [x.shape[a] for a in axes]
    if count > 1 and all(is_known(d) and int(d) % w == 0 for d, w in zip(sizes, sizes_, strict=True)):
        windows = [int(d) // w for d, w in zip(sizes, sizes_, strict=True)]
        return x if all(w == 1 for w in windows) else _pool("AvgPool", x, windows, windows, [(0, 0)] * count)
    for axis, size, parts in zip(axes, sizes, sizes_, strict=True):
        shares = _parts(size, parts)
        x = to_last(x, axis, lambda v, m=shares: matrix_product(v, m, False, True))  # type: ignore[misc]
    return x


def _bounds(size: Dim, parts: int) -> list[tuple[int, int]]:
    """Where each part begins and ends."""
    if not is_known(size):
        raise LowerError("an adaptive pool over an open size", remedy="fix height and width, or pool to one element")
    return [(i * int(size) // parts, -(-(i + 1) * int(size) // parts)) for i in range(parts)]


def _parts(size: Dim, parts: int) -> np.ndarray:
    shares = np.zeros((parts, int(size) if is_known(size) else 0), np.float32)
    for row, (begin, end) in enumerate(_bounds(size, parts)):
        shares[row, begin:end] = 1 / (end - begin)
    return shares


@lowers_torch("aten.adaptive_max_pool1d", "aten.adaptive_max_pool2d", "aten.adaptive_max_pool3d")
def lower_adaptive_max_pool(x: Array, output: Steps) -> Any:
    """The largest elements of so many parts; nobody may ask for their places."""
    count = 1 if isinstance(output, int) else len(output)
    for axis, parts in zip(range(rank(x) - count, rank(x)), entries(output, count), strict=True):
        if parts == 1:
            x = ops.reduce_max(x, np.array([axis], np.int32), keep_dims=True)
            continue
        slices = [lower_slice_(x, axis, begin, end) for begin, end in _bounds(x.shape[axis], parts)]
        largest = [ops.reduce_max(s, np.array([axis], np.int32), keep_dims=True) for s in slices]
        x = ops.concatenation(*largest, axis=axis)
    return x, None
