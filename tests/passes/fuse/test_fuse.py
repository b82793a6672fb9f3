"""The fuse pass: how rules are called, what is refused and why, and the rules that come with jfuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import RuleError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites import recurrent
from jfuse.lowering.ops.math import special
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.rules import FuseRule, RuleSet, fuses
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.pipeline import SUB_PASSES
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, Loop, dense, f32, weights
from tests.passes.fuse.composites import Function, call, conditions, fused, op_names

X = f32(BATCH, 4)
KERNEL = weights(4, 4)


# The composite of most tests: relu(scale * (x w)), as the source spells it.


def scaled_body(x: Array, w: Array, scale: Array) -> Array:
    return ops.maximum(ops.mul(ops.batch_matmul(x, w), scale), np.float32(0))


def scaled(x: Array, scale: Any = 2.0) -> Array:
    scale = np.asarray(scale, np.float32) if isinstance(scale, float) else scale
    return call(scaled_body, [x, KERNEL, scale], ["x", "w", "scale"])[0]


@fuses("acme.cell", default=False)
def fuse_scaled(w: np.ndarray, x: Array, *, scale: float) -> Array:
    return ops.fully_connected(x, np.float32(scale) * w.T, fused_activation_function="RELU")


def test_operands_bind_by_name_and_keywords_to_constants() -> None:
    graph = trace_graph(scaled, [X])
    result, ctx = fused(graph, fuse_scaled)
    assert op_names(result) == ["fully_connected"]
    (fusion,) = ctx.report.fused
    assert (fusion.composite, fusion.rule, fusion.becomes) == ("acme.cell", "fuse_scaled", ("FULLY_CONNECTED",))
    assert fusion.samples >= 64
    assert fusion.error < 1e-12  # f64 rounding
    x = np.array([[1, -2, 3, -4]], np.float32)
    (found,) = evaluate(result, [x])
    np.testing.assert_allclose(found, np.maximum(2 * (x @ KERNEL), 0), rtol=1e-6)  # 4-term sums in f32


def test_operands_bind_by_position_where_names_are_others() -> None:
    @fuses("acme.cell", default=False)
    def fuse_by_position(data: Array, kernel: np.ndarray, factor: np.ndarray) -> Array:
        return ops.fully_connected(data, factor * kernel.T, fused_activation_function="RELU")

    result, _ = fused(trace_graph(scaled, [X]), fuse_by_position)
    assert op_names(result) == ["fully_connected"]


def test_a_keyword_that_is_computed_at_run_time_refuses() -> None:
    graph = trace_graph(scaled, [X, f32()])
    result, ctx = fused(graph, fuse_scaled)
    assert conditions(ctx) == ["static_scale"]
    assert op_names(result) == ["batch_matmul", "mul", "maximum"]
    assert ctx.report.refused[0].what == "acme.cell"


@pytest.mark.parametrize(("attributes", "expected"), [({}, ["missing_scale"]), ({"scale": 1.0}, [])])
def test_keywords_bind_to_attributes_or_defaults(attributes: dict[str, Any], expected: list[str]) -> None:
    @fuses("acme.cell", default=False)
    def fuse_plain(x: Array, *, scale: float, mode: str = "plain") -> Array:
        assert mode == "plain"
        return ops.tanh(x) if scale == 1.0 else ops.sin(x)

    graph = trace_graph(lambda x: call(ops.tanh, [x], ["x"], **attributes)[0], [X])
    _, ctx = fused(graph, fuse_plain)
    assert conditions(ctx) == expected


def test_text_arguments_reach_the_rule_as_text() -> None:
    seen = []

    @fuses("acme.cell", default=False)
    def fuse_text(x: Array, *, mode: str) -> Array:
        seen.append(mode)
        return ops.tanh(x)

    text = np.array(b"fast", object)
    graph = trace_graph(lambda x: call(lambda x, mode: ops.tanh(x), [x, text], ["x", "mode"])[0], [X])
    fused(graph, fuse_text)
    assert seen == ["fast"]


def test_a_wrong_rule_is_refused_and_the_body_kept() -> None:
    @fuses("acme.cell", default=False)
    def fuse_wrong(x: Array, w: np.ndarray, *, scale: float) -> Array:
        return ops.fully_connected(x, w.T, fused_activation_function="RELU")

    result, ctx = fused(trace_graph(scaled, [X]), fuse_wrong)
    assert conditions(ctx) == ["not_equal"]
    assert "what the body computes" in str(ctx.report.refused[0])
    assert op_names(result) == ["batch_matmul", "mul", "maximum"]


@pytest.mark.parametrize(
    ("function", "condition"),
    [
        (lambda x, w, scale: ops.cast(x, out_data_type=DType.f16), "result_type"),
        (lambda x, w, scale: None, "result_not_given"),
        (lambda a: a, "operand_count"),
    ],
)
def test_results_and_operands_that_do_not_fit_are_refused(function: Function, condition: str) -> None:
    _, ctx = fused(trace_graph(scaled, [X]), FuseRule(("acme.cell",), function))
    assert conditions(ctx) == [condition]


def test_a_rule_may_not_take_open_sizes_for_equal() -> None:
    """The source runs for any two sizes; what the rule makes of it only where they agree."""

    @fuses("acme.cell", default=False)
    def fuse_added(x: Array, y: Array) -> Array:
        return ops.sub(ops.add(ops.tanh(x), y), y)

    def model(x: Array, y: Array) -> Array:
        return call(lambda x, y: ops.tanh(x), [x, y], ["x", "y"])[0]

    _, ctx = fused(trace_graph(model, [X, f32(symbol("C"), 4)]), fuse_added)
    (refusal,) = ctx.report.refused
    assert (refusal.condition, refusal.detail) == ("sizes_agree", "want no assumption on run-time sizes, got C = B")


@pytest.mark.parametrize(("batch", "expected"), [(BATCH, ["dynamic_before_fused"]), (2, [])], ids=["open", "2"])
def test_states_of_open_size_may_not_follow_what_gets_its_size_at_run_time(batch: Any, expected: list[str]) -> None:
    inner = Loop(cells.keras, batch=batch).graph()

    def model(h: Array, c: Array, x: Array) -> Any:
        first = ops.slice_(x, [0, 0, 0], [-1, -1, INPUTS])  # the runtime leaves its size open until it has run
        (eqn,) = inner.eqns
        return eqn.op.run([h, c, first], eqn.params, eqn.bodies)

    state = f32(batch, UNITS)
    ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
    result = fuse(recover(trace_graph(model, [state, state, f32(STEPS, batch, 2 * INPUTS)]), ctx), ctx)
    check_graph(result)
    assert conditions(ctx) == expected
    assert all(r.detail == "want sizes that LiteRT knows at allocation, got slice" for r in ctx.report.refused)
    assert ("scan" in op_names(result)) == bool(expected)


def test_a_result_that_nothing_reads_may_be_left_out() -> None:
    def body(x: Array) -> tuple[Array, Array]:
        return ops.tanh(x), ops.floor(x)

    @fuses("acme.cell", default=False)
    def fuse_first(x: Array) -> tuple[Array, None]:
        return ops.tanh(x), None

    result, ctx = fused(trace_graph(lambda x: call(body, [x], ["x"])[0], [X]), fuse_first)
    assert (op_names(result), conditions(ctx)) == (["tanh"], [])
    _, ctx = fused(trace_graph(lambda x: call(body, [x], ["x"]), [X]), fuse_first)
    assert conditions(ctx) == ["result_not_given"]


def test_an_error_in_a_rule_names_the_rule_and_the_composite() -> None:
    @fuses("acme.cell", default=False)
    def fuse_broken(x: Array, w: np.ndarray, *, scale: float) -> Array:
        raise KeyError("units")

    with pytest.raises(RuleError, match=r"fuse_broken failed on the composite 'acme.cell'(.|\n)*KeyError: 'units'"):
        fused(trace_graph(scaled, [X]), fuse_broken)


def test_an_error_in_a_rule_has_its_line_and_the_name_that_was_meant() -> None:
    @fuses("acme.cell", default=False)
    def fuse_typo(x: Array, w: np.ndarray, *, scale: float) -> Array:
        return ops.hardswish(x)  # type: ignore[attr-defined]

    line = fuse_typo.function.__code__.co_firstlineno + 2
    with pytest.raises(RuleError, match=rf"test_fuse.py, line {line}\); did you mean 'hard_swish'"):
        fused(trace_graph(scaled, [X]), fuse_typo)


def test_another_number_of_results_is_an_error_of_the_rule() -> None:
    @fuses("acme.cell", default=False)
    def fuse_two(x: Array, w: np.ndarray, *, scale: float) -> tuple[Array, Array]:
        return x, x

    with pytest.raises(RuleError, match="fuse_two gives another number of results"):
        fused(trace_graph(scaled, [X]), fuse_two)


def test_without_a_rule_the_body_is_inlined_and_the_report_says_so() -> None:
    result, ctx = fused(trace_graph(scaled, [X]))
    assert op_names(result) == ["batch_matmul", "mul", "maximum"]
    assert [(r.what, r.condition) for r in ctx.report.refused] == [("acme.cell", "no_rule")]


def nested(x: Array) -> Array:
    return ops.neg(call(scaled, [ops.abs_(x)], ["x"], name="acme.outer")[0])


def test_composites_within_inlined_ones_are_fused() -> None:
    result, _ = fused(trace_graph(nested, [X]), fuse_scaled)
    assert op_names(result) == ["abs", "fully_connected", "neg"]


def test_composites_within_branches_are_fused() -> None:
    def branching(flag: Array, x: Array) -> Array:
        other = trace_graph(ops.neg, [X])
        return ops.if_([flag, x], [trace_graph(nested, [X]), other])[0]

    result, _ = fused(trace_graph(branching, [TensorType((), DType.bool), X]), fuse_scaled)
    assert op_names(result.eqns[0].bodies[0]) == ["abs", "fully_connected", "neg"]


def test_one_body_at_two_call_sites() -> None:
    body = trace_graph(lambda x: ops.tanh(ops.neg(x)), [X])

    def twice(x: Array) -> Array:
        params: dict[str, Any] = {"name": "acme.none", "arguments": ("x",), "attributes": ()}
        (first,) = composite([x], [body], **params)
        return composite([first], [body], **params)[0]

    result, _ = fused(trace_graph(twice, [X]))
    assert op_names(result) == ["neg", "tanh", "neg", "tanh"]


def test_a_recurrence_in_an_inlined_body_is_recovered() -> None:
    """Its weights come as operands of the composite."""

    def step(kernel: Array, h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(ops.add(ops.batch_matmul(x, kernel), dense(h, cells.R)), cells.B)
        new_h, new_c = cells.update(ops.split(1, z, num_splits=4), c)
        return new_h, new_c, new_h

    inner = Loop(step, consts=[f32(INPUTS, 4 * UNITS)]).graph()
    params: dict[str, Any] = {"name": "acme.lstm", "arguments": ("w", "h", "c", "x"), "attributes": ()}
    graph = trace_graph(lambda *o: composite([cells.W, *o], [inner], **params), [v.type for v in inner.inputs[1:]])
    result, ctx = fused(graph, recover_lstm, recurrent.fuse_lstm)
    assert "unidirectional_sequence_lstm" in op_names(result)
    assert "scan" not in op_names(result)
    assert ctx.report.fused[0].recovered


def test_a_rule_that_computes_its_constants_in_f32_is_proved() -> None:
    @fuses("acme.cell", default=False)
    def fuse_folded(x: Array, w: np.ndarray, *, scale: float) -> Array:
        return ops.fully_connected(x, scale * w.T, fused_activation_function="RELU")

    result, ctx = fused(trace_graph(lambda x: scaled(x, 0.3), [X]), fuse_folded)
    assert (op_names(result), conditions(ctx)) == (["fully_connected"], [])


def test_a_constant_that_is_off_by_more_than_its_rounding_is_refused() -> None:
    @fuses("acme.cell", default=False)
    def fuse_off(x: Array, w: np.ndarray, *, scale: float) -> Array:
        exact = scale * w.T
        return ops.fully_connected(
            x, exact if w.dtype == np.float64 else exact * np.float32(1.0001), fused_activation_function="RELU"
        )

    _, ctx = fused(trace_graph(scaled, [X]), fuse_off)
    assert conditions(ctx) == ["not_equal"]


def test_the_error_function_within_a_composite_is_proven_exactly() -> None:
    """TFLite has no erf; how the file would spell it, to 5e-7 and with clips, must not stand in the way of GELU."""

    @fuses("acme.gelu", default=False)
    def fuse_gelu(x: Array) -> Array:
        return ops.gelu(x, approximate=False)

    @fuses("acme.gelu", default=False)
    def fuse_tanh_gelu(x: Array) -> Array:
        return ops.gelu(x, approximate=True)

    def gelu(x: Array) -> Array:
        return ops.mul(ops.mul(x, 0.5), special.lower_erfc(ops.mul(x, -(0.5**0.5))))

    graph = trace_graph(lambda x: call(gelu, [x], ["x"], name="acme.gelu")[0], [X])
    result, ctx = fused(graph, fuse_gelu)
    assert op_names(result) == ["gelu"]
    assert ctx.report.fused[0].error < 1e-6
    result, ctx = fused(graph, fuse_tanh_gelu)
    assert [r.condition for r in ctx.report.refused] == ["not_equal"]
    # What the body spells is found without the rule.
    assert [e.params["approximate"] for e in result.eqns if e.op is ops.gelu] == [False]


def _places(x: Array) -> Array:
    return ops.where(ops.greater(x, np.float32(0)))


def _distinct(x: Array) -> Array:
    return ops.unique(ops.reshape(x, np.array([-1], np.int32)), idx_out_type=DType.i32)[0]


def _counted(x: Array) -> Array:
    count = ops.cast(ops.sum_(x, np.array([0, 1], np.int32), keep_dims=False), out_data_type=DType.i32)
    return ops.range_(np.int32(0), count, np.int32(1))


@pytest.mark.parametrize("body", [_places, _distinct, _counted])
def test_results_sized_by_data_are_named_apart(body: Function) -> None:
    """The rule's size gets another name than the body's: the search for a free one found no end."""
    graph = trace_graph(lambda x: call(body, [x], ["x"])[0], [f32(2, 3)])
    result, ctx = fused(graph, FuseRule(("acme.cell",), lambda x: body(x)))
    x = np.array([[1, -2, 3], [3, 1, 0]], np.float32)
    np.testing.assert_array_equal(evaluate(result, [x])[0], body(x))
    assert conditions(ctx) == []
    assert len(ctx.report.fused) == 1
