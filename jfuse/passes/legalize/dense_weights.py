"""Sparse weights of a file that was read, dense: passes and recipes know constants, and no DENSIFY."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.ir.declared_types import is_stated
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.sparse import SparseConst
from jfuse.ir.walk import with_bodies
from jfuse.passes.rewrite import rewrite


def dense_weights(graph: Graph) -> Graph:
    """The graph with sparse constants dense where DENSIFY makes them so at run time, in bodies too."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        operand = eqn.inputs[0] if eqn.op.is_kept and len(eqn.inputs) == len(eqn.outputs) == 1 else None
        if not isinstance(operand, SparseConst) or operand.type != eqn.outputs[0].type or is_stated(eqn):
            return None
        return [Const(operand.array, operand.name)]

    return rewrite(with_bodies(graph, dense_weights), visit)
