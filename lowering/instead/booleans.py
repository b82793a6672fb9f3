"""Operators that move booleans, spelled on numbers for targets without a boolean kernel."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands


@instead_of("BROADCAST_TO", "CONCATENATION", "EXPAND_DIMS", "GATHER", "PACK", "SQUEEZE", "TILE", "TRANSPOSE", "UNPACK")
def moved_as_numbers(eqn: Eqn) -> Sequence[Any] | None:
    """CAST to f32, which every runtime moves, and NOT_EQUAL to 0 afterwards."""
    if any(v.type.dtype is not DType.bool for v in eqn.outputs):
        return None
    values = [
        ops.cast(value, out_data_type=DType.f32) if value is not None and value.dtype == bool else value
        for value in operands(eqn)
    ]
    moved = eqn.op.run(values, eqn.params, ())
    return tuple(ops.not_equal(m, np.float32(0)) for m in moved)
