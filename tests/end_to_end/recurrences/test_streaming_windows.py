"""Sequences in pieces through convolutions, pools and what else mixes steps: as the whole in TensorFlow, or refused."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.passes.options import StateMode
from jfuse.running.interpreter import LiteRt
from tests.end_to_end.recurrences.test_streaming import stems
from tests.models.keras_libraries import LIBRARIES
from tests.slow import every_other

TOLERANCE = 1e-5  # f32, through dozens of steps of a recurrence
FEATURES, BATCH, LENGTH = 3, 2, 24
CUTS = {"ones": [1] * LENGTH, "threes": [3] * 8, "random": [1, 7, 2, 9, 5]}
k = keras.layers


class Applied(keras.Layer):
    """A function of TensorFlow as a layer that keeps the shape."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self.function = function

    def call(self, x: Any) -> Any:
        """The function."""
        return self.function(x)

    def compute_output_shape(self, shape: Any) -> Any:
        """The shape as it is."""
        return shape


def causal(filters: int, size: int, dilation: int = 1, **options: Any) -> Any:
    return k.Conv1D(filters, size, padding="causal", dilation_rate=dilation, **options)


def lstm(**options: Any) -> Any:
    return k.LSTM(5, return_sequences=True, **options)


def gru() -> Any:
    return k.GRU(5, return_sequences=True)


def conv_stack(x: Any) -> Any:
    return k.Dense(2)(lstm()(causal(4, 2)(causal(4, 3, activation="relu")(x))))


def temporal_network(x: Any) -> Any:
    """Residual blocks of dilated convolutions with batch norms, without a recurrence."""
    for dilation in (1, 2, 4):
        y = k.BatchNormalization()(causal(4, 3, dilation, activation="relu")(x))
        y = causal(4, 2, dilation)(y)
        x = k.Add()([x if x.shape[-1] == 4 else k.Conv1D(4, 1)(x), y])
    return k.Dense(3)(x)


def depthwise(x: Any) -> Any:
    return gru()(k.DepthwiseConv1D(3, padding="valid", depth_multiplier=2)(k.ZeroPadding1D((2, 0))(x)))


def pooled(x: Any) -> Any:
    x = k.ZeroPadding1D((2, 0))(causal(4, 3)(x))
    return lstm()(k.MaxPooling1D(3, 1, padding="valid")(x))


def padded_once(x: Any) -> Any:
    """What the second convolution needs of the steps before comes out of the first one again."""
    x = k.Conv1D(4, 2, dilation_rate=2)(k.Conv1D(4, 3)(k.ZeroPadding1D((4, 0))(x)))
    return gru()(x)


def delayed(x: Any) -> Any:
    """Each step beside the one before, with a first one of ones."""
    before = Applied(lambda v: tf.concat([tf.ones_like(v[:, :1]), v], 1)[:, :-1])(x)
    return gru()(k.Concatenate()([x, before]))


def images(x: Any) -> Any:
    """Spectra as images, with windows over steps and over frequencies, where only the steps are causal."""
    x = k.Reshape((-1, FEATURES, 1))(x)
    x = k.Conv2D(4, (3, 3), padding="valid")(k.ZeroPadding2D(((2, 0), (1, 1)))(x))
    return lstm()(k.Reshape((-1, FEATURES * 4))(x))


def last_step(x: Any) -> Any:
    return k.Dense(2)(k.LSTM(5)(causal(4, 3)(x)))


def masked(x: Any) -> Any:
    return k.LSTM(5, return_sequences=True)(k.Masking()(x))


@dataclass(frozen=True)
class Row:
    """A model, the names of what it keeps, and whether its result is that of the last step alone."""

    build: Callable[[Any], Any]
    kept: Sequence[str]
    gives_last: bool = False

    def __str__(self) -> str:
        return self.build.__name__


ROWS = (
    Row(conv_stack, ["lstm_h", "lstm_c", "conv1d_buffer", "conv1d_buffer"]),
    Row(temporal_network, ["conv1d_buffer"] * 6),
    Row(depthwise, ["gru_h", "zero_padding1d_buffer"]),
    Row(pooled, ["lstm_h", "lstm_c", "conv1d_buffer", "zero_padding1d_buffer"]),
    Row(padded_once, ["gru_h", "zero_padding1d_buffer"]),
    Row(delayed, ["gru_h", "applied_buffer"]),
    Row(images, ["lstm_h", "lstm_c", "zero_padding2d_buffer"]),
    Row(last_step, ["lstm_h", "lstm_c", "conv1d_buffer"], gives_last=True),
    Row(masked, ["lstm_state"] * 3),
)
_DEFAULT = {"images-keep-open", "delayed-io-open"}


def _rows() -> list[Any]:
    """All pairs of a model, what becomes of its states and its steps; not all triples."""
    found = []
    for i, row in enumerate(ROWS):
        for state, steps in (("keep", None), ("io", 3)) if i % 2 == 0 else (("io", None), ("keep", 3)):
            name = f"{row}-{state}-{steps or 'open'}"
            found.append(pytest.param(row, state, steps, marks=() if name in _DEFAULT else pytest.mark.slow, id=name))
    return found


