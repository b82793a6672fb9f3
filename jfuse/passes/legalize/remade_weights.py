"""Makes LiteRT prepare weights in each call, where it would prepare them once and then lose them.

DEQUANTIZE of a constant computes once. So does CONV_2D with float operands and integer weights of several scales, for
their sums. Both keep the result in the persistent arena, beside the states of fused operators. When states grow with
the batch, the arena is planned anew, but the kernels do not compute again: the next calls read other numbers (LiteRT
2.3.0, tflite/kernels/dequantize.cc and conv.cc, compute_hybrid_row_sums). A RESHAPE hides the constant from the kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from jfuse.ir.declared_types import is_stated
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Source, Var
from jfuse.ir.sparse import SparseConst
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import with_bodies
from jfuse.kernels import ops
from jfuse.opaque_ops.state_operands import has_open_state
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite


def remade_weights(graph: Graph, ctx: Context) -> Graph:
    """Promise that no kernel reads what LiteRT made of a constant before the batch changed, in bodies too."""
    graph = with_bodies(graph, lambda body: remade_weights(body, ctx))
    if not any(map(has_open_state, graph.eqns)):
        return graph
    remaking = _Remaking()
    for eqn in graph.eqns:
        remaking.add(eqn)
    if not remaking.floats:
        return graph
    ctx.report.notes.append(
        f"weights become floats anew in each call ({len(remaking.floats)} of them), as LiteRT would lose them beside "
        "fused states when an open batch changes; batch= fixes the batch, and saves that time"
    )
    return replace(graph, eqns=tuple(remaking.eqns))


@dataclass
class _Remaking:
    """The equations of one graph so far.   floats: what DEQUANTIZE makes of each constant, made once in the graph"""

    eqns: list[Eqn] = field(default_factory=list)
    floats: dict[int, Var] = field(default_factory=dict)

    def add(self, eqn: Eqn) -> None:
        """Append an equation, with its weights made in each call where the kernel would make them once."""
        if eqn.op is ops.dequantize and isinstance(eqn.inputs[0], Const):
            shaped = self._shaped(eqn.inputs[0], eqn.source)
            self.floats[id(eqn.inputs[0])] = eqn.outputs[0]
            eqn = replace(eqn, inputs=(shaped,))
        elif eqn.op is ops.conv_2d and isinstance(eqn.inputs[1], Const) and _sums_once(*eqn.inputs[:2]):
            x, _, *others = eqn.inputs
            eqn = replace(eqn, inputs=(x, self._floats_of(eqn.inputs[1], eqn.source), *others))
        self.eqns.append(eqn)

    def _floats_of(self, const: Const, source: Source) -> Var:
        if id(const) not in self.floats:
            made = Var(TensorType(const.type.shape, DType.f32))
            self.eqns.append(Eqn(ops.dequantize, (self._shaped(const, source),), (made,), {}, source))
            self.floats[id(const)] = made
        return self.floats[id(const)]

    def _shaped(self, const: Const, source: Source) -> Var:
        """The constant behind a RESHAPE to its own shape."""
        made, shape = Var(const.type), Const(np.array(const.type.shape, np.int32))
        self.eqns.append(Eqn(ops.reshape, (const, shape), (made,), ops.reshape.bind_options({}), source))
        return made


def _sums_once(x: Atom | None, weights: Atom | None) -> bool:
    """Whether CONV_2D sums up integer weights, for the zero points of its float operands."""
    if x is None or weights is None or x.type.dtype is not DType.f32 or weights.type.quantization is None:
        return False
    return len(set(weights.type.quantization.scale)) > 1


# Sparse weights of a file that was read, dense: passes and recipes know constants, and no DENSIFY.


def dense_weights(graph: Graph) -> Graph:
    """The graph with sparse constants dense where DENSIFY makes them so at run time, in bodies too."""

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        operand = eqn.inputs[0] if eqn.op.is_kept and len(eqn.inputs) == len(eqn.outputs) == 1 else None
        if not isinstance(operand, SparseConst) or operand.type != eqn.outputs[0].type or is_stated(eqn):
            return None
        return [Const(operand.array, operand.name)]

    return rewrite(with_bodies(graph, dense_weights), visit)
