"""Reversals that undo each other."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Atom
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rules import need


@peephole(lambda x, first, second: ops.reverse_v2(ops.reverse_v2(x, first).shared(), second))
def reversed_twice(match: Match, x: Atom, first: Atom, second: Atom) -> Any:
    """REVERSE_V2(REVERSE_V2(x)) along the same axes = x."""
    rank = match.result.type.rank
    once, again = ({a % rank for a in given(static_value(axes), "constant_axes")} for axes in (first, second))
    need(once == again, "same_axes")
    return x
