"""Slices that keep everything, and GATHER of one place that is known."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import gather, slicing
from jfuse.kernels.layout import from_front
from jfuse.kernels.op import static_value
from jfuse.lowering.merge.registry import View, merges
from jfuse.lowering.merge.reshape import keeps_type, reshaped

# What STRIDED_SLICE takes wherever GATHER does.   Source: tflite/kernels/strided_slice.cc
_SLICED = frozenset({DType.f32, DType.i8, DType.u8, DType.i16, DType.i32, DType.i64, DType.bool})
_LARGEST_RANK = 5


@merges(slicing.strided_slice)
def slice_of_everything(eqn: Eqn, view: View) -> Any:
    """A STRIDED_SLICE with strides of 1 and as many elements as its operand is a RESHAPE, or nothing at all."""
    x, _, _, strides = eqn.inputs
    if x is None or strides is None or any(s != 1 for s in static_value(strides)):
        return None
    return reshaped(x, eqn.outputs[0].type) if same(x.type.size, eqn.outputs[0].type.size) is True else None


@merges(slicing.slice_)
def block_of_everything(eqn: Eqn, view: View) -> Any:
    """A SLICE of the type of its operand is its operand."""
    x = eqn.inputs[0]
    return x if x is not None and keeps_type(x.type, eqn.outputs[0].type) else None


@merges(gather.gather)
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