def model_of(build: Callable[[Any], Any], steps: int | None, features: int = FEATURES) -> Any:
    x = keras.Input(batch_shape=(BATCH, steps, features))
    return keras.Model(x, build(x))


def awake(model: Any) -> Any:
    """The model with random weights, biases included."""
    rng = np.random.default_rng(1)
    for variable in model.variables:
        if "seed" not in variable.path:
            variable.assign(np.abs(rng.normal(size=variable.shape)) * 0.3 + 0.05)
    return model


def in_pieces(result: jfuse.Model, x: np.ndarray, cuts: Sequence[int]) -> list[np.ndarray]:
    """What LiteRT answers to the pieces, the states handed on where they are inputs."""
    runtime, signature = LiteRt(result.to_bytes()), result.signature()
    name, *exposed = signature.input_names
    types = dict(zip(signature.input_names, (v.type for v in signature.graph.inputs), strict=False))
    first = {state.name: state.initial.array for state in signature.exposed}
    states = {s: np.broadcast_to(first[s], types[s].shape) for s in exposed}
    found = []
    for piece in np.split(x, np.cumsum(cuts)[:-1], axis=1):
        results = runtime.run(signature.key, {name: piece, **states})
        states = {s: results[s] for s in exposed}
        found.append(results[signature.output_names[0]])
    return found


@pytest.mark.parametrize(("row", "state", "steps"), _rows())
def test_pieces_answer_as_the_whole(row: Row, state: Any, steps: int | None) -> None:
    model = awake(model_of(row.build, steps))
    result = jfuse.convert(model, state=state)
    assert stems([kept.name for kept in result.report.kept]) == list(row.kept)
    x = np.random.default_rng(2).normal(size=(BATCH, LENGTH, FEATURES)).astype(np.float32)
    whole = model_of(row.build, LENGTH)
    whole.set_weights(model.get_weights())
    wanted = np.asarray(whole(x))
    for cuts in CUTS.values() if steps is None else [CUTS["threes"]]:
        found = in_pieces(result, x, cuts)
        answer = found[-1] if row.gives_last else np.concatenate(found, 1)
        assert relative_error(answer, wanted) <= TOLERANCE
    if state == "keep":
        stream = result.stream()  # in JAX
        found = [np.asarray(stream(piece)) for piece in np.split(x, 8, axis=1)]
        assert relative_error(found[-1] if row.gives_last else np.concatenate(found, 1), wanted) <= TOLERANCE


def test_the_same_pieces_without_buffers_would_answer_otherwise() -> None:
    """The rows above have power: the source's own answers to pieces are far from those to the whole."""
    model = awake(model_of(temporal_network, None))
    x = np.random.default_rng(2).normal(size=(BATCH, LENGTH, FEATURES)).astype(np.float32)
    pieces = [np.asarray(model(piece)) for piece in np.split(x, 8, axis=1)]
    assert relative_error(np.concatenate(pieces, 1), np.asarray(model(x))) > 1000 * TOLERANCE


def frames(x: Any) -> Any:
    return lstm()(k.Lambda(lambda v: tf.abs(tf.signal.stft(v[..., 0], 8, 4)), output_shape=(None, 5))(x))


