"""LSTMs whose states, inputs or activations are written in unusual ways: one fused op, and TensorFlow's answers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.slow import every_other

STEPS, INPUTS, UNITS, WIDE = 6, 5, 4, 7
_random = np.random.default_rng(0)


def draw(*shape: int) -> np.ndarray:
    return (_random.standard_normal(shape) * 0.5).astype(np.float32)


W, W2, R, B = draw(INPUTS, 4 * UNITS), draw(3, 4 * UNITS), draw(WIDE, 4 * UNITS), draw(4 * UNITS)
P = draw(UNITS, WIDE)
SCALES, SHIFTS = draw(4, UNITS) + 1, draw(4, UNITS)

States = tuple[Any, ...]


def gates(x: Any, h: Any) -> Any:
    return tf.split(x @ W + h @ R[: h.shape[-1]] + B, 4, -1)


def ended(z: Sequence[Any], c: Any) -> States:
    i, f, g, o = z
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def concatenated(xs: Sequence[Any], states: States) -> States:
    h, c = tf.split(states[0], 2, 1)
    return (tf.concat(ended(gates(xs[0], h), c), 1),)


def stacked(xs: Sequence[Any], states: States) -> States:
    h, c = tf.unstack(states[0])
    return (tf.stack(ended(gates(xs[0], h), c)),)


def vectors(xs: Sequence[Any], states: States) -> States:
    h, c = states
    products = (tf.linalg.matvec(k, v, transpose_a=True) for k, v in ((W, xs[0]), (R[:UNITS], h)))
    return ended(tf.split(sum(products) + B, 4, 0), c)


def axis_of_one(xs: Sequence[Any], states: States) -> States:
    h, c = (tf.squeeze(s, 1) for s in states)
    return tuple(s[:, None] for s in ended(gates(tf.squeeze(xs[0], 1), h), c))


def two_inputs(xs: Sequence[Any], states: States) -> States:
    h, c = states
    return ended(tf.split(xs[0] @ W + xs[1] @ W2 + h @ R[:UNITS] + B, 4, 1), c)


def wide_projection(xs: Sequence[Any], states: States) -> States:
    h, c = ended(gates(xs[0], states[0]), states[1])
    return h @ P, c


def relu_as_a_choice(xs: Sequence[Any], states: States) -> States:
    h, c = states
    i, f, g, o = gates(xs[0], h)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.where(g > 0.0, g, 0.0)
    return tf.sigmoid(o) * tf.where(c > 0.0, c, 0.0), c


def exponentials(xs: Sequence[Any], states: States) -> States:
    h, c = states
    i, f, g, o = gates(xs[0], h)

    def sigmoid(z: Any) -> Any:
        return 1.0 / (1.0 + tf.exp(-z))

    def tanh(z: Any) -> Any:
        return (tf.exp(z) - tf.exp(-z)) / (tf.exp(z) + tf.exp(-z))

    c = sigmoid(f) * c + sigmoid(i) * tanh(g)
    return sigmoid(o) * tanh(c), c


def normed_together(xs: Sequence[Any], states: States) -> States:
    h, c = states
    z = tf.reshape(tf.concat(gates(xs[0], h), 1), [-1, 4, UNITS])
    centred = z - tf.reduce_mean(z, 2, keepdims=True)
    variance = tf.reduce_mean(centred * centred, 2, keepdims=True)  # tf.nn.moments makes TensorFlow's own rewriter fail
    z = centred / tf.sqrt(variance + 1e-8) * SCALES + SHIFTS
    return ended(tf.unstack(z, axis=1), c)


@dataclass(frozen=True)
class Written:
    """A loop. xs, states: the shapes of a step, None for the batch. h: of the states what is collected."""

    step: Callable[[Sequence[Any], States], States]
    xs: tuple[tuple[int | None, ...], ...] = ((None, INPUTS),)
    states: tuple[tuple[int | None, ...], ...] = ((None, UNITS), (None, UNITS))
    h: Callable[[States], Any] = lambda states: states[0]

    def function(self) -> Any:
        """A tf.function of the sequences, time first, that gives h of every step and the last states."""

        def run(*sequences: Any) -> dict[str, Any]:
            batch = tf.shape(sequences[0])[1]
            zeros = [tf.zeros([batch if d is None else d for d in shape]) for shape in self.states]
            reads = [tf.TensorArray(tf.float32, STEPS).unstack(s) for s in sequences]

            def body(t: Any, rows: Any, *states: Any) -> tuple[Any, ...]:
                states = self.step([r.read(t) for r in reads], states)
                return (t + 1, rows.write(t, self.h(states)), *states)

            rows = tf.TensorArray(tf.float32, STEPS)
            _, rows, *last = tf.while_loop(lambda t, *_: t < STEPS, body, (0, rows, *zeros))
            return {"y": rows.stack(), **{f"s{i}": s for i, s in enumerate(last)}}

        specs = [tf.TensorSpec([STEPS, *shape], tf.float32, name=f"x{i}") for i, shape in enumerate(self.xs)]
        return tf.function(run, input_signature=specs, autograph=False)


WRITTEN = {
    "concatenated": Written(concatenated, states=((None, 2 * UNITS),), h=lambda states: states[0][:, :UNITS]),
    "stacked": Written(stacked, states=((2, None, UNITS),), h=lambda states: states[0][0]),
    "vectors": Written(vectors, xs=((INPUTS,),), states=((UNITS,), (UNITS,))),
    "axis_of_one": Written(axis_of_one, xs=((None, 1, INPUTS),), states=((None, 1, UNITS),) * 2),
    "two_inputs": Written(two_inputs, xs=((None, INPUTS), (None, 3))),
    "wide_projection": Written(wide_projection, states=((None, WIDE), (None, UNITS))),
    "relu_as_a_choice": Written(relu_as_a_choice),
    "exponentials": Written(exponentials),
    "normed_together": Written(normed_together),
}


@pytest.mark.parametrize("name", every_other(WRITTEN))
def test_one_fused_op(name: str) -> None:
    lite = jfuse.convert(WRITTEN[name].function(), verify=name in list(WRITTEN)[::2])
    assert lite.report.operators.get("unidirectional_sequence_lstm") == 1
    assert not {"while", "logistic"} & lite.report.operators.keys()
    assert lite.report.refused == []
    check_invokes(lite)


def test_c_of_every_step_stays_a_loop() -> None:
    lite = jfuse.convert(Written(two_inputs, xs=WRITTEN["two_inputs"].xs, h=lambda states: states[1]).function())
    assert [r.condition for r in lite.report.refused] == ["output_is_h"]
    assert "unidirectional_sequence_lstm" not in lite.report.operators
    check_invokes(lite)
