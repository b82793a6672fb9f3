"""Recording an op's call as an equation, and folding it where its results follow from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.base.errors import JfuseError, TypeMismatch
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Op, Params, Var
from jfuse.ir.trace import Trace, active_trace, equate_operands
from jfuse.ir.types import DType, TensorType

_LARGEST_SHAPE_VALUE = 64  # elements; tensors beyond this are data, not shapes


def record(op: Op, operands: Sequence[Any], params: Params) -> tuple[Any, ...]:
    """Append an equation to the active trace, or fold it where every result follows from shapes alone."""
    trace = active_trace()
    inputs = trace.operands(operands)
    types = infer_resolving(op, trace, inputs, params)
    values = known_values(op, inputs, params, len(types))
    if all(v is not None and v.dtype != object for v in values):
        return tuple(v.astype(t.dtype.numpy) for v, t in zip(values, types, strict=True) if v is not None)
    return trace.append(op, inputs, types, params, values=values)


def infer_resolving(op: Op, trace: Trace, inputs: Sequence[Atom | None], params: Params) -> tuple[TensorType, ...]:
    """The result types; where operands disagree on open sizes that the op needs equal, those are equated first.

    Bodies say which sizes those are by `layout.agreed`; of elementwise ops it is known.
    """
    while True:
        equated = len(trace.sizes)
        resolved = [_resolved(trace, i) for i in inputs]
        try:
            return op.infer(resolved, params, ())
        except TypeMismatch:
            data = [i.type.shape for n, i in enumerate(resolved) if i is not None and not op.operand_at(n).static]
            progress = len(trace.sizes) > equated or (op.elementwise and equate_operands(trace, data))
            if not progress:
                raise


def _resolved(trace: Trace, atom: Atom | None) -> Atom | None:
    if not trace.sizes or not isinstance(atom, Var):
        return atom
    resolved = trace.resolve(atom.type)
    return atom if resolved is atom.type else Var(resolved, value=atom.value)


def known_values(op: Op, inputs: Sequence[Atom | None], params: Params, count: int) -> list[np.ndarray | None]:
    """The values of the results where the op works on shapes and every operand is known and small."""
    nothing: list[np.ndarray | None] = [None] * count
    if not op.on_shapes:
        return nothing
    arrays = [_shape_operand(op, i, atom) for i, atom in enumerate(inputs)]
    if any(a is None and atom is not None for a, atom in zip(arrays, inputs, strict=True)):
        return nothing
    try:
        results = op.run(arrays, params, ())
    except (InconclusiveDimensionOperation, TypeError, ValueError, JfuseError):
        return nothing
    outputs = [np.asarray(r) for r in results]
    return [_tightened(f) for f in outputs]


def _shape_operand(op: Op, index: int, atom: Atom | None) -> Any:
    if atom is None:
        return None
    if op.operand_at(index).shape_only:
        return jax.ShapeDtypeStruct(atom.type.shape, np.bool_)
    if isinstance(atom, Const):
        small = atom.array.size <= _LARGEST_SHAPE_VALUE and atom.type.dtype in (DType.i32, DType.i64, DType.bool)
        return atom.array if small else None
    return atom.value


def _tightened(array: np.ndarray) -> np.ndarray | None:
    if array.dtype != object:
        return array
    return array.astype(np.int64) if all(is_known(d) for d in array.ravel()) else array
