"""Zeros, and numbers with zeros around them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands

_AXES = 3  # the fewest that GPUs pad


@instead_of("ZEROS_LIKE")
def never_less(eqn: Eqn) -> Sequence[Any] | None:
    """CAST of LESS of a value and itself, which no NaN is either."""
    (x,) = operands(eqn)
    return (ops.cast(ops.less(x, x), out_data_type=DType.of(x.dtype)),)


@instead_of("PAD")
def on_more_axes(eqn: Eqn) -> Sequence[Any] | None:
    """PAD between two RESHAPEs, of few axes with ones before them."""
    x, paddings = operands(eqn)
    (out,) = eqn.outputs
    more = _AXES - len(x.shape)
    if more <= 0 or not isinstance(eqn.inputs[1], Const) or not all(map(is_known, (*x.shape, *out.type.shape))):
        return None
    wide = ops.reshape(x, np.array([1] * more + [int(d) for d in x.shape], np.int32))
    padded = ops.pad(wide, np.concatenate([np.zeros((more, 2), paddings.dtype), paddings]))
    return (ops.reshape(padded, np.array([int(d) for d in out.type.shape], np.int32)),)
