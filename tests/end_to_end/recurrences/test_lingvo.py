"""Cells marked as lingvo's: what they become, alone and in loops; what is refused converts right all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.frontends.tensorflow.control import composite_marking
from jfuse.model import Model
from jfuse.reports.explain import explain_lines
from tests.end_to_end.invokes import check_invokes
from tests.models.recurrences.recurrent_lingvo import (
    Lingvo,
    by_contract,
    looped,
    marked_with_states,
    one_step_with_states,
    padded,
    paddings,
    zero_padded,
)
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS, Cell, Random, Shell
from tests.slow import every_other

SIMPLE = "LSTMCellSimple"
COUPLED = "LSTMCellSimple,CoupleInputForgetGates"
NORMALIZED = "LayerNormalizedLSTMCellSimple"  # lingvo's own spelling; the official converter knows "Lstm"
CELL = Lingvo(cap=0.4, asserts=False)
STATES: dict[str, Any] = {"m": UNITS, "c": UNITS}
Function = Callable[..., Any]


def model(function: Function, *arguments: Any, name: str = SIMPLE, batch: int | None = 2, **widths: int) -> Any:
    """A model that calls a marked function once, with inputs f32[batch, width] by name and then `arguments`."""
    marked = tf.function(function, experimental_implements=name, autograph=False)
    specs = [tf.TensorSpec([batch, width], tf.float32, name=n) for n, width in widths.items()]

    def run(*inputs: Any) -> dict[str, Any]:
        found = marked(*inputs, *arguments)
        return {f"r{i}": r for i, r in enumerate(found if isinstance(found, tuple | list) else [found])}

    return tf.function(run, input_signature=specs, autograph=False)


def weights(cell: Lingvo) -> list[np.ndarray]:
    return [v.numpy() for v in cell.theta()]


def converted(source: Any, **options: Any) -> Model:
    """The model in the file, which answers like TensorFlow invoke after invoke."""
    lite = jfuse.convert(source, verify=False, **options)
    check_invokes(lite)
    return lite


def conditions(lite: Model) -> list[str]:
    return [r.condition for r in lite.report.refused]


def check_is_cell(lite: Model) -> None:
    assert lite.report.operators["lstm"] == 1
    assert not {"if", "while", "fully_connected", "logistic"} & lite.report.operators.keys()
    assert [f.rule for f in lite.report.fused] == ["fuse_lingvo_cell"]
    assert lite.report.refused == []


@pytest.mark.parametrize(
    ("cell", "batch"),
    [
        (Lingvo(), None),
        (Lingvo(norm=True, outputs=3, cap=0.5), None),
        pytest.param(Lingvo(norm=True, cap=0.5, asserts=False), 2, marks=pytest.mark.slow),
        (Lingvo(blends=True), None),
        (Lingvo(blends=True, norm=True, cap=0.5), 2),
    ],
    ids=["open_batch", "norm-projection-cap", "fixed_batch", "blended", "blended-norm-cap"],
)
def test_paddings_of_zeros_in_every_step_are_no_masks(cell: Lingvo, batch: int | None) -> None:
    lite = converted(zero_padded(cell, batch))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert not {"while", "select_v2", "select"} & lite.report.operators.keys()
    assert lite.report.refused == []


@pytest.mark.parametrize("side", ["right", "left"])
def test_paddings_that_are_inputs_need_the_promise(side: Any) -> None:
    """With a cap and a layer norm; without the promise the padding is the reason, and the option the remedy."""
    source = padded(Lingvo(norm=True, cap=0.5), last_c=False)
    if side == "right":
        refused = jfuse.convert(source, verify=False).report
        assert [r.condition for r in refused.refused] == ["padding_unknown"]
        assert any('padding="right"' in line for line in explain_lines(refused))
    lite = jfuse.convert(source, verify=False, forms=jfuse.Forms(padding=side))
    check_invokes(lite, paddings(side))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1


@pytest.mark.parametrize(
    ("cell", "batch", "side"),
    [
        (Lingvo(norm=True, outputs=3, cap=0.5), None, "left"),
        pytest.param(Lingvo(norm=True), 3, "right", marks=pytest.mark.slow),
        pytest.param(Lingvo(norm=True, coupled=True), None, "right", marks=pytest.mark.slow),
    ],
    ids=["open_batch", "fixed_batch", "coupled"],
)
def test_the_last_cell_state_behind_paddings_and_layer_norms(cell: Lingvo, batch: int | None, side: Any) -> None:
    lite = jfuse.convert(padded(cell, batch), verify=False, forms=jfuse.Forms(padding=side))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 2
    assert lite.report.refused == []
    check_invokes(lite, paddings(side))


@pytest.mark.parametrize("side", ["right", "left"])
def test_states_that_paddings_blend_need_the_promise_of_zeros_and_ones(side: Any) -> None:
    source = padded(Lingvo(blends=True, cap=0.5, asserts=False))
    if side == "right":
        refused = jfuse.convert(source, verify=False)
        assert conditions(refused) == ["padding_unknown"]
        check_invokes(refused)  # any number is a padding here
    lite = jfuse.convert(source, forms=jfuse.Forms(padding=side))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert lite.report.assumptions == [f"the mask of an input is padding on the {side}, in 0 and 1"]
    check_invokes(lite, paddings(side))


def test_paddings_made_of_lengths_blend_without_a_promise() -> None:
    """From a comparison they are 0 and 1, and which side they stand on is known."""
    lite = converted(of_lengths(Lingvo(blends=True), lambda counts: 1.0 - tf.cast(counts, tf.float32)))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert not lite.report.assumptions


def test_a_share_that_the_model_computes_is_no_padding() -> None:
    """With the promise, too: a blend by weights of an attention is what such a model means."""
    source = of_lengths(Lingvo(blends=True, asserts=False), lambda counts: tf.sigmoid(tf.cast(counts, tf.float32)))
    lite = converted(source, padding="right")
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    assert conditions(lite) == ["padding_unknown"]


def of_lengths(cell: Lingvo, shares: Callable[[Any], Any]) -> Any:
    """The cell in a loop over x f32[3,6,i], with what `shares` makes of the mask of lengths i32[3] as paddings."""
    theta = cell.theta()

    def run(x: Any, lengths: Any) -> dict[str, Any]:
        paddings = shares(tf.sequence_mask(lengths, 6))

        def body(t: Any, ys: Any, m: Any, c: Any) -> tuple[Any, ...]:
            m, c = cell.step(x[:, t], paddings[:, t, None], m, c, *theta)
            return t + 1, ys.write(t, m), m, c

        states = [tf.zeros([3, cell.units])] * 2
        _, ys, m, c = tf.while_loop(lambda t, *_: t < 6, body, (0, tf.TensorArray(tf.float32, 6), *states))
        return {"y": ys.stack(), "m": m, "c": c}

    specs = [tf.TensorSpec([3, 6, FEATURES], name="x"), tf.TensorSpec([3], tf.int32, name="lengths")]
    return tf.function(run, input_signature=specs, autograph=False)


def test_names_may_have_lingvos_own() -> None:
    for name, cell in (("lingvo.LSTMCellSimple", CELL), (f"lingvo.{NORMALIZED}", replace(CELL, norm=True))):
        lite = jfuse.convert(model(step_of(cell), name=name, act=FEATURES, **STATES), verify=False)
        check_is_cell(lite)


def test_a_name_may_be_followed_by_options() -> None:
    marked = tf.function(lambda x: 2.0 * x, experimental_implements=COUPLED)
    concrete = tf.function(lambda x: marked(x), input_signature=[tf.TensorSpec([2])]).get_concrete_function()
    (found,) = filter(None, map(composite_marking, concrete.graph.as_graph_def().library.function))
    assert found == (SIMPLE, (("CoupleInputForgetGates", True),))


# With the states among the arguments.


def step_of(cell: Lingvo) -> Function:
    theta = weights(cell)
    return lambda act, m, c: cell.step(act, None, m, c, *theta)


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        (COUPLED, Lingvo(coupled=True, forget_gate_bias=1.0, asserts=False)),
        (NORMALIZED, Lingvo(norm=True, cap=None, asserts=False)),
        (SIMPLE, Lingvo(forget_gate_bias=1.0, outputs=3, asserts=False)),
    ],
    ids=["coupled", "norm", "projection"],
)
def test_weights_may_be_in_the_body(name: str, cell: Lingvo) -> None:
    source = model(step_of(cell), name=name, act=FEATURES, m=cell.outputs, c=cell.units)
    check_is_cell(converted(source))


def test_arguments_and_results_come_in_any_order() -> None:
    def turned(c: Any, act: Any, m: Any) -> Any:
        return CELL.step(act, None, m, c, *theta)[::-1]

    theta = weights(CELL)
    check_is_cell(converted(model(turned, c=UNITS, act=FEATURES, m=UNITS)))


def test_a_padding_keeps_the_states_of_its_rows_and_its_assert_is_dropped() -> None:
    def step(act: Any, padding: Any, m: Any, c: Any) -> Any:
        return cell.step(act, padding, m, c, *theta)

    def draw(seed: int) -> dict[str, np.ndarray]:
        rng, rows = np.random.default_rng(seed), 3 + 2 * (seed % 2)
        drawn = {n: rng.standard_normal((rows, w)).astype(np.float32) for n, w in widths.items()}
        return drawn | {"padding": (rng.random((rows, 1)) < 0.5).astype(np.float32)}

    cell, widths = replace(CELL, asserts=True), {"act": FEATURES, **STATES}
    theta = weights(cell)
    lite = jfuse.convert(model(step, batch=None, act=FEATURES, padding=1, **STATES), verify=False)
    check_invokes(lite, draw)
    check_is_cell(lite)
    assert lite.report.operators["select_v2"] == 2


def test_a_cap_that_is_not_lingvos_default_is_read_in_the_body() -> None:
    (fusion,) = jfuse.convert(one_step_with_states(CELL), verify=False).report.fused
    assert fusion.cell == "LSTM cell of 4 units, 5 inputs; cell_clip 0.4"


# Without states, as the official converter has it.


def zero_step(act: Any, wm: Any, b: Any, *rest: Any, cell: Lingvo = CELL) -> Any:
    m, c = (tf.zeros([tf.shape(act)[0], n]) for n in (cell.outputs, cell.units))
    return cell.step(act, None, m, c, wm, b, *rest)[0]


def test_the_contract_binds_by_position() -> None:
    def cell(a: Any, d: Any, e: Any, f: Any) -> Any:
        return zero_step(a, d, e, f, cell=projected)

    projected = replace(CELL, outputs=3)
    check_is_cell(converted(model(cell, *weights(projected), x=FEATURES)))


def test_the_contract_binds_by_name_and_takes_any_batch() -> None:
    def cell(layer_norm_scale: Any, bias: Any, act: Any, weight: Any) -> Any:
        return zero_step(act, weight, bias, layer_norm_scale, cell=normed)

    def run(act: Any) -> Any:
        wm, b, scale = theta
        return {"m": marked(scale, b, act, wm)}

    normed = replace(CELL, norm=True)
    theta = weights(normed)
    marked = tf.function(cell, experimental_implements=NORMALIZED, autograph=False)
    check_is_cell(converted(tf.function(run, input_signature=[tf.TensorSpec([None, FEATURES], name="act")])))


# In loops.


@pytest.mark.parametrize("form", ["while", "scan", "unrolled"])
def test_marked_steps_of_a_loop_are_one_op(form: str) -> None:
    lite = converted(looped(CELL, Shell(form, batch=2), annotated=True))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert "lstm" not in lite.report.operators
    assert lite.report.refused == []


@pytest.mark.parametrize("loop", ["while", "unroll"])
def test_a_step_in_a_loop_that_is_no_lstm_keeps_its_plain_ops(loop: str) -> None:
    theta, call = CELL.theta(), marked_with_states(CELL)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        m, c = call(x, *theta, *states)
        return m, (m + tf.sin(3.0 * m), c)

    lite = converted(Shell().function(Cell(step, (UNITS, UNITS))), loop=loop)
    assert conditions(lite) == ["not_lstm", "state_in_a_loop"]
    assert "lstm" not in lite.report.operators


@pytest.mark.parametrize(("side", "batch"), [("right", 3), ("left", 3), ("right", None)])
def test_a_promise_is_about_where_the_padding_stands(side: Any, batch: int | None) -> None:
    """lingvo's paddings are 1 where a step does not count, other masks where it does.

    The operator clips c in steps that do not count, too: the states start from zeros, in an open batch as well.
    """
    lite = jfuse.convert(padded(CELL, batch), forms=jfuse.Forms(padding=side))
    assert [(p.side, p.counts) for p in lite.report.promises] == [(side, False)]
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    check_invokes(lite, paddings(side))


# What is no such cell.


def zoneout(act: Any, m: Any, c: Any) -> Any:
    """lingvo's zoneout when it is not trained: a share of each old state."""
    new_m, new_c = CELL.step(act, None, m, c, *THETA)
    return 0.1 * m + 0.9 * new_m, 0.1 * c + 0.9 * new_c


