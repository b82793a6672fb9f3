"""States from call to call: Keras's stateful layers, hand-written states, and streaming, against TensorFlow."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.running.interpreter import LiteRt
from tests.models.keras_libraries import LIBRARIES, awake
from tests.slow import slow_but

TOLERANCE = 1e-5  # f32, through dozens of steps of a recurrence
KERAS = pytest.mark.parametrize("library", ["keras", pytest.param("tf_keras", marks=pytest.mark.slow)])
DELEGATES = pytest.mark.parametrize("delegates", [True, False], ids=["xnnpack", "plain"])
RNG = np.random.default_rng(5)


def layers_of(library: str) -> Any:
    return LIBRARIES[library].layers


def sequential(library: str, shape: tuple[int | None, ...], *layers: Any) -> Any:
    """A model of layers in a row, with random weights."""
    k = LIBRARIES[library]
    return awake(k.Sequential([k.layers.Input(batch_shape=shape), *layers]))


def draw(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def operators(model: jfuse.Model, *names: str) -> list[int]:
    return [model.report.operators.get(name, 0) for name in names]


@KERAS
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param((2, 5, 3), id="fixed"),
        pytest.param((1, 1, 3), id="one-step", marks=pytest.mark.slow),
        pytest.param((3, None, 3), id="open", marks=pytest.mark.slow),
    ],
)
def test_stateful_layers(library: str, shape: tuple[int | None, ...]) -> None:
    """`convert` compares six calls in a row, variables included; open lengths change in between."""
    k = layers_of(library)
    options = {"stateful": True, "return_sequences": True}
    model = sequential(
        library, shape, k.LSTM(20, **options), k.LSTM(4, **options), k.GRU(6, **options), k.SimpleRNN(5, stateful=True)
    )
    before = [v.numpy() for v in model.variables]
    result = jfuse.convert(model)
    assert operators(result, "unidirectional_sequence_lstm") == [2]
    assert len(result.report.kept) == 6
    assert {d.pair for d in result.report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    in_tensors = sum("state tensor" in kept.where for kept in result.report.kept)
    assert in_tensors >= 4 if None not in shape else in_tensors == 0
    for a, b in zip(before, model.variables, strict=True):
        np.testing.assert_array_equal(a, b.numpy())


@KERAS
def test_final_states_are_results_and_kept(library: str) -> None:
    k = LIBRARIES[library]
    x = k.layers.Input(batch_shape=(2, 4, 3))
    model = awake(k.Model(x, k.layers.LSTM(20, stateful=True, return_state=True)(x)))
    result = jfuse.convert(model)
    assert operators(result, "unidirectional_sequence_lstm", "while") == [1, 0]


class Cell(tf.Module):
    """An LSTM step by hand whose h does not start at zero, over one step or four, and its states set anew."""

    def __init__(self) -> None:
        super().__init__()
        self.h = tf.Variable(draw(2, 40), name="h")
        self.c = tf.Variable(tf.zeros((2, 40)), name="c")
        self.weights = tf.Variable(draw(43, 160) * 0.3)

    @tf.function(input_signature=[tf.TensorSpec((2, 3), name="x")])
    def step(self, x: Any) -> Any:
        """One step."""
        i, f, g, o = tf.split(tf.concat([x, self.h], 1) @ self.weights, 4, 1)
        self.c.assign(tf.sigmoid(f) * self.c + tf.sigmoid(i) * tf.tanh(g))
        self.h.assign(tf.sigmoid(o) * tf.tanh(self.c))
        return self.h + 0.0

    @tf.function(input_signature=[tf.TensorSpec((2, 4, 3), name="x")])
    def steps(self, x: Any) -> Any:
        """Four steps."""
        found = tf.TensorArray(tf.float32, 4)
        for t in tf.range(4):
            found = found.write(t, self.step(x[:, t]))
        return tf.transpose(found.stack(), [1, 0, 2])

    @tf.function(input_signature=[tf.TensorSpec((), name="scale")])
    def reset(self, scale: Any) -> Any:
        """What h was, and from now on scaled."""
        before = self.h + 0.0
        self.h.assign(self.h * scale)
        self.c.assign(tf.zeros((2, 40)))
        return before


def test_signatures_of_a_saved_model_share_their_variables(tmp_path: Path) -> None:
    cell = Cell()
    tf.saved_model.save(cell, str(tmp_path), signatures={"step": cell.step, "steps": cell.steps, "reset": cell.reset})
    result = jfuse.convert(str(tmp_path))
    assert [kept.where for kept in result.report.kept] == ["a variable", "a variable"]
    for delegates in (True, False):
        runtime, fresh = LiteRt(result.to_bytes(), delegates=delegates), tf.saved_model.load(str(tmp_path))
        calls: Sequence[tuple[str, dict[str, np.ndarray]]] = [
            ("step", {"x": draw(2, 3)}),
            ("reset", {"scale": np.array(0.25, np.float32)}),
            ("steps", {"x": draw(2, 4, 3)}),
            ("step", {"x": draw(2, 3)}),
            ("reset", {"scale": np.array(2, np.float32)}),
            ("step", {"x": draw(2, 3)}),
        ]
        for key, inputs in calls:
            wanted = fresh.signatures[key](**{n: tf.constant(a) for n, a in inputs.items()})
            for name, value in runtime.run(key, inputs).items():
                assert relative_error(value, wanted[name].numpy()) <= TOLERANCE


def test_one_signature_of_it_fuses_with_its_c_in_place() -> None:
    cell = Cell()
    result = jfuse.convert(cell.steps)
    assert operators(result, "unidirectional_sequence_lstm", "while") == [1, 0]
    places = {kept.name: kept.where for kept in result.report.kept}
    assert places["h"] == "a variable"  # it does not start at zero
    assert places["c"].startswith("the state tensor of unidirectional_sequence_lstm")


@DELEGATES
def test_a_scalar_before_an_lstm_of_open_batch(delegates: bool) -> None:
    """Read as it is, a scalar variable makes shapes unknown: wrong numbers, then a crash, when the batch grows."""
    k = LIBRARIES["keras"]
    layer, calls = k.layers.LSTM(64), tf.Variable(1.0, name="calls")
    layer.build((None, 5, 3))
    layer.set_weights([draw(*w.shape) * 0.3 for w in layer.get_weights()])

    @tf.function(input_signature=[tf.TensorSpec((None, 5, 3), name="x")], autograph=False)
    def call(x: Any) -> Any:
        return layer(x * calls.assign_add(0.25))

    result = jfuse.convert(call, verify=False)
    assert operators(result, "unidirectional_sequence_lstm") == [1]
    runtime = LiteRt(result.to_bytes(), delegates=delegates)
    for batch in (1, 64, 3, 100, 2):
        x = draw(batch, 5, 3)
        found = runtime.run("serving_default", {"x": x})["output_0"]
        assert relative_error(found, call(tf.constant(x)).numpy()) <= TOLERANCE


def streamable(library: str, steps: int | None, batch: int = 2) -> Any:
    k = layers_of(library)
    options = {"return_sequences": True}
    layers = [k.LSTM(20, name="encoder", **options), k.Dense(7, "relu"), k.GRU(6, **options), k.SimpleRNN(5, **options)]
    return sequential(library, (batch, steps, 3), *layers)


STATES = ["encoder_h", "encoder_c", "gru_h", "simple_rnn_h"]


def stems(names: Sequence[str]) -> list[str]:
    """The names without the numbers that Keras gives to the layers of one process."""
    return ["_".join(part for part in name.split("_") if not part.isdigit()) for name in names]


@pytest.mark.slow
@KERAS
def test_any_cut_of_a_sequence_answers_as_the_whole(library: str) -> None:
    model = streamable(library, None)
    result = jfuse.convert(model, state="keep")
    assert stems([kept.name for kept in result.report.kept]) == STATES
    x = draw(2, 11, 3)
    wanted = np.asarray(model(x))
    (name,) = result.signature().input_names
    for cuts in ([11], [1] * 11, [3, 5, 1, 2], [10, 1]):
        pieces = np.split(x, np.cumsum(cuts)[:-1], axis=1)
        for delegates in (True, False):
            runtime, stream = LiteRt(result.to_bytes(), delegates=delegates), result.stream()
            found = [runtime.run("serving_default", {name: p})["output_0"] for p in pieces]
            assert relative_error(np.concatenate(found, 1), wanted) <= TOLERANCE
            assert relative_error(np.concatenate([stream(p) for p in pieces], 1), wanted) <= TOLERANCE


@KERAS
@pytest.mark.parametrize("batch", slow_but((2).__eq__, [1, 2]))
def test_pieces_of_one_size_answer_as_the_whole(library: str, batch: int) -> None:
    model = streamable(library, 4, batch)
    result = jfuse.convert(model, state="keep")
    assert operators(result, "unidirectional_sequence_lstm") == [1]
    places = [kept.where.startswith("the state tensor") for kept in result.report.kept]
    assert places[:2] == [True, True]
    weights = model.get_weights()
    whole = streamable(library, 12, batch)
    whole.set_weights(weights)
    x = draw(batch, 12, 3)
    runtime = LiteRt(result.to_bytes())
    (name,) = result.signature().input_names
    found = [runtime.run("serving_default", {name: p})["output_0"] for p in np.split(x, 3, axis=1)]
    assert relative_error(np.concatenate(found, 1), np.asarray(whole(x))) <= TOLERANCE


@KERAS
def test_states_as_inputs_and_outputs(library: str) -> None:
    """Whoever holds the states cuts a sequence, for any batch, and goes back to where it was."""
    k = layers_of(library)
    model = sequential(library, (None, None, 3), k.LSTM(20, return_sequences=True, name="one"), k.GRU(6, name="two"))
    result = jfuse.convert(model, state="io")
    signature = result.signature()
    assert signature.input_names[1:] == signature.output_names[1:] == ("one_h", "one_c", "two_h")
    assert signature.states == ()
    x = draw(3, 9, 3)
    wanted = np.asarray(model(x))
    np.testing.assert_allclose(result(x)["output_0"], wanted, atol=2e-6)  # states left out are the initial ones
    runtime = LiteRt(result.to_bytes())
    held: dict[str, np.ndarray] = {"one_h": np.zeros((3, 20)), "one_c": np.zeros((3, 20)), "two_h": np.zeros((3, 6))}
    for piece in np.split(x, [4, 5], axis=1):
        inputs = {signature.input_names[0]: piece, **{n: a.astype(np.float32) for n, a in held.items()}}
        found = runtime.run("serving_default", inputs)
        on_xla = result.run(inputs)
        held = {name: found[name] for name in held}
        assert all(relative_error(on_xla[name], found[name]) <= TOLERANCE for name in found)
    assert relative_error(found["output_0"], wanted) <= TOLERANCE


@KERAS
def test_stateful_layers_reset_start_anew(library: str) -> None:
    k = layers_of(library)
    model = sequential(library, (2, 5, 3), k.LSTM(20, stateful=True), k.Dense(3))
    result = jfuse.convert(model, state="reset")
    assert result.report.kept == []
    runtime, x = LiteRt(result.to_bytes()), draw(2, 5, 3)
    (name,) = result.signature().input_names
    first = np.asarray(model(x))
    for _ in range(3):
        assert relative_error(runtime.run("serving_default", {name: x})["output_0"], first) <= TOLERANCE


@KERAS
def test_what_cannot_be_kept_is_refused(library: str) -> None:
    k = layers_of(library)
    both = sequential(library, (2, 5, 3), k.Bidirectional(k.LSTM(4, return_sequences=True)))
    with pytest.raises(
        jfuse.LowerError, match=r"'backward_lstm(_\d+)?_h' cannot go(.|\n)*runs backwards(.|\n)*state=\"source\""
    ):
        jfuse.convert(both, state="keep")
    with pytest.raises(jfuse.LowerError, match=r"'lstm(_\d+)?_h' cannot be kept(.|\n)*a fixed batch"):
        jfuse.convert(sequential(library, (None, 5, 3), k.LSTM(4)), state="keep")
