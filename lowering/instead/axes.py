"""Axes of size 1 by RESHAPE, reversed ones by parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
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


_MOST_PARTS = 256
"""An NPU copies each part by itself; a sequence that is longer is reversed faster by the processor beside it."""


@instead_of("REVERSE_V2")
def by_parts(eqn: Eqn) -> Sequence[Any] | None:
    """UNPACK and PACK in the reverse order, axis by axis, where their sizes are known and small."""
    x, axes = operands(eqn)
    shape = eqn.outputs[0].type.shape
    if not isinstance(axes, np.ndarray) or not all(is_known(d) for d in shape):
        return None
    for axis in (int(a) % len(shape) for a in axes.ravel()):
        if int(shape[axis]) > _MOST_PARTS:
            return None
        x = ops.pack(*ops.unpack(x, axis=axis)[::-1], axis=axis)
    return (x,)
