"""FAKE_QUANT of narrow ranges, which the runtime's kernel refuses, in other operators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.walk import with_bodies
from jfuse.lowering.ops.math.fake_quant import in_arithmetic
from jfuse.passes.rewrite import rewrite


def without_narrow_ranges(graph: Graph) -> Graph:
    """The graph with arithmetic instead, in bodies too.

    Only once it is clear that no integer tensor takes the range: `quantize` runs it.
    """

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        return [in_arithmetic(eqn.inputs[0], **eqn.params)] if eqn.params.get("narrow_range") else None

    return rewrite(with_bodies(graph, without_narrow_ranges), visit)
