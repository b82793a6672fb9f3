"""The pass that proposes composites in anonymous graphs."""

from __future__ import annotations

import numpy as np

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan
from jfuse.kernels.core.op import Array
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.rules import Proposal, RuleSet, recovers
from jfuse.passes.context import Context
from jfuse.passes.fuse.recover import recover
from jfuse.passes.options import Forms
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, Loop, f32, keras
from tests.lowering.recover.test_lstm import relu_cell

TYPES = [f32(BATCH, UNITS), f32(BATCH, UNITS), f32(STEPS, BATCH, INPUTS)]


def op_names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in graph.eqns]


def test_a_matching_scan_becomes_a_composite_with_the_scan_as_its_body() -> None:
    graph = Loop(keras).graph()
    ctx = Context()
    result = recover(graph, ctx)
    check_graph(result)
    (eqn,) = result.eqns
    assert eqn.op is composite
    assert eqn.params["name"] == "jfuse.lstm"
    assert dict(eqn.params["attributes"]) == {"results": ("h", "c", "y"), "reverse": False}
    assert op_names(eqn.bodies[0]) == ["scan"]
    assert eqn.outputs == graph.eqns[0].outputs
    assert ctx.report.refused == []


def test_dead_carries_and_results_are_left_out_first() -> None:
    def step(h: Array, c: Array, total: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return new_h, new_c, ops.add(total, x), new_h, x

    (eqn,) = Loop(step, carries=[f32(BATCH, UNITS), f32(BATCH, UNITS), f32(BATCH, INPUTS)]).graph().eqns

    def last_h(h: Array, c: Array, x: Array) -> Array:
        first = ops.gather(x, np.asarray(0, np.int32), axis=0)
        return scan([h, c, first, x], eqn.bodies, **eqn.params)[0]

    result = recover(trace_graph(last_h, TYPES), Context())
    assert op_names(result) == ["composite"]
    assert dict(result.eqns[0].params["attributes"])["results"] == ("h", "c")


def test_other_scans_stay_with_a_reason() -> None:
    graph = Loop(relu_cell).graph()
    ctx = Context()
    result = recover(graph, ctx)
    assert op_names(result) == ["scan"]
    (refusal,) = ctx.report.refused
    assert (refusal.rule, refusal.condition) == ("recover_lstm", "unexplained_switch")
    assert "got relu" in refusal.detail


def test_recovery_can_be_switched_off() -> None:
    graph = Loop(keras).graph()
    ctx = Context(forms=Forms(recover=False))
    assert recover(graph, ctx) is graph
    assert ctx.report.refused == []


def in_a_branch(flag: Array, *operands: Array) -> Array:
    (eqn,) = Loop(keras).graph().eqns
    then = trace_graph(lambda *o: scan(o, eqn.bodies, **eqn.params)[0], TYPES)
    other = trace_graph(lambda h, c, x: ops.neg(h), TYPES)
    return ops.if_([flag, *operands], [then, other])[0]


def test_bodies_of_branches_are_searched_too() -> None:
    graph = trace_graph(in_a_branch, [TensorType((), DType.bool), *TYPES])
    (eqn,) = recover(graph, Context()).eqns
    assert op_names(eqn.bodies[0]) == ["composite"]


def test_the_body_of_an_annotated_composite_is_left_alone() -> None:
    graph = Loop(keras).graph()

    def annotated(*operands: Array) -> tuple[Array, ...]:
        params = {"name": "acme.lstm", "arguments": ("h", "c", "x"), "attributes": ()}
        return composite(operands, [graph], **params)

    result = recover(trace_graph(annotated, TYPES), Context())
    assert op_names(result.eqns[0].bodies[0]) == ["scan"]


def test_the_users_rules_are_asked_first() -> None:
    @recovers("acme.lstm", default=False)
    def recover_any(step: Step) -> Proposal:
        return Proposal(operands={"x": step.place(step.xs[0])})

    ctx = Context(rules=RuleSet().extended([recover_lstm, recover_any]))
    (eqn,) = recover(Loop(keras).graph(), ctx).eqns
    assert eqn.params["name"] == "acme.lstm"
    assert eqn.params["arguments"][0] == "x"


def test_of_several_refusals_the_nearest_is_reported() -> None:
    ctx = Context(rules=default_rules())
    recover(Loop(cells.gru(reset_after=True), carries=[f32(BATCH, UNITS)]).graph(), ctx)
    (refusal,) = ctx.report.refused
    assert (refusal.rule, refusal.condition) == ("recover_gru", "no_builtin_op")
    assert "GRU, reset_after=True, 4 units, tanh, sigmoid" in refusal.detail