def twice_clipped(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    return tf.clip_by_value(zero_step(act, wm, b), -0.2, 0.2)


def keras_order(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    i, _, g, o = tf.split(tf.matmul(act, wm[:FEATURES]) + b, 4, axis=1)
    return tf.sigmoid(o) * tf.tanh(tf.clip_by_value(tf.sigmoid(i) * tf.tanh(g), -0.4, 0.4))


def loose_norm(act: Any, wm: Any, b: Any, projection: Any, scale: Any) -> Any:
    gates = []
    for z in tf.split(tf.matmul(act, wm[:FEATURES]), 4, axis=1):
        mean, variance = tf.nn.moments(z, [1], keepdims=True)
        gates.append((z - mean) * tf.math.rsqrt(variance + 1e-3))
    i_i, i_g, _, o_g = tf.split(tf.concat(gates, 1) * scale + b, 4, axis=1)
    return tf.sigmoid(o_g) * tf.tanh(tf.sigmoid(i_g) * tf.tanh(i_i))


def three_results(act: Any, m: Any, c: Any) -> Any:
    new_m, new_c = CELL.step(act, None, m, c, *THETA)
    return new_m, new_c, new_m + new_c


def of_rank_1(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    return zero_step(act, tf.reshape(wm, [FEATURES + UNITS, 4 * UNITS]), b)


def frames(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    return zero_step(tf.reshape(act, [-1, FEATURES]), wm, b)


def call_frames() -> Any:
    marked = tf.function(frames, experimental_implements=SIMPLE, autograph=False)
    spec = tf.TensorSpec([2, 1, FEATURES], name="act")
    return tf.function(lambda act: {"m": marked(act, *THETA, 0.0)}, input_signature=[spec], autograph=False)


def widened(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    return zero_step(act, wm, b, projection, cell=replace(CELL, outputs=UNITS + 2))


def spare_columns(act: Any, wm: Any, b: Any, projection: Any) -> Any:
    return zero_step(act, wm[:, : 4 * UNITS], b)


def run_time_bias() -> Any:
    def run(act: Any, bias: Any) -> Any:
        return {"m": marked(act, THETA[0], bias, 0.0)}

    marked = tf.function(lambda act, wm, b, projection: zero_step(act, wm, b), experimental_implements=SIMPLE)
    specs = [tf.TensorSpec([2, FEATURES], name="act"), tf.TensorSpec([4 * UNITS], name="bias")]
    return tf.function(run, input_signature=specs, autograph=False)


def two_inputs(act: Any, more: Any, m: Any, c: Any) -> Any:
    return CELL.step(act + more, None, m, c, *THETA)


THETA = weights(CELL)
SCALE = Random(3).array(4 * UNITS)
DECOYS: dict[str, tuple[Callable[[], Any], str]] = {
    "no output nonlinearity": (
        lambda: model(step_of(replace(CELL, output_nonlinearity=False)), act=FEATURES, **STATES),
        "not_lstm",
    ),
    "zoneout": (lambda: model(zoneout, act=FEATURES, **STATES), "not_lstm"),
    "three results": (lambda: model(three_results, act=FEATURES, **STATES), "cell_results"),
    "two inputs": (lambda: model(two_inputs, act=FEATURES, more=FEATURES, **STATES), "one_step_input"),
    "gates in Keras's order": (lambda: model(keras_order, *THETA, 0.0, act=FEATURES), "not_equal"),
    "no output nonlinearity, from zero": (
        lambda: by_contract(Lingvo(output_nonlinearity=False)),
        "not_equal",
    ),
    "two limits": (lambda: model(twice_clipped, *THETA, 0.0, act=FEATURES), "cell_clip"),
    "a loose norm": (
        lambda: model(loose_norm, *THETA, 0.0, SCALE, name=NORMALIZED, act=FEATURES),
        "layer_norm_epsilon",
    ),
    "a weight of rank 1": (
        lambda: model(of_rank_1, THETA[0].reshape(-1), THETA[1], 0.0, act=FEATURES),
        "cell_weights",
    ),
    "an input of rank 3": (call_frames, "cell_input"),
    "more outputs than units": (
        lambda: model(widened, *weights(replace(CELL, outputs=UNITS + 2)), act=FEATURES),
        "cell_weights",
    ),
    "a weight with columns to spare": (
        lambda: model(spare_columns, np.pad(THETA[0], [(0, 0), (0, 2)]), THETA[1], 0.0, act=FEATURES),
        "cell_weights",
    ),
    "a bias at run time": (run_time_bias, "static_bias"),
    "an input and a weight": (
        lambda: model(lambda act, wm: zero_step(act, wm, THETA[1]), THETA[0], act=FEATURES),
        "cell_arguments",
    ),
}


WITH_ANOTHER = ("three results", "two inputs")


@pytest.mark.parametrize("name", every_other(DECOYS))
def test_decoys_are_refused_and_answer_right(name: str) -> None:
    build, condition = DECOYS[name]
    lite = converted(build())
    assert conditions(lite) == [condition]
    # In what is opened an LSTM may still be found, where there is one among other things.
    assert [f.composite for f in lite.report.fused] == ["jfuse.lstm"] * (name in WITH_ANOTHER)
