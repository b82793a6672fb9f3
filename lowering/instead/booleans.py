"""Operators that move booleans, spelled on numbers for targets without a boolean kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

_MOVES = (
    "BROADCAST_TO",
    "CONCATENATION",
    "EXPAND_DIMS",
    "GATHER",
    "GATHER_ND",
    "PACK",
    "SLICE",
    "SPLIT",
    "SPLIT_V",
    "SQUEEZE",
    "STRIDED_SLICE",
    "TILE",
    "TRANSPOSE",
    "UNPACK",
)


@instead_of(*_MOVES)
def moved_as_integers(eqn: Eqn) -> Sequence[Any] | None:
    """CAST to i32 and NOT_EQUAL to 0 afterwards: a file that computes in integers alone takes it as well."""
    return _moved(eqn, (DType.i32,))


@instead_of(*_MOVES)
def moved_as_bytes(eqn: Eqn) -> Sequence[Any] | None:
    """The same through i8, to and from which booleans come by i32."""
    return _moved(eqn, (DType.i32, DType.i8))


@instead_of(*_MOVES)
def moved_as_floats(eqn: Eqn) -> Sequence[Any] | None:
    """The same in f32, which every runtime moves."""
    return _moved(eqn, (DType.f32,))


def _moved(eqn: Eqn, through: Sequence[DType]) -> Sequence[Any] | None:
    """The results of an equation on booleans that are cast to one type after the other, and back."""
    if any(v.type.dtype is not DType.bool for v in eqn.outputs):
        return None
    first, *others = through
    moved = eqn.op.run([_cast(value, through) for value in operands(eqn)], eqn.params, ())
    back = (first,) if others else ()
    return tuple(ops.not_equal(_cast(m, back, bool_only=False), np.zeros((), first.numpy)) for m in moved)


def _cast(value: Any, through: Sequence[DType], *, bool_only: bool = True) -> Any:
    if value is None or (bool_only and value.dtype != bool):
        return value
    for dtype in through:
        value = ops.cast(value, out_data_type=dtype)
    return value
