"""Casts that change nothing."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rules import need


@peephole(lambda x: ops.cast(x))
def cast_to_itself(match: Match, x: Atom) -> Any:
    """A CAST to the type that its operand has."""
    need(x.type == match.result.type, "type_of_result")
    return x


@peephole(lambda x: ops.cast(ops.cast(x).named("wide").shared()))
def cast_there_and_back(match: Match, x: Atom, wide: Eqn) -> Any:
    """CAST(CAST(x, wider), dtype of x) = x."""
    need(x.type == match.result.type, "type_of_result")
    need(_holds(wide.outputs[0].type.dtype, x.type.dtype), "lossless_cast")
    return x


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` has a value of its own in `wide`."""
    numbers = all(d.is_integer or d.is_float or d is DType.bool for d in (wide, narrow))
    return numbers and np.can_cast(narrow.numpy, wide.numpy, "safe")
