"""Axes of size 1 by RESHAPE."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands


@instead_of("SQUEEZE", "EXPAND_DIMS")
def reshaped(eqn: Eqn) -> Sequence[Any] | None:
    """RESHAPE, where the shape of the result is known."""
    (out,) = eqn.outputs
    if not out.type.is_static:
        return None
    return (ops.reshape(operands(eqn)[0], np.array([int(d) for d in out.type.shape], np.int32)),)
