"""Ops that move elements, in other such ops, and for booleans in those of numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, is_known
from jfuse.ir.graph import Const, Eqn, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.spellings.registry import spelling_of

_MOST_PARTS = 256
"""An NPU copies each part by itself; a sequence that is longer is reversed faster by the processor beside it."""
_FEW = 10  # operands of one CONCATENATION that tflite-micro takes
_COPIES = 8  # of a tensor in one CONCATENATION
_AXES = 3  # the fewest that GPUs pad and slice


def in_shape(x: Array, shape: Shape) -> Array:
    """x in a known shape."""
    return ops.reshape(x, np.array([int(d) for d in shape], np.int32))


@spelling_of(ops.squeeze, ops.expand_dims)
def reshaped(eqn: Eqn, x: Array, *axes: Array) -> Array | None:
    """RESHAPE, where the shape of the result is known."""
    result = eqn.outputs[0].type
    return in_shape(x, result.shape) if result.is_static else None


def _moved(eqn: Eqn, *operands: Any, through: Sequence[DType]) -> tuple[Array, ...] | None:
    """The results of an equation on booleans that are cast to one type after the other, and back."""
    if any(v.type.dtype is not DType.bool for v in eqn.outputs):
        return None
    first, *others = through
    moved = eqn.op.run([_cast(value, through) for value in operands], eqn.params, ())
    back = (first,) if others else ()
    return tuple(ops.not_equal(_cast(m, back, bool_only=False), np.zeros((), first.numpy)) for m in moved)


def _cast(value: Any, through: Sequence[DType], *, bool_only: bool = True) -> Any:
    if value is None or (bool_only and value.dtype != bool):
        return value
    for dtype in through:
        value = ops.cast(value, out_data_type=dtype)
    return value


# i32 first: a file that computes in integers alone takes it as well. i8 comes by i32. Every runtime moves f32.
for _through in ((DType.i32,), (DType.i32, DType.i8), (DType.f32,)):
    spelling_of(
        *(ops.broadcast_to, ops.concatenation, ops.expand_dims, ops.gather, ops.gather_nd, ops.pack, ops.slice_),
        *(ops.split, ops.split_v, ops.squeeze, ops.strided_slice, ops.tile, ops.transpose, ops.unpack),
    )(partial(_moved, through=_through))


@spelling_of(ops.reverse_v2)
def by_parts(eqn: Eqn, x: Array, axes: Array) -> Array | None:
    """UNPACK and PACK in the reverse order, axis by axis, where their sizes are known and small."""
    shape = eqn.outputs[0].type.shape
    if not isinstance(axes, np.ndarray) or not all(is_known(d) for d in shape):
        return None
    for axis in (int(a) % len(shape) for a in axes.ravel()):
        if int(shape[axis]) > _MOST_PARTS:
            return None
        x = ops.pack(*ops.unpack(x, axis=axis)[::-1], axis=axis)
    return x


@spelling_of(ops.gather, ops.gather_nd)
def by_narrow_indices(eqn: Eqn, x: Array, indices: Array) -> Array | None:
    """The same by i32, where the indices are i64: no tensor has so many elements along an axis."""
    if indices.dtype != np.int64:
        return None
    narrow = indices.astype(np.int32) if isinstance(indices, np.ndarray) else ops.cast(indices, out_data_type=DType.i32)
    return eqn.op.run([x, narrow], eqn.params, ())


@spelling_of(ops.concatenation)
def join_by_parts(eqn: Eqn, *values: Array) -> Array | None:
    """Parts of few values, joined in turn until few are left."""
    if len(values) <= _FEW or eqn.params["fused_activation_function"] != "NONE":
        return None
    axis, joined = eqn.params["axis"], list(values)
    while len(joined) > 1:
        parts = [joined[i : i + _FEW] for i in range(0, len(joined), _FEW)]
        joined = [ops.concatenation(*part, axis=axis) if len(part) > 1 else part[0] for part in parts]
    return joined[0]


@spelling_of(ops.unpack)
def rows_by_slices(eqn: Eqn, x: Array) -> tuple[Array, ...] | None:
    """A STRIDED_SLICE for each row along the axis."""
    if not all(map(is_known, x.shape)):
        return None
    axis, shape = eqn.params["axis"] % len(x.shape), [int(d) for d in x.shape]
    others = sum(1 << a for a in range(len(shape)) if a != axis)

    def row(number: int) -> Array:
        begin = [number if a == axis else 0 for a in range(len(shape))]
        end = [number + 1 if a == axis else d for a, d in enumerate(shape)]
        masks = {"begin_mask": others, "end_mask": others, "shrink_axis_mask": 1 << axis}
        return ops.strided_slice(x, begin, end, [1] * len(shape), **masks)

    return tuple(map(row, range(shape[axis])))


@spelling_of(ops.tile)
def tile_by_concatenation(eqn: Eqn, x: Array, multiples: Array) -> Array | None:
    """CONCATENATION of the tensor with itself, axis by axis, where there are few copies."""
    if isinstance(multiples, Var) or any(m < 1 or m > _COPIES for m in multiples):
        return None
    for axis, count in enumerate(int(m) for m in multiples):
        x = ops.concatenation(*[x] * count, axis=axis) if count > 1 else x
    return x if x is not eqn.inputs[0] else None


@spelling_of(ops.tile)
def tile_by_broadcast(eqn: Eqn, x: Array, multiples: Array) -> Array | None:
    """BROADCAST_TO along an axis of its own, axis by axis, where all sizes are known."""
    if isinstance(multiples, Var) or not all(map(is_known, x.shape)) or any(m < 1 for m in multiples):
        return None
    shape = [int(d) for d in x.shape]
    for axis, count in enumerate(int(m) for m in multiples):
        if count == 1:
            continue
        before, after = int(np.prod(shape[:axis], dtype=int)), int(np.prod(shape[axis:], dtype=int))
        x = ops.broadcast_to(ops.reshape(x, [before, 1, after]), [before, count, after])
        shape[axis] *= count
        x = ops.reshape(x, shape)
    return x if x is not eqn.inputs[0] else None


@spelling_of(ops.dynamic_update_slice)
def rows_by_select(eqn: Eqn, x: Array, update: Array, start: Array) -> Array | None:
    """SELECT_V2 between new rows and old ones, where rows along one axis are written.

    Along all other axes the update fills the operand, so that it starts at 0 there whatever is asked for.
    """
    if not all(map(is_known, (*x.shape, *update.shape))):
        return None
    axes = [a for a, (d, e) in enumerate(zip(x.shape, update.shape, strict=True)) if d != e]
    if len(axes) != 1:
        return None
    (axis,) = axes
    size, count = int(x.shape[axis]), int(update.shape[axis])

    def number(value: int) -> np.ndarray:
        return np.asarray(value, start.dtype)

    at = ops.strided_slice(start, [axis], [axis + 1], [1])
    at = ops.minimum(ops.maximum(at, number(0)), number(size - count))
    rows = np.arange(size, dtype=start.dtype)
    if count > 1:  # each row of the result knows which one of the update it would be
        place = ops.minimum(ops.maximum(ops.sub(rows, at), number(0)), number(count - 1))
        update = ops.gather(update, place, axis=axis)
    beside = [size if a == axis else 1 for a in range(len(x.shape))]
    rows = rows.reshape(beside)
    is_new = ops.equal(rows, at)
    if count > 1:
        is_new = ops.logical_and(ops.greater_equal(rows, at), ops.less(rows, ops.add(at, number(count))))
    return ops.select_v2(is_new, update, x)


@spelling_of(ops.pad)
def pad_on_more_axes(eqn: Eqn, x: Array, paddings: Array) -> Array | None:
    """PAD between two RESHAPEs, of few axes with ones before them."""
    shape, more = eqn.outputs[0].type.shape, _AXES - len(x.shape)
    if more <= 0 or not isinstance(eqn.inputs[1], Const) or not all(map(is_known, (*x.shape, *shape))):
        return None
    wide = in_shape(x, (*[1] * more, *x.shape))
    return in_shape(ops.pad(wide, np.concatenate([np.zeros((more, 2), paddings.dtype), paddings])), shape)


@spelling_of(ops.depth_to_space, when=("integers",))
def rows_below(eqn: Eqn, x: Array) -> Array | None:
    """The rows of a block, which stand side by side, below each other."""
    if not all(map(is_known, x.shape[1:])):
        return None
    (height, width, channels), size = map(int, x.shape[1:]), eqn.params["block_size"]
    deep = channels // size**2
    rows = in_shape(x, (-1, width, size, size * deep))
    below = ops.transpose(rows, np.array([0, 2, 1, 3], np.int32))
    return in_shape(below, (-1, height * size, width * size, deep))


@spelling_of(ops.space_to_depth, when=("integers",))
def rows_beside(eqn: Eqn, x: Array) -> Array | None:
    """The rows of a block, which stand below each other, side by side."""
    if not all(map(is_known, x.shape[1:])):
        return None
    (height, width, channels), size = map(int, x.shape[1:]), eqn.params["block_size"]
    wide, deep = width // size, size * channels
    rows = in_shape(x, (-1, size, wide, deep))
    beside = ops.transpose(rows, np.array([0, 2, 1, 3], np.int32))
    return in_shape(beside, (-1, height // size, wide, size * deep))


# STRIDED_SLICE with a range for each axis, without shortcuts, on more axes or on fewer.


@spelling_of(ops.strided_slice)
def all_axes(eqn: Eqn, x: Array, *bounds: Array) -> Array | None:
    """A range for each axis: those that are left out are taken whole."""
    ranges = _ranges(eqn, x, bounds)
    return None if ranges is None else ops.strided_slice(x, *ranges[0], **ranges[1])


@spelling_of(ops.strided_slice)
def without_shrinking(eqn: Eqn, x: Array, *bounds: Array) -> Array | None:
    """Axes are taken off afterwards, by RESHAPE; of few axes there are ones before them meanwhile."""
    ranges, out = _ranges(eqn, x, bounds), eqn.outputs[0].type
    if ranges is None or not out.is_static or not all(map(is_known, x.shape)):
        return None
    (begin, end, strides), masks = ranges
    shrunk = masks.pop("shrink_axis_mask")
    for axis in range(len(begin)):
        if shrunk >> axis & 1:
            end[axis] = begin[axis] + 1
            masks = {
                n: m & ~(1 << axis) | (1 << axis if n == "end_mask" and begin[axis] == -1 else 0)
                for n, m in masks.items()
            }
    more = max(_AXES - len(begin), 0)
    if more:
        x = in_shape(x, (*[1] * more, *x.shape))
        begin, end, strides = ([v] * more + part for v, part in ((0, begin), (1, end), (1, strides)))
        masks = {name: mask << more for name, mask in masks.items()}
    return in_shape(ops.strided_slice(x, begin, end, strides, **masks), out.shape)


@spelling_of(ops.strided_slice)
def on_fewer_axes(eqn: Eqn, x: Array, *bounds: Array) -> Array | None:
    """One slice between two RESHAPEs, where neighbours of axes can be one: what is taken whole, and what is before."""
    axes = _whole_ranges(eqn, x, bounds)
    if axes is None:
        return None
    joined: list[_Range] = []
    for axis in axes:
        last = joined[-1] if joined else None
        if last is not None and axis.is_whole and last.stride == 1:
            joined[-1] = _Range(last.size * axis.size, last.begin * axis.size, last.end * axis.size, 1)
        elif last is not None and last.is_whole and last.size == 1:
            joined[-1] = axis
        else:
            joined.append(axis)
    return in_shape(_sliced(x, joined), eqn.outputs[0].type.shape) if len(joined) < len(axes) else None


@spelling_of(ops.strided_slice)
def axis_by_axis(eqn: Eqn, x: Array, *bounds: Array) -> Array | None:
    """A slice of three axes for each one that is cut, where there are several: what is before it, itself, the rest."""
    axes = _whole_ranges(eqn, x, bounds)
    if axes is None or sum(not axis.is_whole for axis in axes) < 2:
        return None
    sizes = [axis.size for axis in axes]
    for number, axis in enumerate(axes):
        if axis.is_whole:
            continue
        before, after = math.prod(sizes[:number]), math.prod(sizes[number + 1 :])
        x = _sliced(x, [_Range.whole(before), axis, _Range.whole(after)])
        sizes[number] = axis.count
    return in_shape(x, eqn.outputs[0].type.shape)


@dataclass(frozen=True)
class _Range:
    """The part of one axis that is taken.   end: -1 where a negative stride reaches the first one"""

    size: int
    begin: int
    end: int
    stride: int

    @classmethod
    def whole(cls, size: int) -> _Range:
        """All of an axis."""
        return cls(size, 0, size, 1)

    @property
    def is_whole(self) -> bool:
        """Whether all is taken, in its order."""
        return self == _Range.whole(self.size)

    @property
    def count(self) -> int:
        """How many are taken."""
        return len(range(self.begin, self.end, self.stride))


def _whole_ranges(eqn: Eqn, x: Array, bounds: Sequence[Array]) -> list[_Range] | None:
    """The part of each axis that is taken; None where sizes or ranges are not known, or nothing is taken."""
    ranges, out = _ranges(eqn, x, bounds), eqn.outputs[0].type
    if ranges is None or not out.is_static or 0 in out.shape or not all(map(is_known, x.shape)):
        return None
    (begin, end, strides), masks = ranges
    axes = []
    for axis, (size, stride) in enumerate(zip(map(int, x.shape), strides, strict=True)):
        first = None if masks["begin_mask"] >> axis & 1 else begin[axis]
        last = None if masks["end_mask"] >> axis & 1 else end[axis]
        if masks["shrink_axis_mask"] >> axis & 1:
            first = begin[axis] % size
            last, stride = first + 1, 1
        axes.append(_Range(size, *slice(first, last, stride).indices(size)))
    return axes


def _sliced(x: Array, axes: Sequence[_Range]) -> Array:
    """A slice of an operand in the shape that the ranges have."""
    x = in_shape(x, tuple(axis.size for axis in axes))
    to_the_first = sum(1 << number for number, axis in enumerate(axes) if axis.end < 0)
    begin, end, strides = ([getattr(axis, name) for axis in axes] for name in ("begin", "end", "stride"))
    return ops.strided_slice(x, begin, end, strides, end_mask=to_the_first)


def _ranges(eqn: Eqn, x: Array, bounds: Sequence[Array]) -> tuple[list[list[int]], dict[str, int]] | None:
    """A range for each axis of the operand, and the masks; None where the ranges are not known as they stand."""
    params = eqn.params
    if (
        any(isinstance(b, Var) for b in bounds)
        or params["ellipsis_mask"]
        or params["new_axis_mask"]
        or params["offset"]
    ):
        return None
    ranges = [[int(v) for v in b] for b in bounds]
    more = len(x.shape) - len(ranges[0])
    ranges = [part + [fill] * more for part, fill in zip(ranges, (0, 0, 1), strict=True)]
    whole = sum(1 << axis for axis in range(len(x.shape) - more, len(x.shape)))
    masks = {n: int(params[n]) | whole for n in ("begin_mask", "end_mask")}
    return ranges, masks | {"shrink_axis_mask": int(params["shrink_axis_mask"])}
