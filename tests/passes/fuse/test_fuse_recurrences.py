"""Recurrences in the fuse pass: they answer like the written equations, and what only resembles a cell stays."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Const, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites import keras, recurrent
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.recover.cells.rnn import recover_rnn
from jfuse.lowering.rules import Rule, RuleSet
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.options import Forms
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.running.runner import Runner
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, Loop, dense, f32, gate, weights
from tests.lowering.recover.test_lstm import DECOYS, SPELLINGS
from tests.passes.fuse.composites import call, conditions, fused, op_names
from tests.slow import every_other, slow_but


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


def test_cells_that_differ_in_their_weights_alone_share_their_programs(caplog: pytest.LogCaptureFixture) -> None:
    def fused_cell() -> int:
        """How many programs XLA compiles to read and prove a cell with weights that no other has."""
        w, r, b = (weights(*a.shape) for a in (cells.W, cells.R, cells.B))

        def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
            z = ops.add(ops.fully_connected(x, w.T.copy(), b), ops.fully_connected(h, r.T.copy(), None))
            new_h, new_c = cells.update(ops.split(1, z, num_splits=4), c)
            return new_h, new_c, new_h

        caplog.clear()
        ctx = Context(rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]), sub=SUB_PASSES)
        with jax.log_compiles():
            result = fuse(recover(Loop(step).graph(), ctx), ctx)
        assert "unidirectional_sequence_lstm" in op_names(result)
        return sum("Finished XLA compilation" in message for message in caplog.messages)

    assert fused_cell() > 0
    assert fused_cell() == 0


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


@pytest.mark.parametrize("variant", every_other(SIMPLE))
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


def batch_mean(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    return cells.keras(h, c, ops.sub(x, ops.mean(x, [0], keep_dims=True)))


@pytest.mark.parametrize("decoy", every_other([*DECOYS, "batch_mean"]))
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


def test_a_mask_and_layer_norms_and_peepholes_do_not_go_together() -> None:
    """Where c is read: what freezes it is a large number in a gate, which a norm takes away before the gates."""
    mask = TensorType((BATCH, 1), DType.bool)

    def step(h: Array, c: Array, x: Array, counts: Array) -> tuple[Array, ...]:
        into, forget, cell, out = ops.split(1, ops.add(dense(x, cells.W), dense(h, cells.R)), num_splits=4)
        sums = [ops.add(into, ops.mul(c, cells.PEEPHOLES["input"])), forget, cell, out]
        parts = [cells.written_norm(v, cells.SCALES[k], cells.SHIFTS[k], 1e-8) for k, v in enumerate(sums)]
        new_h, new_c = cells.update(parts, c)
        kept = ops.select_v2(counts, new_h, h)
        return kept, ops.select_v2(counts, new_c, c), kept

    ctx = Context(
        rules=RuleSet().extended([recover_lstm, recurrent.fuse_lstm]),
        forms=Forms(padding="right"),
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
