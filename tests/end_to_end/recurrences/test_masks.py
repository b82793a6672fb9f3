"""Masked layers: fused where the mask is padding by construction or promise, exact loops otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.verification.inputs.padded_inputs import keep_promises
from tests.end_to_end.invokes import check_invokes, random_inputs
from tests.models.keras_libraries import LIBRARIES, awake
from tests.slow import keras_3, slow_but

STEPS, WIDTH = 6, 3
_SIZES = (3, 1, 5, 2)


def embedded(keras: Any, layer: Callable[[Any], Any]) -> Any:
    """A layer behind an Embedding with mask_zero."""
    ids = keras.Input((STEPS,), dtype="int32")
    return keras.Model(ids, layer(keras.layers.Embedding(10, WIDTH, mask_zero=True)(ids)))


def masked(keras: Any, layer: Callable[[Any], Any]) -> Any:
    """A layer behind Masking."""
    x = keras.Input((STEPS, WIDTH))
    return keras.Model(x, layer(keras.layers.Masking(-1.0)(x)))


def started(keras: Any) -> Any:
    """An encoder of padded ids, and a decoder of other padded ids that starts from its last states."""
    layers = keras.layers
    source, target = (keras.Input((STEPS,), dtype="int32", name=name) for name in ("source", "target"))
    embedding = layers.Embedding(10, WIDTH, mask_zero=True)
    _, h, c = layers.LSTM(4, return_state=True)(embedding(source))
    decoder = layers.LSTM(4, return_sequences=True, return_state=True)
    return keras.Model([source, target], decoder(embedding(target), initial_state=[h, c]))


MODELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "last": (lambda k: embedded(k, k.layers.LSTM(4)), 1),
    "sequence": (lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True)), 1),
    "states": (lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True, return_state=True)), 1),
    "backwards": (
        lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True, return_state=True, go_backwards=True)),
        1,
    ),
    "bidirectional": (lambda k: masked(k, k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))), 2),
    "bidirectional, last": (lambda k: embedded(k, k.layers.Bidirectional(k.layers.LSTM(4))), 2),
    "masking": (lambda k: masked(k, k.layers.LSTM(4, return_sequences=True)), 1),
    "stacked": (lambda k: embedded(k, lambda e: k.layers.LSTM(3)(k.layers.LSTM(4, return_sequences=True)(e))), 2),
    "encoder and decoder": (started, 2),
}


def fused_ops(result: jfuse.Model) -> int:
    """The number of LSTMs; a bidirectional operator holds two."""
    counts = Counter(result.report.operators)
    return counts["unidirectional_sequence_lstm"] + 2 * counts["bidirectional_sequence_lstm"]


def padded_inputs(result: jfuse.Model, seed: int) -> dict[str, np.ndarray]:
    (signature,) = result.program.signatures
    sizes = {name: _SIZES[seed % len(_SIZES)] for name in ("B", "B1", "B2")}
    return keep_promises(signature, random_inputs(signature, sizes, seed), result.report.promises, seed)


# Both Keras libraries give loops of the same form: tf_keras has every other model, its own spelling of masks in each.
_QUICK = frozenset(("keras", name) for name in list(MODELS)[::3])
_ROWS = [("keras", name) for name in MODELS] + [("tf_keras", name) for name in list(MODELS)[::2]]


@pytest.mark.parametrize(("library_name", "name"), slow_but(_QUICK.__contains__, _ROWS))
def test_padding_on_the_right_fuses(library_name: str, name: str) -> None:
    build, count = MODELS[name]
    model = awake(build(LIBRARIES[library_name]))
    result = jfuse.convert(model, forms=jfuse.Forms(padding="right"), verify=library_name == "keras")
    assert fused_ops(result) == count
    assert "while" not in result.report.operators
    assert [p.side for p in result.report.promises] == ["right"] * len(result.report.promises)
    assert result.report.promises
    check_invokes(result, lambda seed: padded_inputs(result, seed))


@pytest.mark.parametrize("library_name", slow_but(keras_3, LIBRARIES))
def test_without_a_promise_any_mask_is_right(library_name: str) -> None:
    keras = LIBRARIES[library_name]
    model = awake(embedded(keras, keras.layers.LSTM(4, return_sequences=True, return_state=True)))
    result = jfuse.convert(model)
    assert fused_ops(result) == 0
    assert "padding_unknown" in {refusal.condition for refusal in result.report.refused}
    assert not result.report.promises
    check_invokes(result)


def blended(paddings: Callable[..., Any], *specs: Any) -> Any:
    """An LSTM over x f32[t,b,3] whose states are blended with the old ones by f32[b,1], of x, t and other inputs."""
    rng = np.random.default_rng(0)
    kernel, bias = (tf.constant(rng.standard_normal(s).astype(np.float32)) for s in ([WIDTH + 4, 16], [16]))

    def run(x: Any, *others: Any) -> Any:
        def step(t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
            i, f, g, o = tf.split(tf.concat([x[t], h], 1) @ kernel + bias, 4, 1)
            new_c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
            new_h, old = tf.sigmoid(o) * tf.tanh(new_c), paddings(x, t, *others)
            c, h = old * c + (1.0 - old) * new_c, old * h + (1.0 - old) * new_h
            return t + 1, rows.write(t, h), h, c

        steps, zeros = tf.shape(x)[0], tf.zeros([tf.shape(x)[1], 4])
        rows = tf.TensorArray(tf.float32, steps, element_shape=[None, 4])
        return tf.while_loop(lambda t, *_: t < steps, step, (0, rows, zeros, zeros))[1].stack()

    own = tf.TensorSpec([None, None, WIDTH], name="x")
    return tf.function(run, input_signature=[own, *specs], autograph=False)


def test_paddings_of_zeros_that_the_step_makes_are_no_mask() -> None:
    lite = jfuse.convert(blended(lambda x, t: tf.zeros([tf.shape(x)[1], 1])), verify=False)
    assert fused_ops(lite) == 1
    assert "while" not in lite.report.operators
    check_invokes(lite)


ROWS: dict[str, Callable[..., Any]] = {"slice": lambda x, t, old: old[t], "row": lambda x, t, old: tf.gather(old, t)}


@pytest.mark.parametrize(("side", "read"), [("right", "slice"), ("left", "slice"), ("right", "row")])
def test_paddings_may_have_an_open_length_of_their_own(side: Any, read: str) -> None:
    """What the loop reads at its counter stands within them, or TensorFlow fails."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        rng, steps, batch = np.random.default_rng(seed), _SIZES[seed % 4] + 2, 1 + seed % 3
        counts = np.arange(steps)[:, None] < rng.integers(1, steps, batch)
        x = rng.standard_normal((steps, batch, WIDTH)).astype(np.float32)
        mask = ~counts if side == "right" else (~counts)[::-1]
        return {"x": x, "old": mask[..., None].astype(np.float32)}

    source = blended(ROWS[read], tf.TensorSpec([None, None, 1], name="old"))
    lite = jfuse.convert(source, forms=jfuse.Forms(padding=side))
    assert fused_ops(lite) == 1
    check_invokes(lite, draw)
