"""Reversals that undo each other."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.kernels.array import array
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.registry import View, peephole


@peephole(array.reverse_v2)
def reversed_twice(eqn: Eqn, view: View) -> Any:
    """REVERSE_V2(REVERSE_V2(x)) along the same axes = x."""
    x, axes = eqn.inputs
    before = view.producer(x)
    if before is None or before.op is not array.reverse_v2 or axes is None or before.inputs[1] is None:
        return None
    rank = eqn.outputs[0].type.rank
    both = [{a % rank for a in static_value(axis) or ()} for axis in (axes, before.inputs[1])]
    return before.inputs[0] if both[0] == both[1] else None
