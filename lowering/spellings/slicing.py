"""STRIDED_SLICE with a range for each axis, without shortcuts, on more axes or on fewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.spellings.moves import in_shape
from jfuse.lowering.spellings.registry import spelling_of

_AXES = 3  # the fewest that GPUs slice


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
