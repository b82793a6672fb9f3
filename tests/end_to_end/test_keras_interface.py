"""Functions with the interface of Keras's LSTM, marked as such: they convert as Keras's own do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.model import Model
from tests.end_to_end.invokes import check_invokes
from tests.slow import every_other

UNITS, FEATURES, STEPS = 4, 5, 6
KERAS = "lstm_0e4a8d8c-6c0f-4f9e-9a53-0d8b5f0f7a11"  # as tf_keras writes it, with a uuid
Function = Callable[..., Any]


def lstm(inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, ...]:
    return _lstm(tf.transpose(inputs, [1, 0, 2]), init_h, init_c, kernel, recurrent_kernel, bias)


def with_runtime(
    inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any
) -> tuple[Any, ...]:
    return *lstm(inputs, init_h, init_c, kernel, recurrent_kernel, bias), tf.constant(1.0)


def by_position(x: Any, h: Any, c: Any, w: Any, r: Any, b: Any) -> tuple[Any, ...]:
    return lstm(x, h, c, w, r, b)


def backwards(inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, ...]:
    return lstm(tf.reverse(inputs, [1]), init_h, init_c, kernel, recurrent_kernel, bias)


def _lstm(steps: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any) -> tuple[Any, ...]:
    def step(states: tuple[Any, Any], x: Any) -> tuple[Any, Any]:
        h, c = states
        i, f, g, o = tf.split(x @ kernel + h @ recurrent + bias, 4, axis=1)
        c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        return tf.sigmoid(o) * tf.tanh(c), c

    hs, cs = tf.scan(step, steps, (h, c))
    return hs[-1], tf.transpose(hs, [1, 0, 2]), hs[-1], cs[-1]


def model(marked: Function, *, variables: bool = True) -> Any:
    rng = np.random.default_rng(0)
    shapes = [(FEATURES, 4 * UNITS), (UNITS, 4 * UNITS), (4 * UNITS,)]
    weights: list[Any] = [0.5 * rng.standard_normal(s).astype(np.float32) for s in shapes]
    weights = [tf.Variable(w) for w in weights] if variables else weights

    def run(x: Any) -> dict[str, Any]:
        zeros = tf.zeros([tf.shape(x)[0], UNITS])
        last, outputs, _, c, *_ = marked(x, zeros, zeros, *weights)
        return {"last": last, "outputs": outputs, "c": c}

    return tf.function(run, input_signature=[tf.TensorSpec([None, STEPS, FEATURES], name="x")])


def converted(function: Function, variables: bool = True, **marks: Any) -> Model:
    lite = jfuse.convert(model(tf.function(function, **marks), variables=variables), verify=False)
    check_invokes(lite)
    return lite


def api(name: str, **flags: bool) -> Mapping[str, Any]:
    return {"experimental_attributes": {"api_implements": name, **flags}}


MARKED: dict[str, tuple[Function, Mapping[str, Any]]] = {
    "experimental_implements": (lstm, {"experimental_implements": "keras_lstm"}),
    "tf_keras's attribute": (with_runtime, api(KERAS, time_major=False, go_backwards=False)),
    "any name after lstm_": (lstm, api("lstm_mine")),
    "by position": (by_position, api(KERAS)),
    "backwards": (backwards, api(KERAS, go_backwards=True)),
}


@pytest.mark.parametrize("name", every_other(MARKED))
@pytest.mark.parametrize("variables", [True, False], ids=["variables", "arrays"])
def test_it_fuses_by_the_rule_for_keras(name: str, variables: bool) -> None:
    function, marks = MARKED[name]
    lite = converted(function, variables, **marks)
    assert [f.rule for f in lite.report.fused] == ["fuse_keras_lstm"]
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert lite.report.refused == []


def test_other_results_are_refused_and_the_loop_is_found() -> None:
    def more(inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, ...]:
        return *lstm(inputs, init_h, init_c, kernel, recurrent_kernel, bias), tf.constant(1.0), tf.constant(2.0)

    lite = converted(more, experimental_implements="keras_lstm")
    assert [r.condition for r in lite.report.refused] == ["keras_results"]
    assert [f.composite for f in lite.report.fused] == ["jfuse.lstm"]


def test_gates_in_another_order_are_not_equal() -> None:
    def other(inputs: Any, init_h: Any, init_c: Any, kernel: Any, recurrent_kernel: Any, bias: Any) -> tuple[Any, ...]:
        weights = (tf.reverse(w, [-1]) for w in (kernel, recurrent_kernel, bias))
        return lstm(inputs, init_h, init_c, *weights)

    lite = converted(other, **api(KERAS))
    assert [r.condition for r in lite.report.refused] == ["not_equal"]
    assert [f.composite for f in lite.report.fused] == ["jfuse.lstm"]
