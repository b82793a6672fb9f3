"""Small outputs beside large ones: planted differences that the largest number would hide, and right models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.verification.compare.scales import TIMES, ElementScales
from jfuse.verification.compare.tolerance import Tolerance
from tests.slow import every_other, slow_but

GENERATOR = np.random.default_rng(0)
WEIGHTS = GENERATOR.standard_normal((4, 3)).astype(np.float32)
BIAS = np.array([0.5, -0.25, 1.0], np.float32)
LARGE = 1e6
SPEC = tf.TensorSpec([None, 4], tf.float32, name="x")
Function = Callable[[Any], Any]


def converted(function: Function, spec: tf.TensorSpec = SPEC, **options: Any) -> jfuse.Model:
    return jfuse.convert(tf.function(function, input_signature=[spec], autograph=False), **options)


def logits(x: Any) -> Any:
    return x @ WEIGHTS + BIAS


# Where the large numbers stand: the file, and what a reference makes of its input and its three logits.
def beside_a_constant(x: Any) -> Any:
    return tf.concat([tf.fill([tf.shape(x)[0], 1], LARGE), logits(x)], 1)


def beside_a_large_channel(x: Any) -> Any:
    return tf.concat([x[:, :1] * 1e7, logits(x)], 1)


def beside_a_wide_range(x: Any) -> Any:
    return tf.concat([x * [1e7, 1e6, 1e5, 1e4], logits(x)], 1)


def behind_a_large_step(x: Any) -> Any:
    return tf.stack([tf.fill([tf.shape(x)[0], 3], LARGE), logits(x)], 1)


def scaled_down(x: Any) -> Any:
    return tf.concat([x, logits(x) * 1e-7], 1)


BESIDE: dict[str, tuple[Function, Callable[[Any, Any], Any]]] = {
    "constant": (beside_a_constant, lambda x, y: jnp.concatenate([jnp.full((len(x), 1), LARGE), y], 1)),
    "channel": (beside_a_large_channel, lambda x, y: jnp.concatenate([x[:, :1] * 1e7, y], 1)),
    "range": (
        beside_a_wide_range,
        lambda x, y: jnp.concatenate([x * jnp.array([1e7, 1e6, 1e5, 1e4]), y], 1),
    ),
    "step": (behind_a_large_step, lambda x, y: jnp.stack([jnp.full((len(x), 3), LARGE), y], 1)),
    "small": (scaled_down, lambda x, y: jnp.concatenate([x, y * 1e-7], 1)),
}
FAULTS: dict[str, Function] = {
    "swapped": lambda x: logits(x)[:, jnp.array([1, 0, 2])],
    "negated": lambda x: logits(x) * jnp.array([1.0, 1.0, -1.0]),
    "without bias": lambda x: x @ WEIGHTS,
    "one percent": lambda x: logits(x) * jnp.array([1.0, 1.01, 1.0]),
    "of another row": lambda x: jnp.roll(logits(x), 1, axis=1),
    "rectified": lambda x: jnp.maximum(logits(x), 0),
}


@pytest.fixture(scope="module")
def files() -> dict[str, jfuse.Model]:
    return {name: converted(function, verify=False) for name, (function, _) in BESIDE.items()}


def _every_third() -> Iterator[tuple[str, str | None]]:
    """Of each place two faults, of each fault at least one place; and the right references."""
    for i, beside in enumerate(BESIDE):
        yield beside, None
        yield from ((beside, fault) for j, fault in enumerate(FAULTS) if (j - i) % 3 == 0)


@pytest.mark.parametrize(
    ("beside", "fault"),
    slow_but(set(_every_third()).__contains__, [(beside, fault) for beside in BESIDE for fault in (None, *FAULTS)]),
)
def test_a_planted_difference(files: dict[str, jfuse.Model], beside: str, fault: str | None) -> None:
    """Thirty differences of at most 4e-6 of the largest number; the five right references pass."""
    around = BESIDE[beside][1]

    def reference(x: Any) -> Any:
        return around(x, logits(x) if fault is None else FAULTS[fault](x))

    if fault is None:
        assert jfuse.verify(files[beside], reference, edges="none", samples=20).passed
        return
    message = r"(?s)\|a-b\| / scale of each element of at most 1e-05.*found +\S+ \(at \[.*not "
    with pytest.raises(jfuse.VerifyFailed, match=message) as caught:
        jfuse.verify(files[beside], reference, edges="none")
    assert not caught.value.verification.passed


def test_among_samples(files: dict[str, jfuse.Model]) -> None:
    """The rows have inputs of which the fault says nothing; only independent samples reach it."""

    def reference(x: Any) -> Any:
        y = jnp.where(x[:, :1] > 4.5, -logits(x), logits(x))
        return BESIDE["constant"][1](x, y)

    given = np.random.default_rng(1).standard_normal((5, 4)).astype(np.float32)
    assert jfuse.verify(files["constant"], reference, inputs=given).passed
    with pytest.raises(jfuse.VerifyFailed, match="scale of each element"):
        jfuse.verify(files["constant"], reference, jfuse.Verify(calls=1, seed=5), edges="none", samples=3000)


def test_what_is_saved_shows_it_again(files: dict[str, jfuse.Model], tmp_path: Any) -> None:
    def reference(x: Any) -> Any:
        return BESIDE["constant"][1](x, FAULTS["swapped"](x))

    saved = tmp_path / "failing-output_0.npz"
    again = tmp_path / "failing-output_0-again.npz"  # as what was read stays
    for options, path in (({"edges": "none"}, saved), ({"inputs": saved}, again)):
        with pytest.raises(jfuse.VerifyFailed, match="scale of each element") as caught:
            jfuse.verify(files["constant"], reference, save_failing=tmp_path, **options)
        assert caught.value.verification.failing == path


def test_rows_of_one_call() -> None:
    """A row of small numbers beside a row of large ones: each is measured against its own largest."""
    spec = tf.TensorSpec([None, 8], tf.float32, name="x")
    lite = converted(lambda x: x * 2.0, spec)
    x = np.random.default_rng(2).standard_normal((2, 8)).astype(np.float32) * np.array([[1e7], [1.0]], np.float32)
    assert jfuse.verify(lite, lambda x: x * 2, inputs=x).passed
    with pytest.raises(jfuse.VerifyFailed, match=r"at \[1, \d\]"):
        jfuse.verify(lite, lambda x: x * jnp.array([[2.0], [2.1]]), inputs=x)


def test_states() -> None:
    """What is kept between calls is measured in the same way."""

    class Sums(tf.Module):
        def __init__(self, sign: float) -> None:
            super().__init__()
            self.sign = sign
            self.total = tf.Variable(tf.constant([LARGE, 0.0, 0.0]), name="total")

        @tf.function(input_signature=[tf.TensorSpec([2], tf.float32, name="x")], autograph=False)
        def __call__(self, x: Any) -> Any:
            return self.total.assign_add(tf.concat([[0.0], x * self.sign], 0))

    modules = [Sums(sign) for sign in (1.0, 1.01)]  # a function does not keep its variables
    right, wrong = (module.__call__.get_concrete_function() for module in modules)
    with pytest.raises(jfuse.VerifyFailed, match=r"scale of each element"):
        jfuse.verify(jfuse.convert(right), wrong, edges="none")


def cancelling(x: Any) -> Any:
    """Sums of what is nothing but rounding, beside numbers of a thousand."""
    centred = x - tf.reduce_mean(x, -1, keepdims=True)
    ones = tf.sin(x) ** 2 + tf.cos(x) ** 2
    return tf.concat([x * 1e3, tf.reduce_sum(centred, -1, keepdims=True), ones, ones - 1.0], 1)


RIGHT: dict[str, Function] = {
    "sums that cancel": cancelling,
    "tails of a softmax": lambda x: tf.nn.softmax(logits(x) * [30.0, 1.0, 10.0]),
    "log of a saturated softmax": lambda x: tf.nn.log_softmax(logits(x) * [30.0, 1.0, 10.0]),
    "sines of multiples of pi": lambda x: tf.concat([x, 0 * x + tf.sin(np.pi * np.arange(4, dtype=np.float32))], 1),
    "numbers that are always 0": lambda x: tf.concat([x * LARGE, tf.nn.relu(-tf.abs(x))], 1),
    "a large offset": lambda x: tf.concat([x, x * 1e-3 + 1e4], 1),
    "what is left of a large offset": lambda x: tf.concat([x * 1e3, (x + 20.0) - 20.0], 1),
    "saturated": lambda x: tf.concat([tf.tanh(x * 20), tf.sigmoid(x * 20) - 1.0, x * 1e5], 1),
    "differences of products": lambda x: tf.concat([x @ WEIGHTS - (x[:, ::-1] @ WEIGHTS[::-1]), x * 10], 1),
    "a variance": lambda x: tf.concat([tf.reduce_mean((x + 50) ** 2) - tf.reduce_mean(x + 50) ** 2 + x, x * 1e4], 1),
    "normalized": lambda x: (x - tf.reduce_mean(x, 1, True)) / tf.math.reduce_std(x, 1, True),
    "spectra": lambda x: tf.math.imag(tf.signal.fft(tf.cast(x, tf.complex64))) + x * 1e-3,
    "half precision": lambda x: tf.cast(tf.cast(x, tf.float16) * 3, tf.float32),
    "powers": lambda x: tf.concat([x**7, x, tf.exp(2 * x), tf.exp(-4 * x)], 1),
}


@pytest.mark.parametrize("name", every_other(RIGHT))
def test_a_right_model_passes(name: str) -> None:
    source = tf.function(RIGHT[name], input_signature=[SPEC], autograph=False)
    lite = jfuse.convert(source)
    assert jfuse.verify(lite, source, samples=200, edges="none").passed


def test_a_right_model_of_integers_passes() -> None:
    """No input can be moved by a rounding: what values on the way move by tells what is noise."""
    table = GENERATOR.standard_normal((50, 4)).astype(np.float32)

    def embedded(ids: Any) -> Any:
        return cancelling(tf.reshape(tf.gather(table, ids), [-1, 4]))

    source = tf.function(embedded, input_signature=[tf.TensorSpec([None], tf.int32, name="ids")], autograph=False)
    assert jfuse.convert(source).report.differences


GRAPH = trace_graph(lambda x: ops.relu(x), [TensorType((2, 3), DType.f32)])
F32 = Tolerance(1e-5, "f32 sums in another order")


@pytest.mark.parametrize(
    ("values", "scale"),
    [
        ([[1e6, 1.0, 2.0]], [1e6, 1e6, 1e6]),  # one sample: nothing is known but the largest
        ([[1e6, 1.0, 2.0], [1e6, 3.0, 2.5]], [1e6, 2 * TIMES, TIMES / 2]),
        ([[1e6, -1.0, 0.0], [1e6, 1.0, 0.0]], [1e6, 2 * TIMES, 1e6]),  # the last never moves
        ([[2.0, 1.0, np.nan], [np.inf, 1.5, 3.0]], [3.0, 3.0, 3.0]),  # never more than the largest of the call
    ],
)
def test_the_scale(values: list[list[float]], scale: list[float]) -> None:
    """max(100 times what an element moves by, its largest), and at most the largest of the call."""
    found = ElementScales({"f": Signature("f", GRAPH, ("x",), ("y",))})
    arrays = [np.array(v, np.float32) for v in values]
    for array in arrays:
        found.learn("f", "y", array)
    of_the_last = found.of("f", "y", arrays[-1], F32)
    assert of_the_last is not None
    np.testing.assert_allclose(np.broadcast_to(of_the_last, (len(scale),)), scale)


def test_no_scales_where_steps_are_of_a_whole_tensor() -> None:
    found = ElementScales({"f": Signature("f", GRAPH, ("x",), ("y",))})
    found.learn("f", "y", np.ones((2, 3), np.float32))
    assert found.of("f", "y", np.ones((2, 3), np.float32), Tolerance(0.02, "steps", per_element=False)) is None
