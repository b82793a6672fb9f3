"""STRIDED_SLICE with a range for each axis, without shortcuts, or on more axes."""

from __future__ import annotations

from collections.abc import Sequence
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
