"""STRIDED_SLICE with a range for each axis, without shortcuts, on more axes or on fewer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Var
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

_AXES = 3  # the fewest that GPUs slice


@instead_of("STRIDED_SLICE")
def all_axes(eqn: Eqn) -> Sequence[Any] | None:
    """A range for each axis: those that are left out are taken whole."""
    found = _ranges(eqn)
    if found is None:
        return None
    x, (begin, end, strides), masks = found
    return (ops.strided_slice(x, begin, end, strides, **masks),)


@instead_of("STRIDED_SLICE")
def without_shrinking(eqn: Eqn) -> Sequence[Any] | None:
    """Axes are taken off afterwards, by RESHAPE; of few axes there are ones before them meanwhile."""
    found = _ranges(eqn)
    (out,) = eqn.outputs
    if found is None or not out.type.is_static or not all(map(is_known, found[0].shape)):
        return None
    x, (begin, end, strides), masks = found
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
        x = ops.reshape(x, np.array([1] * more + [int(d) for d in x.shape], np.int32))
        begin, end, strides = ([v] * more + part for v, part in ((0, begin), (1, end), (1, strides)))
        masks = {name: mask << more for name, mask in masks.items()}
    y = ops.strided_slice(x, begin, end, strides, **masks)
    return (ops.reshape(y, np.array([int(d) for d in out.type.shape], np.int32)),)


@instead_of("STRIDED_SLICE")
def on_fewer_axes(eqn: Eqn) -> Sequence[Any] | None:
    """One slice between two RESHAPEs, where neighbours of axes can be one: what is taken whole, and what is before."""
    found = _whole_ranges(eqn)
    if found is None:
        return None
    x, axes = found
    joined: list[_Range] = []
    for axis in axes:
        last = joined[-1] if joined else None
        if last is not None and axis.is_whole and last.stride == 1:
            joined[-1] = _Range(last.size * axis.size, last.begin * axis.size, last.end * axis.size, 1)
        elif last is not None and last.is_whole and last.size == 1:
            joined[-1] = axis
        else:
            joined.append(axis)
    return (_reshaped(eqn, _sliced(x, joined)),) if len(joined) < len(axes) else None


@instead_of("STRIDED_SLICE")
def axis_by_axis(eqn: Eqn) -> Sequence[Any] | None:
    """A slice of three axes for each one that is cut, where there are several: what is before it, itself, the rest."""
    found = _whole_ranges(eqn)
    if found is None or sum(not axis.is_whole for axis in found[1]) < 2:
        return None
    x, axes = found
    sizes = [axis.size for axis in axes]
    for number, axis in enumerate(axes):
        if axis.is_whole:
            continue
        before, after = math.prod(sizes[:number]), math.prod(sizes[number + 1 :])
        x = _sliced(x, [_Range.whole(before), axis, _Range.whole(after)])
        sizes[number] = axis.count
    return (_reshaped(eqn, x),)


@dataclass(frozen=True)
class _Range:
    """What is taken of one axis, of so many.   end: -1 where a negative stride goes on to the first one"""

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


def _whole_ranges(eqn: Eqn) -> tuple[Any, list[_Range]] | None:
    """The operand and what is taken of each of its axes; None where sizes or ranges are not known, or nothing is."""
    found, (out,) = _ranges(eqn), eqn.outputs
    if found is None or not out.type.is_static or 0 in out.type.shape or not all(map(is_known, found[0].shape)):
        return None
    x, (begin, end, strides), masks = found
    axes = []
    for axis, (size, stride) in enumerate(zip(map(int, x.shape), strides, strict=True)):
        first = None if masks["begin_mask"] >> axis & 1 else begin[axis]
        last = None if masks["end_mask"] >> axis & 1 else end[axis]
        if masks["shrink_axis_mask"] >> axis & 1:
            first = begin[axis] % size
            last, stride = first + 1, 1
        axes.append(_Range(size, *slice(first, last, stride).indices(size)))
    return x, axes


def _sliced(x: Any, axes: Sequence[_Range]) -> Any:
    """A slice of an operand in the shape that the ranges have."""
    x = ops.reshape(x, np.array([axis.size for axis in axes], np.int32))
    to_the_first = sum(1 << number for number, axis in enumerate(axes) if axis.end < 0)
    begin, end, strides = ([getattr(axis, name) for axis in axes] for name in ("begin", "end", "stride"))
    return ops.strided_slice(x, begin, end, strides, end_mask=to_the_first)


def _reshaped(eqn: Eqn, x: Any) -> Any:
    return ops.reshape(x, np.array([int(d) for d in eqn.outputs[0].type.shape], np.int32))


def _ranges(eqn: Eqn) -> tuple[Any, list[list[int]], dict[str, int]] | None:
    """The operand, a range for each of its axes and the masks; None where the ranges are not known as they stand."""
    x, *given = operands(eqn)
    params = eqn.params
    if any(isinstance(g, Var) for g in given) or params["ellipsis_mask"] or params["new_axis_mask"] or params["offset"]:
        return None
    ranges = [[int(v) for v in g] for g in given]
    more = len(x.shape) - len(ranges[0])
    ranges = [part + [fill] * more for part, fill in zip(ranges, (0, 0, 1), strict=True)]
    whole = sum(1 << axis for axis in range(len(x.shape) - more, len(x.shape)))
    masks = {n: int(params[n]) | whole for n in ("begin_mask", "end_mask")}
    return x, ranges, masks | {"shrink_axis_mask": int(params["shrink_axis_mask"])}
