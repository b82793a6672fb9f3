"""GATHER and its kin with indices of 32 bits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands


@instead_of("GATHER", "GATHER_ND")
def by_narrow_indices(eqn: Eqn) -> Sequence[Any] | None:
    """The same by i32, where the indices are i64: no tensor has so many elements along an axis."""
    x, indices = operands(eqn)
    if indices.dtype != np.int64:
        return None
    narrow = indices.astype(np.int32) if isinstance(indices, np.ndarray) else ops.cast(indices, out_data_type=DType.i32)
    gather = ops.gather if eqn.op is ops.gather else ops.gather_nd
    return (gather(x, narrow, **eqn.params),)