def applied_before(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: lstm()(Applied(function)(x))


def applied_after(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda x: Applied(function)(lstm()(x))


def attention(x: Any) -> Any:
    y = lstm()(x)
    return k.Attention()([y, y])


def heads(x: Any) -> Any:
    y = lstm()(x)
    return k.MultiHeadAttention(2, 2)(y, y)


def positions(x: Any) -> Any:
    return x + tf.cast(tf.range(tf.shape(x)[1])[:, None], tf.float32)


REFUSED: dict[str, tuple[Callable[[Any], Any], int | None, str]] = {
    "differences": (applied_before(lambda x: x[:, 1:] - x[:, :-1]), None, "it takes a part of the steps of each piece"),
    "cumsum": (applied_before(lambda x: tf.cumsum(x, 1)), None, "it adds up the steps of the piece"),
    "layer-norm-over-time": (lambda x: k.LayerNormalization(axis=1)(lstm()(x)), 4, "it reduces over the steps"),
    "softmax-over-time": (lambda x: k.Softmax(axis=1)(lstm()(x)), 4, "it works across the steps"),
    "attention": (attention, None, "it multiplies every step with every other step"),
    "multi-head-attention": (heads, None, "it multiplies every step with every other step"),
    "bidirectional": (lambda x: k.Bidirectional(lstm())(x), None, "it steps through each piece from its end"),
    "reversed-results": (applied_after(lambda x: tf.reverse(x, [1])), None, "it gives the steps of each piece in rev"),
    "same-padding": (lambda x: lstm()(k.Conv1D(4, 3, padding="same")(x)), None, "its windows reach steps that come la"),
    "no-padding": (lambda x: lstm()(k.Conv1D(4, 3)(x)), None, "its windows are 3 steps long"),
    "strides": (lambda x: lstm()(causal(4, 3, strides=2)(x)), None, "it takes one step in 2"),
    "pooled-strides": (lambda x: k.MaxPooling1D(2)(lstm()(x)), None, "it takes one step in 2"),
    "mean-over-time": (lambda x: k.GlobalAveragePooling1D()(lstm()(x)), None, "it reduces over the steps"),
    "mean-that-chooses": (
        applied_before(lambda x: tf.where(x > tf.reduce_mean(x), x, -x)),
        None,
        "it reduces over the steps",
    ),
    "as-many-as-data-say": (
        applied_before(lambda x: x * tf.cast(tf.size(tf.boolean_mask(x, x > 0)), tf.float32)),
        None,
        "jfuse does not know which steps it reads",
    ),
    "repeated": (
        lambda x: lstm()(k.RepeatVector(4)(k.LSTM(5)(x))),
        None,
        "it steps through a value of the whole piece",
    ),
    "last-beside-all": (applied_after(lambda x: x * x[:, -1:]), None, "it combines every step with the last step"),
    "first-step": (lambda x: k.Dense(2)(lstm()(x)[:, 0]), None, "it takes one step other than the last"),
    "flattened": (lambda x: k.Dense(2)(k.Flatten()(lstm()(x))), 4, "it adds up products over the steps"),
    "positions": (applied_before(positions), None, "it combines every step with the number of steps"),
    "table-of-positions": (applied_before(positions), 4, "it has another constant for each step"),
    "rolled": (applied_after(lambda x: tf.roll(x, 1, 1)), None, "it picks steps by their positions"),
    "frames": (frames, None, "it takes a part of the steps of each piece"),
}


@pytest.mark.parametrize("name", every_other(REFUSED))
def test_what_mixes_steps_is_refused(name: str) -> None:
    build, steps, reason = REFUSED[name]
    state: StateMode = "io" if name in ("bidirectional", "attention", "strides") else "keep"
    with pytest.raises(jfuse.LowerError) as caught:
        jfuse.convert(model_of(build, steps), state=state)
    text = str(caught.value)
    assert re.match(r"steps_mix: \w+ mixes steps of a sequence that comes in pieces at \S+/", text)
    assert f"found     {reason}" in text
    assert 'state="source"' in text


@pytest.mark.slow
def test_tf_keras_streams_as_well() -> None:
    tk = LIBRARIES["tf_keras"]

    def model_of_steps(steps: int | None) -> Any:
        x = tk.layers.Input(batch_shape=(BATCH, steps, FEATURES))
        y = tk.layers.Conv1D(4, 3, padding="causal", dilation_rate=2)(x)
        return tk.Model(x, tk.layers.LSTM(5, return_sequences=True)(tk.layers.Conv1D(4, 2, padding="causal")(y)))

    model = model_of_steps(None)
    result = jfuse.convert(model, state="keep")
    assert stems([kept.name for kept in result.report.kept]) == ["lstm_h", "lstm_c", "conv1d_buffer", "conv1d_buffer"]
    x = np.random.default_rng(2).normal(size=(BATCH, LENGTH, FEATURES)).astype(np.float32)
    found = in_pieces(result, x, CUTS["random"])
    assert relative_error(np.concatenate(found, 1), np.asarray(model(x))) <= TOLERANCE


def test_a_causal_convolution_needs_a_fixed_batch_to_be_kept() -> None:
    x = keras.Input((None, FEATURES))
    model = keras.Model(x, causal(4, 3)(x))
    with pytest.raises(jfuse.LowerError, match=r"'conv1d(_\d+)?_buffer' cannot be kept(.|\n)*a fixed batch"):
        jfuse.convert(model, state="keep")
    result = jfuse.convert(model, state="io")
    assert stems([kept.name for kept in result.report.kept]) == ["conv1d_buffer"]
    signature = result.signature()
    name, state = signature.input_names
    steps = np.random.default_rng(0).normal(size=(5, 6, FEATURES)).astype(np.float32)
    runtime, held, found = LiteRt(result.to_bytes()), np.zeros((5, 2, FEATURES), np.float32), []
    for piece in np.split(steps, [1, 2, 5], axis=1):
        results = runtime.run(signature.key, {name: piece, state: held})
        held = results[state]
        found.append(results[signature.output_names[0]])
    assert relative_error(np.concatenate(found, 1), np.asarray(model(steps))) <= TOLERANCE


def test_a_backward_recurrence_takes_its_pieces_from_the_last_to_the_first() -> None:
    model = awake(model_of(lambda x: lstm(go_backwards=True)(x), None))
    result = jfuse.convert(model, state="io")
    assert any("from the last to the first" in note for note in result.report.notes)
    x = np.random.default_rng(2).normal(size=(BATCH, LENGTH, FEATURES)).astype(np.float32)
    runtime, signature = LiteRt(result.to_bytes()), result.signature()
    name, *names = signature.input_names
    states, found = {n: np.zeros((BATCH, 5), np.float32) for n in names}, []
    for piece in reversed(np.split(x, [1, 4, 13], axis=1)):
        results = runtime.run(signature.key, {name: piece, **states})
        states = {n: results[n] for n in names}
        found.append(results[signature.output_names[0]])
    assert relative_error(np.concatenate(found, 1), np.asarray(model(x))) <= TOLERANCE
