"""The fuse pass: how rules are called, what is refused and why, and the rules that come with jfuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.errors import RuleError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites import keras, recurrent
from jfuse.lowering.ops.math import special
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.recover.cells.rnn import recover_rnn
from jfuse.lowering.rules import FuseRule, Rule, RuleSet, fuses
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.options import RecurrenceOptions
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.running.runner import Runner
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, Loop, dense, f32, gate, weights
from tests.lowering.recover.test_lstm import DECOYS, SPELLINGS
from tests.passes.fuse.composites import Function, call, conditions, fused, op_names
from tests.slow import slow_but

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
    assert fusion.samples >= 100
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


# Recurrences, against the written equations.


def lstm(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """h of every step, and the last h and c, by the equations.   x: f[t,b,i]"""
    steps = []
    for row in x.astype(np.float64):
        z = row @ cells.W + h @ cells.R + cells.B
        i, f, g, o = (gate(z, k) for k in range(4))
        c = c / (1 + np.exp(-f)) + np.tanh(g) / (1 + np.exp(-i))
        h = np.tanh(c) / (1 + np.exp(-o))
        steps.append(h)
    return np.stack(steps), h, c


def draw(*shape: int) -> np.ndarray:
    return np.random.default_rng(11).standard_normal(shape).astype(np.float32)


@pytest.mark.parametrize(
    ("spelling", "reverse"), [("keras", False), ("keras", True), ("transposed", False), ("spelled_out", False)]
)
def test_recovered_lstms_answer_like_the_equations(spelling: str, reverse: bool) -> None:
    ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
    result = fuse(recover(Loop(SPELLINGS[spelling], reverse=reverse).graph(), ctx), ctx)
    check_graph(result)
    assert op_names(result).count("unidirectional_sequence_lstm") == 1
    assert "scan" not in op_names(result)
    assert ctx.report.fused[0].error < 1e-12  # f64 rounding over three steps
    h, c, x = draw(2, UNITS), draw(2, UNITS), draw(7, 2, INPUTS)
    y, last_h, last_c = lstm(x[::-1] if reverse else x, h, c)
    for found, wanted in zip(
        Runner(result, quick=True)([h, c, x]), (last_h, last_c, y[::-1] if reverse else y), strict=True
    ):
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # f32, 7 steps


STATES = {"projection": [f32(BATCH, 3), f32(BATCH, UNITS)], "simple": [f32(BATCH, UNITS)]}
VARIANTS = {
    "negative_update": cells.negative_update,
    "peepholes": cells.peepholes,
    "projection": cells.projected(0.75),
    "clipped": cells.clipped(0.5),
    "coupled": cells.coupled,
    "relu": cells.activated(ops.relu),
    "relu_as_a_choice": cells.activated(cells.chosen_relu),
    "relu6": cells.activated(ops.relu6),
    "diagonal": cells.diagonal,
    "layer_norm_with_bias": cells.normed(bias=True),
}
SIMPLE = {
    "tanh": cells.simple(),
    "relu": cells.simple(ops.relu),
    "relu_as_a_choice": cells.simple(cells.chosen_relu),
    "linear": cells.simple(lambda z: z),
}


def check_fused_as(loop: Loop, operator: str) -> None:
    """The loop becomes the operator, which answers as the loop does on XLA."""
    rules: list[Rule] = [recover_lstm, recover_rnn, recurrent.fuse_lstm, recurrent.fuse_rnn]
    ctx = Context(rules=RuleSet().extended(rules), sub=SUB_PASSES)
    graph = loop.graph()
    result = fuse(recover(graph, ctx), ctx)
    check_graph(result, types=True)
    assert (op_names(result).count(operator), conditions(ctx)) == (1, [])
    assert "scan" not in op_names(result)
    assert ctx.report.fused[0].error < 1e-11  # f64 rounding over three steps; layer norms divide by small variances
    args = [draw(*(2 if d is BATCH else 7 if d is STEPS else d for d in v.type.shape)) for v in graph.inputs]
    for found, wanted in zip(Runner(result, quick=True)(args), Runner(graph, quick=True)(args), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=2e-6, atol=2e-6)  # f32, 7 steps


@pytest.mark.parametrize("variant", slow_but(lambda variant: not variant.startswith("relu"), VARIANTS))
def test_variants_of_lstms_are_proved(variant: str) -> None:
    check_fused_as(Loop(VARIANTS[variant], carries=STATES.get(variant)), "unidirectional_sequence_lstm")


@pytest.mark.parametrize("variant", SIMPLE)
def test_simple_rnns_are_proved(variant: str) -> None:
    check_fused_as(Loop(SIMPLE[variant], carries=STATES["simple"]), "unidirectional_sequence_rnn")


def test_a_projection_to_more_values_than_units_keeps_c() -> None:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(dense(x, cells.W[:, :8]), dense(h, cells.R[:3, :8]))
        new_h, new_c = cells.update(ops.split(1, z, num_splits=4), c)
        new_h = dense(new_h, cells.PROJECTION[:2])
        return new_h, new_c, new_h

    check_fused_as(Loop(step, carries=[f32(BATCH, 3), f32(BATCH, 2)]), "unidirectional_sequence_lstm")


def test_a_computed_bias_is_proved_exactly_and_rounded_once() -> None:
    ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
    result = fuse(recover(Loop(cells.permuted).graph(), ctx), ctx)
    check_graph(result)
    (eqn,) = [e for e in result.eqns if e.op is ops.unidirectional_sequence_lstm]
    bias = eqn.inputs[ops.unidirectional_sequence_lstm.operand_index("forget_gate_bias")]
    assert isinstance(bias, Const)
    np.testing.assert_array_equal(bias.array, gate(cells.B, 1) + np.float32(1))
    assert bias.array.dtype == np.float32
    assert ctx.report.fused[0].error < 1e-12  # f64 rounding over three steps


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


def batch_mean(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    return cells.keras(h, c, ops.sub(x, ops.mean(x, [0], keep_dims=True)))


@pytest.mark.parametrize("decoy", [*DECOYS, "batch_mean"])
def test_no_decoy_is_fused(decoy: str) -> None:
    step, condition = DECOYS.get(decoy, (batch_mean, "not_equal"))
    ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
    graph = Loop(step).graph()
    result = fuse(recover(graph, ctx), ctx)
    check_graph(result)
    assert op_names(result) == ["scan"]
    assert conditions(ctx) == [condition]
    args = [draw(2, UNITS), draw(2, UNITS), draw(5, 2, INPUTS)]
    for found, wanted in zip(Runner(result, quick=True)(args), Runner(graph, quick=True)(args), strict=True):
        np.testing.assert_array_equal(found, wanted)


# keras.lstm


def keras_lstm(
    inputs: Array,
    h: Array,
    c: Array,
    kernel: Array,
    recurrent_kernel: Array,
    bias: Array,
    *,
    attributes: dict[str, bool],
) -> tuple[Array, ...]:
    """What standard_lstm does with time first inside; results last, sequence, h, c, a constant."""

    def step(kernel: Array, recurrent_kernel: Array, bias: Array, h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(ops.add(ops.batch_matmul(x, kernel), ops.batch_matmul(h, recurrent_kernel)), bias)
        new_h, new_c = cells.update(ops.split(1, z, num_splits=4), c)
        return new_h, new_c, new_h

    x = inputs if attributes["time_major"] else ops.transpose(inputs, [1, 0, 2])
    x = ops.reverse_v2(x, [0]) if attributes["go_backwards"] else x
    consts = [kernel, recurrent_kernel, bias]
    (eqn,) = (
        Loop(step, consts=[v.type for v in consts], batch=x.shape[1], steps=x.shape[0], carries=[h.type, c.type])
        .graph()
        .eqns
    )
    last_h, last_c, y = eqn.op.run([*consts, h, c, x], eqn.params, eqn.bodies)
    y = ops.expand_dims(last_h, 0) if attributes["last"] else y
    return last_h, y if attributes["time_major"] else ops.transpose(y, [1, 0, 2]), last_h, last_c, np.float32(0)


KERAS_ARGUMENTS = ["inputs", "init_h", "init_c", "kernel", "recurrent_kernel", "bias"]
FLAGS = ["time_major", "go_backwards", "last"]


def keras_graph(batch: Any = BATCH, steps: Any = STEPS, kernel: Any = None, **flags: bool) -> Graph:
    attributes = {name: flags.get(name, False) for name in FLAGS}
    shape = (steps, batch) if attributes["time_major"] else (batch, steps)

    def model(x: Array, h: Array, c: Array, *kernels: Array) -> tuple[Any, ...]:
        operands = [x, h, c, kernels[0] if kernels else cells.W, cells.R, cells.B]
        body = lambda *o: keras_lstm(*o, attributes=attributes)  # noqa: E731
        shown = {k: v for k, v in attributes.items() if k != "last"}
        return call(body, operands, KERAS_ARGUMENTS, "keras.lstm", **shown)

    extra = [] if kernel is None else [kernel]
    return trace_graph(model, [f32(*shape, INPUTS), f32(batch, UNITS), f32(batch, UNITS), *extra])


@pytest.mark.parametrize(
    ("flags", "batch", "steps"),
    [
        ([], BATCH, STEPS),
        ([], 2, 7),
        (["time_major"], BATCH, 7),
        (["go_backwards"], BATCH, STEPS),
        (["last"], 2, STEPS),
        (FLAGS, 2, 7),
    ],
)
def test_keras_lstm(flags: list[str], batch: Any, steps: Any) -> None:
    graph = keras_graph(batch, steps, **dict.fromkeys(flags, True))
    result, ctx = fused(graph, keras.fuse_keras_lstm)
    assert conditions(ctx) == []
    names = op_names(result)
    assert names.count("unidirectional_sequence_lstm") == 1
    assert "scan" not in names
    (eqn,) = [e for e in result.eqns if e.op is ops.unidirectional_sequence_lstm]
    assert (eqn.params["cell_clip"], eqn.params["fused_activation_function"]) == (0.0, "TANH")
    x, h, c = draw(7, 2, INPUTS), draw(2, UNITS), draw(2, UNITS)
    y, last_h, last_c = lstm(x[::-1] if "go_backwards" in flags else x, h, c)
    y = y[-1:] if "last" in flags else y
    by_batch = "time_major" not in flags
    found = Runner(result, quick=True)([x.swapaxes(0, 1) if by_batch else x, h, c])
    wanted = (last_h, y.swapaxes(0, 1) if by_batch else y, last_h, last_c, np.zeros(()))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)  # f32, 7 steps


def test_keras_lstm_with_a_kernel_that_is_computed_keeps_its_loop() -> None:
    result, ctx = fused(keras_graph(kernel=f32(INPUTS, 4 * UNITS)), keras.fuse_keras_lstm)
    assert conditions(ctx)[0] == "static_kernel"
    assert "scan" in op_names(result)


@pytest.mark.parametrize(
    "inputs", [f32(BATCH, INPUTS), TensorType((BATCH, STEPS, INPUTS), DType.f16)], ids=["rank_2", "f16"]
)
def test_keras_lstm_of_other_inputs_keeps_its_loop(inputs: TensorType) -> None:
    def body(x: Array, h: Array, c: Array, *kernels: Array) -> tuple[Any, ...]:
        return h, x, h, c, np.float32(0)

    def model(x: Array, h: Array, c: Array) -> tuple[Any, ...]:
        operands = [x, h, c, cells.W, cells.R, cells.B]
        return call(body, operands, KERAS_ARGUMENTS, "keras.lstm", time_major=False, go_backwards=False)

    _, ctx = fused(trace_graph(model, [inputs, f32(BATCH, UNITS), f32(BATCH, UNITS)]), keras.fuse_keras_lstm)
    assert [str(r) for r in ctx.report.refused] == [
        f"fuse_keras_lstm: input_type failed: want f32 of rank 3, got {inputs}"
    ]


def test_keras_lstm_with_a_mask_keeps_its_loop() -> None:
    def masked(x: Array, h: Array, c: Array, mask: Array) -> tuple[Any, ...]:
        attributes = dict.fromkeys(FLAGS, False)

        def body(*o: Array) -> Any:
            return keras_lstm(*o[:6], attributes=attributes)

        operands = [x, h, c, cells.W, cells.R, cells.B, mask]
        return call(body, operands, [*KERAS_ARGUMENTS, "mask"], "keras.lstm", time_major=False, go_backwards=False)

    types = [f32(BATCH, STEPS, INPUTS), f32(BATCH, UNITS), f32(BATCH, UNITS), TensorType((BATCH, STEPS), DType.bool)]
    _, ctx = fused(trace_graph(masked, types), keras.fuse_keras_lstm)
    assert conditions(ctx) == ["masked"]


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


def test_a_mask_and_layer_norms_do_not_go_together() -> None:
    """Where c is read: what freezes it is a large number in a gate, which a norm takes away."""
    mask = TensorType((BATCH, 1), DType.bool)

    def step(h: Array, c: Array, x: Array, counts: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = cells.normed()(h, c, x)
        kept = ops.select_v2(counts, new_h, h)
        return kept, ops.select_v2(counts, new_c, c), kept

    ctx = Context(
        rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]),
        recurrence=RecurrenceOptions(padding="right"),
        sub=SUB_PASSES,
    )
    graph = Loop(step, xs=[f32(BATCH, INPUTS), mask]).graph()
    result = fuse(recover(graph, ctx), ctx)
    assert conditions(ctx) == ["masked_layer_norm"]
    assert "scan" in op_names(result)


@pytest.mark.parametrize("norm", [None, cells.written_norm])
def test_a_wide_projection_and_layer_norms_do_not_go_together(norm: Any) -> None:
    kernel = weights(UNITS, UNITS + 1)

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.split(1, ops.add(dense(x, cells.W), dense(h, weights_of_h)), num_splits=4)
        z = z if norm is None else [norm(p, cells.SCALES[k], cells.SHIFTS[k], 1e-8) for k, p in enumerate(z)]
        new_h, new_c = cells.update(z, c)
        new_h = dense(new_h, kernel)
        return new_h, new_c, new_h

    weights_of_h = weights(UNITS + 1, 4 * UNITS)
    ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
    recover(Loop(step, carries=[f32(BATCH, UNITS + 1), f32(BATCH, UNITS)]).graph(), ctx)
    assert conditions(ctx) == ([] if norm is None else ["projection_width"])


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
    # How long a range is a value tells, which may be any: that is not proven by trying.
    assert conditions(ctx) == (["body_not_executable"] if body is _counted else [])
    assert len(ctx.report.fused) == (body is not _counted)
