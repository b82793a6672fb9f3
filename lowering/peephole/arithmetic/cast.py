"""Casts that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels.math import elementwise
from jfuse.lowering.peephole.registry import View, peephole


@peephole(elementwise.cast)
def cast_to_itself(eqn: Eqn, view: View) -> Any:
    """A CAST to the type that its operand has."""
    (x,) = eqn.inputs
    return x if x is not None and x.type == eqn.outputs[0].type else None


@peephole(elementwise.cast)
def cast_there_and_back(eqn: Eqn, view: View) -> Any:
    """CAST(CAST(x, wider), dtype of x) = x."""
    (x,), (result,) = eqn.inputs, eqn.outputs
    before = view.producer(x)
    if before is None or before.op is not elementwise.cast:
        return None
    (origin,) = before.inputs
    if origin is None or origin.type != result.type:
        return None
    return origin if _holds(before.outputs[0].type.dtype, origin.type.dtype) else None


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` has a value of its own in `wide`."""
    numbers = all(d.is_integer or d.is_float or d is DType.bool for d in (wide, narrow))
    return numbers and np.can_cast(narrow.numpy, wide.numpy, "safe")
