"""Differences that are rounding alone, and those that only look so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.conditioning import Conditioning
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.compare.wrong import WrongOutput, measured
from tests.slow import slow_but

SPEC = tf.TensorSpec([None, 16], name="x")


def saturated(x: Any) -> Any:
    """The gradient of 30 tanh(10x): 1 - tanh^2 is what is left of two numbers near 1."""
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.tanh(10 * x) * 30
    return tape.gradient(y, x)


def distances(x: Any) -> Any:
    """Of all rows from each other: that of a row from itself is 0, and 0.008 in f32."""
    squares = tf.reduce_sum(x * x, -1)
    apart = squares[:, None] + squares[None] - 2 * tf.matmul(x, x, transpose_b=True)
    return tf.sqrt(tf.maximum(apart, 1e-12))


FUNCTIONS = {"saturated": saturated, "distances": distances}


@pytest.mark.parametrize("name", slow_but(lambda name: name == "distances", FUNCTIONS))
def test_what_float64_shows_to_be_rounding(name: str) -> None:
    model = jfuse.convert(tf.function(FUNCTIONS[name], input_signature=[SPEC]))
    wide = tf.function(FUNCTIONS[name], input_signature=[tf.TensorSpec([None, 16], tf.float64)])
    x = np.random.default_rng(0).standard_normal((5, 16)).astype(np.float32)
    exact = wide(tf.cast(x, tf.float64)).numpy()
    assert np.abs(model(x) - exact).max() < 1e-3 * np.abs(exact).max()
    note = "as far from the answer in float64 as roundings of f32 on the way move it"
    assert any(note in n for n in model.report.notes)


@pytest.mark.parametrize(
    ("name", "changed", "quick"),
    slow_but(
        lambda row: row[2],
        [
            ("saturated", lambda x: saturated(x) * 1.0001, False),
            ("saturated", lambda x: saturated(x) + 0.01, True),
            ("distances", lambda x: distances(x) + 1e-2 * tf.eye(tf.shape(x)[0]), True),
            ("distances", lambda x: distances(x * 1.0001), False),
        ],
    ),
)
def test_what_is_more_than_rounding(name: str, changed: Callable[[Any], Any], quick: bool) -> None:
    model = jfuse.convert(tf.function(FUNCTIONS[name], input_signature=[SPEC]), verify=False)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model, tf.function(changed, input_signature=[SPEC]), edges="none")


def test_what_a_choice_turns_over_is_not_laid_to_rounding() -> None:
    """3 * (1/3 in f32) is 1 in f32 and more in f64: whether it is above 1 is for `Ties` to explain."""

    def above(x: Any) -> Any:
        return ops.cast(ops.greater(ops.mul(x, np.float32(1 / 3)), np.float32(1)), out_data_type=DType.f32)

    graph = trace_graph(above, [TensorType((2,), DType.f32)])
    program = Program((Signature("main", graph, ("x",), ("y",)),))
    found, wanted = np.array([1, 1], np.float32), np.array([0, 1], np.float32)
    tolerance = Tolerance(1e-5, "sums")
    wrong = [WrongOutput("reference/xla", "y", measured(found, wanted, tolerance), tolerance, found, wanted)]
    step = CallInputs("main", {"x": np.array([3, 5], np.float32)}, "given")
    assert Conditioning(program).excused(step, wrong) == (wrong, ())


def response(bias: float, beta: float = 2.0, alpha: float = 1.0) -> Any:
    def of(x: Any) -> Any:
        return tf.nn.local_response_normalization(x, depth_radius=2, bias=bias, alpha=alpha, beta=beta)

    return tf.function(of, input_signature=[tf.TensorSpec([1, 3, 3, 6], name="x")], autograph=False)


@pytest.mark.parametrize("bias", [0.0, pytest.param(1e-6, marks=pytest.mark.slow), -0.5])
def test_windows_that_move_round_otherwise_than_sums(bias: float) -> None:
    """LiteRT adds one square and takes one away: 3e-5 of the answer in f64, and more where the base is near 0."""
    model = jfuse.convert(response(bias))
    assert model.report.operators == {"local_response_normalization": 1}
    assert jfuse.verify(model, samples=200, edges="none").passed


@pytest.mark.parametrize("name", ["gelu", "approximate", "elu", "cosine", "log_softmax", "logsumexp", "chosen"])
def test_results_that_numbers_leave_that_are_almost_equal(name: str) -> None:
    """XNNPACK's GELU errs by 2.6e-7 at -4, of results of 1e-4; TensorFlow's ELU and cosine by as much near 0.

    Of a logit of 60, XLA subtracts the same logit rounded otherwise. Asking whether one is finite chooses alike.
    """
    functions = {
        "gelu": lambda x: tf.nn.gelu(x * 0.1 - 4),
        "approximate": lambda x: tf.nn.gelu(x * 0.1 - 4, approximate=True),
        "elu": lambda x: tf.nn.elu(1e-5 * x),
        "cosine": lambda x: 1 - tf.cos(1e-3 * x),
        "log_softmax": lambda x: tf.reduce_max(tf.nn.log_softmax(x * 30), -1),
        "logsumexp": lambda x: tf.reduce_logsumexp(x * 30, -1) - tf.reduce_max(x * 30, -1),
        "chosen": lambda x: tf.math.divide_no_nan(1 - tf.tanh(x * 6) ** 2, tf.nn.relu(x)),
    }
    source = tf.function(functions[name], input_signature=[SPEC], autograph=False)
    model = jfuse.convert(source)
    assert any("in float64" in note for note in model.report.notes)
    wrong = tf.function(lambda x: functions[name](1.05 * x), input_signature=[SPEC], autograph=False)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model.to_bytes(), wrong, jfuse.Verify(shrink=0))


def test_denormals_that_tensorflow_takes_for_zeros() -> None:
    """LiteRT does not, and divides them by 1e-12; a scale that is wrong for all numbers is found all the same."""
    model = jfuse.convert(response(1e-6), verify=False)
    found = jfuse.verify(model, options=jfuse.Verify(calls=2))
    assert found.passed
    assert any("denormals" in note for note in found.notes)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model, response(2e-6))


@pytest.mark.parametrize("other", [response(0.001), response(0.0, 2.001), response(0.0, alpha=1.001)])
def test_another_window_is_more_than_rounding(other: Any) -> None:
    model = jfuse.convert(response(0.0), verify=False)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(model, other, edges="none")


@pytest.mark.parametrize(("error", "tries", "is_left"), [(0.01, 6, False), (0.033, 9, False), (1.0, 6, True)])
def test_more_tries_where_few_moved_too_little(
    error: float, tries: int, is_left: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of EfficientNetB0 with large activations elements moved 20 times as far in 40 tries as in 6."""
    graph = trace_graph(lambda x: ops.mul(x, np.float32(1)), [TensorType((2,), DType.f32)])
    made: list[int] = []

    def results(signature: Signature, row: Any, seed: int | None, unit: float = 0.0, settled: Any = None) -> Any:
        made.extend([] if seed is None else [seed])
        moved = 0.0 if seed is None else 1e-3 if seed < 8 else 2e-2
        return {"y": np.ones(2, signature.graph.outputs[0].type.dtype.numpy) + np.float32(moved)}

    monkeypatch.setattr("jfuse.verification.compare.conditioning.rounded_results", results)
    found, wanted = np.array([1 + error, 1], np.float32), np.ones(2, np.float32)
    tolerance = Tolerance(1e-5, "sums")
    wrong = WrongOutput("a/b", "y", measured(found, wanted, tolerance), tolerance, found, wanted)
    step = CallInputs("main", {"x": np.ones(2, np.float32)})
    left, _ = Conditioning(Program((Signature("main", graph, ("x",), ("y",)),))).excused(step, [wrong])
    assert bool(left) == is_left
    assert len(made) == tries
