"""TILE by copies side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Var
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

_COPIES = 8  # operands of one CONCATENATION; tflite-micro takes ten


@instead_of("TILE")
def tile_by_concatenation(eqn: Eqn) -> Sequence[Any] | None:
    """CONCATENATION of the tensor with itself, axis by axis, where there are few copies."""
    x, multiples = operands(eqn)
    if isinstance(multiples, Var) or any(m < 1 or m > _COPIES for m in multiples):
        return None
    for axis, count in enumerate(int(m) for m in multiples):
        x = ops.concatenation(*[x] * count, axis=axis) if count > 1 else x
    return (x,) if x is not eqn.inputs[0] else None


@instead_of("TILE")
def tile_by_broadcast(eqn: Eqn) -> Sequence[Any] | None:
    """BROADCAST_TO along an axis of its own, axis by axis, where all sizes are known."""
    x, multiples = operands(eqn)
    if isinstance(multiples, Var) or not all(map(is_known, x.shape)) or any(m < 1 for m in multiples):
        return None
    shape = [int(d) for d in x.shape]
    for axis, count in enumerate(int(m) for m in multiples):
        if count == 1:
            continue
        before, after = int(np.prod(shape[:axis], dtype=int)), int(np.prod(shape[axis:], dtype=int))
        x = ops.broadcast_to(ops.reshape(x, [before, 1, after]), [before, count, after])
        shape[axis] *= count
        x = ops.reshape(x, shape)
    return (x,) if x is not eqn.inputs[0] else None
