"""reduce_window: pools over two spatial axes, of whatever axes they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import lower_pad
from jfuse.lowering.ops.nn.pool import average_pool, least, max_pool
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped
from jfuse.lowering.rules import lowers_jax

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
