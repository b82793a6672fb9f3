"""One step of a recurrence that stands outside of a loop: read as the body of a loop that makes a single step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import live_eqns, retype
from jfuse.kernels.control import scan
from jfuse.lowering.recover.cells.step import Step


def one_step(body: Graph, x: Var, states: Sequence[Var], after: Sequence[Atom]) -> Step:
    """The step from `states`, inputs of a body, to their values `after`; x: the input that a loop would step through.

    The other inputs are loop-invariant. f64 is read as f32, in which recover rules take their operands.
    """
    others = [v for v in body.inputs if v is not x and v not in states]
    inputs = (*others, *states, x)
    step = _narrow(Graph("step", inputs, live_eqns(body, after), tuple(after)))
    params = {"consts": len(others), "carries": len(states), "length": 1, "reverse": False}
    outputs = tuple(Var(a.type) for a in step.outputs)
    # The step input has no axis of steps here: nothing that reads the step looks at the operands of the scan.
    return Step(Eqn(scan, step.inputs, outputs, params, bodies=(step,)))


def _narrow(graph: Graph) -> Graph:
    """The graph in f32 where it is in f64."""

    def constant(const: Const) -> Const:
        return Const(const.array.astype(DType.f32.numpy), const.name) if const.type.dtype is DType.f64 else const

    def narrow(type_: TensorType) -> TensorType:
        return replace(type_, dtype=DType.f32) if type_.dtype is DType.f64 else type_

    return retype(graph, narrow, lambda value: DType.f32 if value is DType.f64 else value, constant)
