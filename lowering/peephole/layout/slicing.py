"""Slices that keep everything, and GATHER of one place that is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels.array import array, gather, slicing
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import reshaped
from jfuse.lowering.peephole.registry import View, peephole
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import keeps_type

# What STRIDED_SLICE takes wherever GATHER does.   Source: tflite/kernels/strided_slice.cc
_SLICED = frozenset({DType.f32, DType.i8, DType.u8, DType.i16, DType.i32, DType.i64, DType.bool})
_LARGEST_RANK = 5


@peephole(slicing.strided_slice)
def slice_of_everything(eqn: Eqn, view: View) -> Any:
    """A STRIDED_SLICE with strides of 1 and as many elements as its operand is a RESHAPE, or nothing at all."""
    x, _, _, strides = eqn.inputs
    if x is None or strides is None or any(s != 1 for s in static_value(strides)):
        return None
    return reshaped(x, eqn.outputs[0].type) if same(x.type.size, eqn.outputs[0].type.size) is True else None


@peephole(slicing.slice_)
def block_of_everything(eqn: Eqn, view: View) -> Any:
    """A SLICE of the type of its operand is its operand."""
    x = eqn.inputs[0]
    return x if x is not None and keeps_type(x.type, eqn.outputs[0].type) else None


@peephole(slicing.strided_slice)
def slice_backwards(eqn: Eqn, view: View) -> Any:
    """x[:, ::-1] is a REVERSE_V2, which other rules know."""
    x, _, _, strides = eqn.inputs
    if x is None or not isinstance(strides, Const) or x.type.dtype not in _SLICED:
        return None
    turned = np.flatnonzero(strides.array == -1).astype(np.int32)
    whole = (1 << strides.array.size) - 1
    everything = all(eqn.params[name] & whole == whole for name in ("begin_mask", "end_mask"))
    plain = not any(eqn.params[name] for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask"))
    # REVERSE_V2 takes neighbouring axes only, and one is all that recurrences turn round.
    if turned.size != 1 or np.any(np.abs(strides.array) != 1) or not everything or not plain:
        return None
    return array.reverse_v2(x, turned)


@peephole(slicing.strided_slice)
def place_of_reverse(eqn: Eqn, view: View) -> Any:
    """One place along the axes that REVERSE_V2 turns round is the place of the operand counted from the other end."""
    x, begin, end, strides = eqn.inputs
    before = view.producer(x)
    if before is None or before.op is not array.reverse_v2:
        return None
    source, axes = before.inputs
    plain = not eqn.params["ellipsis_mask"] and not eqn.params["new_axis_mask"] and not eqn.params["offset"]
    if axes is None or source is None or not plain or not isinstance(begin, Const) or not isinstance(end, Const):
        return None
    first, last = begin.array.copy(), end.array.copy()
    for axis in axes_from_front(static_value(axes), source.type.rank):
        is_place = axis < len(first) and eqn.params["shrink_axis_mask"] >> axis & 1
        if not is_place or eqn.params["begin_mask"] >> axis & 1:
            return None
        first[axis] = -1 - first[axis]
        last[axis] = first[axis] + 1
    return again(eqn, inputs=(source, first, last, strides))


@peephole(gather.gather)
def gather_of_one_place(eqn: Eqn, view: View) -> Any:
    """GATHER of one constant index is a STRIDED_SLICE, which other slices merge with."""
    x, indices = eqn.inputs
    if x is None or not isinstance(indices, Const) or indices.array.size != 1 or indices.array.ndim > 1:
        return None
    if eqn.params["batch_dims"] or x.type.dtype not in _SLICED or x.type.rank > _LARGEST_RANK:
        return None
    return _place(
        x, from_front(eqn.params["axis"], x.type.rank), int(indices.array.reshape(())), indices.array.ndim == 0
    )


def _place(x: Atom, axis: int, index: int, shrink: bool) -> Any:
    begin, end = np.zeros(x.type.rank, np.int32), np.zeros(x.type.rank, np.int32)
    begin[axis], end[axis] = index, index + 1
    others = (1 << x.type.rank) - 1 & ~(1 << axis)
    return slicing.strided_slice(
        x,
        begin,
        end,
        np.ones(x.type.rank, np.int32),
        begin_mask=others,
        end_mask=others,
        shrink_axis_mask=1 << axis if shrink else 0,
    )
