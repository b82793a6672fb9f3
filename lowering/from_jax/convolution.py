"""conv_general_dilated, in any layout: channels go last, filters as TensorFlow has them, then TensorFlow's rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, product
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import as_dtype, lower_pad
from jfuse.lowering.ops.nn.pool import average_pool, least, max_pool
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import DEFAULT, lowers_jax

_MOST_AXES = 3
_EXACT_PRODUCTS = 2**24 // 2**14  # of two numbers of 8 bits, whose sum f32 has all integers for


@dataclass(frozen=True)
class _Steps:
    """One entry for each spatial axis.   between: the distance of pixels of the image, spacing: of taps of a filter"""

    strides: tuple[int, ...]
    padding: tuple[tuple[int, int], ...]
    between: tuple[int, ...]
    spacing: tuple[int, ...]


@lowers_jax("conv_general_dilated")
def lower_conv(
    x: Array,
    weights: Array,
    *,
    window_strides: Sequence[int],
    padding: Sequence[tuple[int, int]],
    lhs_dilation: Sequence[int],
    rhs_dilation: Sequence[int],
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    preferred_element_type: Any = None,
) -> Array:
    """x: f[b, spatial…, c] and weights: f[spatial…, c/groups, o] in the layouts that dimension_numbers says.

    lhs_dilation: pixels of zeros go between those of the image, as in a transposed convolution.
    preferred_element_type: that of the result; integers of 8 bits that make i32 are exact in f32.
    """
    result_type = dtype(x) if preferred_element_type is None else DType.of(np.dtype(preferred_element_type))
    summed = product(tuple(d for i, d in enumerate(weights.shape) if i != dimension_numbers.rhs_spec[0]))
    is_exact = dtype(x) is dtype(weights) is DType.i8 and result_type is DType.i32 and summed <= _EXACT_PRODUCTS
    x, weights = (as_dtype(v, DType.f32 if is_exact else result_type) for v in (x, weights))
    lhs, rhs, out = dimension_numbers.lhs_spec, dimension_numbers.rhs_spec, dimension_numbers.out_spec
    image = _ordered(x, (lhs[0], *lhs[2:], lhs[1]))
    if batch_group_count != 1:  # jax has groups of one kind alone
        image, feature_group_count = _groups_as_channels(image, batch_group_count), batch_group_count
    filters = _ordered(weights, (*rhs[2:], rhs[1], rhs[0]))
    count = len(window_strides)
    sides = tuple((low, high) for low, high in padding)
    how = _Steps(tuple(window_strides), sides, tuple(lhs_dilation), tuple(rhs_dilation))
    if count == 1:  # an image of height 1
        image = ops.expand_dims(image, np.int32(1))  # whose sizes are known before the file runs
        filters = shaped(filters, (1, *filters.shape), *sources())
        how = _Steps((1, *how.strides), ((0, 0), *sides), (1, *how.between), (1, *how.spacing))
    if count > _MOST_AXES:
        raise LowerError("a convolution over more than three axes", found=str(type_of(x)))
    result = _convolved(image, filters, how, feature_group_count)
    if count == 1:
        result = ops.squeeze(result, squeeze_dims=(1,))
    places = (out[0], *out[2:], out[1])
    return as_dtype(_ordered(result, tuple(int(i) for i in np.argsort(places))), result_type)


def _ordered(x: Array, axes: Sequence[int]) -> Array:
    return x if list(axes) == list(range(rank(x))) else ops.transpose(x, tuple(int(a) for a in axes))


def _groups_as_channels(image: Array, groups: int) -> Array:
    """The groups of a batch as groups of channels, which meet filters of their own.

    f[g * b, spatial…, c] -> f[b, spatial…, g * c]
    """
    batch, *spatial, channels = image.shape
    parts = shaped(image, (groups, batch // groups, *spatial, channels), image, *sources())
    last = rank(parts) - 1
    moved = ops.transpose(parts, (*range(1, last), 0, last))
    return shaped(moved, (batch // groups, *spatial, groups * channels), image, *sources())


def _convolved(image: Array, filters: Array, how: _Steps, groups: int) -> Array:
    """image: f[b, spatial…, c], filters: f[spatial…, c/groups, o]"""
    strides, padding, between, spacing = how.strides, how.padding, how.between, how.spacing
    if any(step != 1 for step in between):
        transposed = _transposed(image, filters, how) if groups == 1 else None
        if transposed is not None:
            return transposed
        config = [(0, 0, 0), *((0, 0, step - 1) for step in between), (0, 0, 0)]
        image = lower_pad(image, scalar(0, image), padding_config=config)
    if any(w < 0 for pair in padding for w in pair):
        config = [(0, 0, 0), *((min(low, 0), min(high, 0), 0) for low, high in padding), (0, 0, 0)]
        image = lower_pad(image, scalar(0, image), padding_config=config)
        padding = tuple((max(low, 0), max(high, 0)) for low, high in padding)
    options: dict[str, Any] = {"strides": (1, *strides, 1), "dilations": (1, *spacing, 1)}
    named = _named_padding(image, filters, strides, padding, spacing)
    if len(strides) == 3:
        if named is None:
            config = [(0, 0, 0), *((*pair, 0) for pair in padding), (0, 0, 0)]
            image, named = lower_pad(image, scalar(0, image), padding_config=config), "VALID"
        return DEFAULT.lowers["Conv3D"](image, filters, padding=named, **options)
    if named is None:
        options |= {"padding": "EXPLICIT", "explicit_paddings": (0, 0, *(w for pair in padding for w in pair), 0, 0)}
    else:
        options["padding"] = named
    channels = filters.shape[2] * groups
    if groups > 1 and groups == channels:
        height, width, _, outputs = filters.shape
        # jax has the outputs of one channel side by side, as TensorFlow's multiplier has them.
        windows = ops.reshape(filters, (height, width, channels, outputs // channels))
        return DEFAULT.lowers["DepthwiseConv2dNative"](image, windows, **options)
    return DEFAULT.lowers["Conv2D"](image, filters, **options)


def _named_padding(
    image: Array, filters: Array, strides: Sequence[int], padding: Sequence[tuple[int, int]], spacing: Sequence[int]
) -> str | None:
    """VALID or SAME where these widths are what that means."""
    if all(pair == (0, 0) for pair in padding):
        return "VALID"
    for axis, pair in enumerate(padding):
        size, window = image.shape[1 + axis], (filters.shape[axis] - 1) * spacing[axis] + 1
        if strides[axis] == 1:
            total = window - 1
        elif is_known(size):
            total = max((-(-int(size) // strides[axis]) - 1) * strides[axis] + window - int(size), 0)
        else:
            return None
        if pair != (total // 2, total - total // 2):
            return None
    return "SAME"


def _transposed(image: Array, filters: Array, how: _Steps) -> Array | None:
    """The gradient of a convolution with strides `between`: TRANSPOSE_CONV; None where that is not meant.

    Its windows are the filters turned around: jax's `conv_transpose` hands them over as they are.
    """
    padding, between = how.padding, how.between
    plain = len(padding) == 2 and all(step == 1 for step in (*how.strides, *how.spacing))
    sizes = image.shape[1:3]
    if not plain or not all(map(is_known, sizes)):
        return None
    windows = filters.shape[:2]
    reach = [(w - 1 - low, w - 1 - high) for w, (low, high) in zip(windows, padding, strict=True)]
    results = [
        (int(d) - 1) * s + 1 + low + high - w + 1
        for d, s, (low, high), w in zip(sizes, between, padding, windows, strict=True)
    ]
    if any(low < 0 or high < 0 for low, high in reach) or any(r <= 0 for r in results):
        return None
    flipped = ops.transpose(
        ops.reverse_v2(ops.reverse_v2(filters, np.array([0], np.int32)), np.array([1], np.int32)), (0, 1, 3, 2)
    )
    return DEFAULT.lowers["Conv2DBackpropInput"](
        np.array(results, np.int32),
        flipped,
        image,
        strides=(1, *between, 1),
        padding="EXPLICIT",
        explicit_paddings=(0, 0, *(w for pair in reach for w in pair), 0, 0),
    )


# reduce_window: pools over two spatial axes, of whatever axes they are.

Pool = Callable[[Array, Sequence[int], Sequence[int], str], Array]


@dataclass(frozen=True)
class Windows:
    """The parameters of the reductions over windows, one entry for each axis."""

    window_dimensions: Sequence[int]
    window_strides: Sequence[int]
    padding: Sequence[tuple[int, int]]
    base_dilation: Sequence[int]
    window_dilation: Sequence[int]


@lowers_jax("reduce_window_max")
def lower_window_max(x: Array, *, how: Windows) -> Array:
    """The greatest element of each window."""
    return _pooled(x, max_pool, least(dtype(x)), how)


@lowers_jax("reduce_window_min")
def lower_window_min(x: Array, *, how: Windows) -> Array:
    """The smallest element of each window: the greatest of the negated ones."""
    return ops.neg(_pooled(ops.neg(x), max_pool, least(dtype(x)), how))


@lowers_jax("reduce_window_sum")
def lower_window_sum(x: Array, *, how: Windows) -> Array:
    """The sum of each window: the mean times the number of its elements, zeros outside of x counted."""
    return ops.mul(_pooled(x, average_pool, 0.0, how), scalar(prod(how.window_dimensions), x))


def _pooled(x: Array, pool: Pool, outside: float, how: Windows) -> Array:
    """The pool over the axes that have windows, two at a time, as height and width of images."""
    if any(step != 1 for steps in (how.base_dilation, how.window_dilation) for step in steps):
        raise LowerError("windows with gaps", expected="dilations of 1", found=str(type_of(x)))
    if any(width for pair in how.padding for width in pair):
        config = [(int(low), int(high), 0) for low, high in how.padding]
        x = lower_pad(x, np.asarray(outside, dtype(x).numpy), padding_config=config)
    window, strides = how.window_dimensions, how.window_strides
    axes = [i for i in range(rank(x)) if window[i] != 1 or strides[i] != 1]
    for first in range(0, len(axes), 2):
        x = _over(x, pool, axes[first : first + 2], window, strides)
    return x


def _over(x: Array, pool: Pool, axes: Sequence[int], window: Sequence[int], strides: Sequence[int]) -> Array:
    """The pool over one or two axes: the axes before the first are the batch, the others the channels.

    Where none follows, the second is: images with channels first stand between convolutions, which want them last.
    """
    others = [i for i in range(rank(x)) if i not in axes]
    before = [i for i in others if i < axes[0]]
    after = [i for i in others if i > axes[0]]
    if len(axes) == 2 and len(before) == 2 and not after:
        before, after = before[:1], before[1:]
    order = (*before, *axes, *after)
    moved = x if list(order) == list(range(rank(x))) else ops.transpose(x, order)
    sizes = moved.shape
    split = len(before)
    if len(axes) == 1 and split == 1 and len(after) == 1:  # sizes of EXPAND_DIMS are known before the file runs
        wide = pool(ops.expand_dims(moved, np.int32(1)), [1, window[axes[0]]], [1, strides[axes[0]]], "VALID")
        return ops.squeeze(wide, squeeze_dims=(1,))
    spatial = (*((1,) if len(axes) == 1 else ()), *sizes[split : split + len(axes)])
    image = shaped(moved, (_count(sizes[:split]), *spatial, _count(sizes[split + len(axes) :])), x, *sources())
    lead = [1] * (2 - len(axes))
    pooled = pool(image, [*lead, *(window[a] for a in axes)], [*lead, *(strides[a] for a in axes)], "VALID")
    result = (*sizes[:split], *pooled.shape[3 - len(axes) : 3], *sizes[split + len(axes) :])
    back = tuple(int(i) for i in np.argsort(order))
    pooled = shaped(pooled, result, x, *sources())
    return pooled if list(back) == list(range(rank(x))) else ops.transpose(pooled, back)


def _count(sizes: Sequence[int]) -> int:
    count = 1
    for size in sizes:
        count = count * size
    return count
