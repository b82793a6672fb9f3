"""Files with other constants, and files of somebody else that are fine-tuned in jax and written back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.running.interpreter import LiteRt

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((64, 6, 6, 3)).astype(np.float32)
KERNELS = [RNG.standard_normal(shape).astype(np.float32) / 3 for shape in ((3, 3, 3, 8), (8, 5))]


def network(x: Any) -> dict[str, Any]:
    hidden = tf.nn.relu(tf.nn.conv2d(x, KERNELS[0], 1, "VALID") + 0.1)
    return {"y": tf.reduce_mean(hidden, axis=(1, 2)) @ KERNELS[1]}


def official(recipe: str) -> bytes:
    """A file of the official converter, with floats at both ends."""
    spec = tf.TensorSpec([64, 6, 6, 3], name="x")
    function = tf.function(network, input_signature=[spec], autograph=False)
    converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])

    def data() -> Iterator[list[np.ndarray]]:
        yield [IMAGES]

    if recipe != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
        converter.representative_dataset = data
    if recipe == "int16x8":
        wanted = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        converter.target_spec.supported_ops = [wanted]
    return bytes(converter.convert())


def answers(model: jfuse.Model) -> np.ndarray:
    (y,) = LiteRt(model.to_bytes()).run(model.signature().key, {"x": IMAGES}).values()
    return y


@pytest.mark.parametrize(("recipe", "step"), [("float", 1e-5), ("int8", 0.05), ("int16x8", 1e-3)])
def test_a_file_of_somebody_else_is_fine_tuned_and_written_back(recipe: str, step: float) -> None:
    model = jfuse.load(official(recipe))
    function = model.jax(straight_through=recipe != "float")
    np.testing.assert_allclose(function(IMAGES)[0], answers(model), atol=step)
    last = next(name for name, array in function.weights.items() if array.shape == (5, 8))
    wanted = jnp.asarray(np.roll(answers(model), 1, axis=1))  # the classes in another order

    def loss(weights: Any) -> Any:
        return jnp.mean((function.apply({**function.weights, last: weights}, IMAGES)[0] - wanted) ** 2)

    slope = jax.jit(jax.value_and_grad(loss))
    weights = jnp.asarray(function.weights[last])
    first, gradient = slope(weights)
    assert jnp.abs(gradient).max() > 0
    for _ in range(60):
        _, gradient = slope(weights)
        weights = weights - 0.5 * gradient
    tuned = model.with_constants({last: weights})
    before, after = (np.mean((answers(m) - np.asarray(wanted)) ** 2) for m in (model, tuned))
    assert abs(before - first) < 0.1 * first
    assert after < before / 2
    assert tuned.size_bytes == model.size_bytes


@pytest.mark.parametrize("recipe", ["float", "int8"])
def test_the_same_numbers_give_the_same_program(recipe: str) -> None:
    model = jfuse.load(official(recipe))
    function = model.jax(straight_through=True)
    assert model.with_constants(function.weights).program == model.program
    name, array = next(iter(function.weights.items()))
    assert model.with_constants({name: 2 * array}).program != model.program


def test_gradients_of_a_straight_through_function_are_those_of_the_float_one() -> None:
    floats, integers = (jfuse.load(official(recipe)).jax(straight_through=True) for recipe in ("float", "int8"))

    def slopes(function: Any) -> list[np.ndarray]:
        of = jax.grad(lambda w: jnp.sum(function.apply(w, IMAGES)[0] ** 2))(function.weights)
        return [np.asarray(g) for g in of.values() if g.ndim > 1]

    for one, other in zip(slopes(floats), slopes(integers), strict=True):
        assert np.abs(one - other).max() < 0.1 * np.abs(one).max()


def test_shared_constants_change_everywhere() -> None:
    one = jfuse.load(lambda x: x @ KERNELS[1], [jax.ShapeDtypeStruct((2, 8), jnp.float32)])
    both = jfuse.load(jfuse.merge({"a": jfuse.lower(one), "b": jfuse.lower(one)}).to_bytes())
    function = both.jax("a")
    (name,) = function.weights
    changed = both.with_constants({name: np.zeros((5, 8))}, "a")
    assert not changed(np.ones((2, 8)), signature="a").any()
    assert not changed(np.ones((2, 8)), signature="b").any()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"nothing": np.ones((5, 8))}, "the model has no such constant"),
        ({"weights": np.ones((8, 5))}, "takes other numbers"),
        ({"weights": np.full((5, 8), np.nan)}, "takes other numbers"),
        ({"weights": "x"}, "takes other numbers"),
    ],
)
def test_other_names_and_numbers_are_refused(values: dict[str, Any], message: str) -> None:
    model = jfuse.lower(jfuse.load(lambda x: x @ KERNELS[1], [jax.ShapeDtypeStruct((2, 8), jnp.float32)]))
    (name,) = model.jax().weights
    given = {name if key == "weights" else key: value for key, value in values.items()}
    with pytest.raises(jfuse.JfuseError, match=message):
        model.with_constants(given)
