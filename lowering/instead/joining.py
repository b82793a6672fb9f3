"""CONCATENATION of many values by several of few, and UNPACK by slices."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

FEW = 10  # operands that tflite-micro takes


@instead_of("CONCATENATION")
def join_by_parts(eqn: Eqn) -> Sequence[Any] | None:
    """Parts of few values, joined in turn until few are left."""
    values = operands(eqn)
    if len(values) <= FEW or eqn.params["fused_activation_function"] != "NONE":
        return None
    axis = eqn.params["axis"]
    while len(values) > 1:
        parts = [values[i : i + FEW] for i in range(0, len(values), FEW)]
        values = [ops.concatenation(*part, axis=axis) if len(part) > 1 else part[0] for part in parts]
    return (values[0],)


@instead_of("UNPACK")
def rows_by_slices(eqn: Eqn) -> Sequence[Any] | None:
    """A STRIDED_SLICE for each row along the axis."""
    (x,) = operands(eqn)
    if not all(map(is_known, x.shape)):
        return None
    axis, shape = eqn.params["axis"] % len(x.shape), [int(d) for d in x.shape]
    others = sum(1 << a for a in range(len(shape)) if a != axis)

    def row(number: int) -> Any:
        begin = [number if a == axis else 0 for a in range(len(shape))]
        end = [number + 1 if a == axis else d for a, d in enumerate(shape)]
        masks = {"begin_mask": others, "end_mask": others, "shrink_axis_mask": 1 << axis}
        return ops.strided_slice(x, begin, end, [1] * len(shape), **masks)

    return tuple(map(row, range(shape[axis])))
