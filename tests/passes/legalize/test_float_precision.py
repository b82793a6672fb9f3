"""Models in 16-bit floats or f64 are computed in f32, with the operators of the same model under float32."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from keras import layers

import jfuse
from jfuse.ir.graph import Const
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.legalize.float_precision import in_f32_types
from jfuse.verification.compare.tolerance import narrowest_computed

NARROW = {"mixed_float16": DType.f16, "mixed_bfloat16": DType.bf16}


def built(policy: str, *stack: Callable[[], Any]) -> Any:
    """A model of one image under a policy.   stack: makes each layer"""
    keras.utils.set_random_seed(1)
    before = keras.mixed_precision.dtype_policy()
    keras.mixed_precision.set_dtype_policy(policy)
    try:
        return keras.Sequential([keras.Input((6, 6, 4), batch_size=1), *(make() for make in stack)])
    finally:
        keras.mixed_precision.set_dtype_policy(before)


STACKS: dict[str, list[Callable[[], Any]]] = {
    "norm": [lambda: layers.Conv2D(3, 3), layers.BatchNormalization, layers.ReLU],
    "gelu": [lambda: layers.Dense(4, activation="gelu")],
    "leaky": [lambda: layers.LeakyReLU(0.1)],
    "resized": [lambda: layers.UpSampling2D(interpolation="bilinear")],
    "recurrent": [lambda: layers.Reshape((36, 4)), lambda: layers.LSTM(3)],
}


@pytest.mark.parametrize("policy", NARROW)
@pytest.mark.parametrize("name", STACKS)
def test_the_operators_are_those_of_float32(name: str, policy: str) -> None:
    narrow, wide = (jfuse.convert(built(p, *STACKS[name]), verify=False) for p in (policy, "float32"))
    output = narrow.signature().graph.outputs[0]
    assert output.type.dtype is NARROW[policy]  # as the source has it
    assert narrow.report.operators == {**wide.report.operators, "cast": 1}
    kept = 'jfuse.Forms(precision="source") keeps its types'
    note = f"what the source computes in {NARROW[policy].value} is computed in f32; {kept}"
    assert note in narrow.report.notes


def test_the_source_is_compared_in_16_bits_and_in_f32() -> None:
    model = built("mixed_float16", *STACKS["norm"])
    result = jfuse.convert(model)
    differences = {d.pair: d for d in result.report.differences}
    assert differences["tensorflow/litert"].reason == "five roundings to f16, 2^-11 each, by the source alone"
    assert "source in f32/litert" in differences
    x = np.random.default_rng(0).normal(size=(1, 6, 6, 4)).astype(np.float32)
    np.testing.assert_allclose(np.asarray(result(x), np.float32), np.asarray(model(x), np.float32), atol=2**-8)


def test_the_precision_of_the_source() -> None:
    result = jfuse.convert(built("mixed_float16", *STACKS["norm"]), forms=jfuse.Forms(precision="source"), verify=False)
    assert result.report.operators["cast"] > 2
    assert narrowest_computed(result.program) is DType.f16
    with pytest.raises(jfuse.JfuseError, match="precision"):
        jfuse.convert(built("mixed_float16", *STACKS["norm"]), forms=jfuse.Forms(precision="half"))  # type: ignore[arg-type]


@pytest.mark.parametrize("recipe", [None, "micro"])
def test_targets_without_16_bits(recipe: str | None) -> None:
    model = built("mixed_bfloat16", *STACKS["norm"])
    data = [np.random.default_rng(i).normal(size=(1, 6, 6, 4)).astype(np.float32) for i in range(4)]
    options: dict[str, Any] = {"quantize": recipe, "calibration": data} if recipe else {}
    result = jfuse.convert(model, target="tflite-micro", **options)
    told = "output 'output_0' is f32 instead of bf16, which tflite-micro has no CAST for"
    assert (told in result.report.notes) == (recipe is None)
    assert result.signature().graph.outputs[0].type.dtype is (DType.i8 if recipe else DType.f32)
    assert "cast" not in result.report.operators


def test_the_noise_of_an_output_of_bfloat16() -> None:
    data = [np.random.default_rng(i).normal(size=(1, 6, 6, 4)).astype(np.float32) for i in range(8)]
    result = jfuse.convert(built("mixed_bfloat16", *STACKS["norm"]), quantize="int8", calibration=data)
    assert all(noise.snr_db > 25 for noise in result.report.noise)  # not the share of equal numbers, as of integers


def test_bits_are_read_of_16_bits() -> None:
    def call(x: Any) -> Any:
        return jax.lax.bitcast_convert_type(x.astype(jnp.bfloat16) * 2, jnp.uint16)

    x = np.array([1.0, -3.5, 0.1], np.float32)
    result = jfuse.convert(call, [jax.ShapeDtypeStruct((3,), jnp.float32)])
    np.testing.assert_array_equal(result(x), call(x))


def test_roundings_that_are_spelled_go() -> None:
    weights = np.random.default_rng(0).normal(size=(4, 4)).astype(np.float32)
    result = jfuse.convert(
        lambda x: jax.lax.reduce_precision(x @ weights, 8, 7), [jax.ShapeDtypeStruct((2, 4), jnp.float32)]
    )
    assert result.report.operators == {"fully_connected": 1}


def test_where_the_source_overflows_it_is_not_compared() -> None:
    def call(x: Any) -> Any:
        return ((x.astype(jnp.float16) * 300) * 300).astype(jnp.float32)  # inf from 0.73 on

    result = jfuse.convert(call, [jax.ShapeDtypeStruct((8,), jnp.float32)])
    assert any("where the source overflows its 16 bits" in note for note in result.report.notes)
    assert "source in f32/litert" in {d.pair for d in result.report.differences}


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("number", [np.sqrt(0.5), 0.1, 1 / 6, -0.3, 7])
def test_constants_are_those_that_were_rounded(dtype: Any, number: float) -> None:
    narrow = DType.of(np.dtype(dtype))
    graph = trace_graph(lambda x: ops.mul(x, np.asarray(number, dtype)), [TensorType((2,), narrow)])
    constant = in_f32_types(graph).eqns[0].inputs[1]
    assert isinstance(constant, Const)
    assert constant.array.item() == np.float32(number)


# f64


@pytest.mark.parametrize(
    "name", sorted(STACKS.keys() - {"gelu", "resized"})
)  # erfc of f64 has no rule, and images are clipped
def test_networks_in_f64_have_the_operators_of_float32(name: str) -> None:
    double, wide = (jfuse.convert(built(p, *STACKS[name]), verify=False) for p in ("float64", "float32"))
    assert double.signature().graph.outputs[0].type.dtype is DType.f64
    operators = dict(double.report.operators)
    assert operators.pop("cast") <= 2  # of the input and of the output
    assert operators == wide.report.operators


def in_f64(function: Callable[[Any], Any], dtype: Any = tf.float64) -> jfuse.Model:
    spec = tf.TensorSpec((None, 4), dtype)
    return jfuse.convert(tf.function(function, input_signature=[spec], autograph=False))


WEIGHTS = np.linspace(-1, 1, 12).reshape(4, 3)


@pytest.mark.parametrize(
    ("function", "dtype"),
    [
        (lambda x: tf.sigmoid(x) * 2.0 - x, tf.float64),
        (lambda x: tf.nn.softmax(x @ tf.constant(WEIGHTS)), tf.float64),
        (lambda x: tf.cast(tf.cast(x, tf.float64) * tf.constant(0.1, tf.float64), tf.float32), tf.float32),
        (lambda x: tf.reduce_max(tf.where(x > 0.0, x, tf.exp(x)), -1), tf.float64),
    ],
)
def test_functions_in_f64_answer_as_tensorflow(function: Callable[[Any], Any], dtype: Any) -> None:
    lite = in_f64(function, dtype)
    for batch in (3, 1, 5):
        x = np.random.default_rng(batch).normal(size=(batch, 4)).astype(dtype.as_numpy_dtype)
        answer = np.asarray(lite(x))
        expected = function(tf.constant(x)).numpy()
        assert answer.dtype == expected.dtype
        np.testing.assert_allclose(answer, expected, rtol=1e-5, atol=1e-6)


def test_f64_that_is_only_moved_keeps_its_digits() -> None:
    lite = in_f64(lambda x: tf.reverse(tf.concat([x, x], 1), [1]))
    assert not any("in f32" in note for note in lite.report.notes)
    x = np.array([[1 / 3, 1e-300, 1 + 2e-16, 1e300]])
    np.testing.assert_array_equal(lite(x), np.concatenate([x, x], 1)[:, ::-1])


def test_the_precision_of_a_source_in_f64_is_kept_or_refused() -> None:
    model = built("float64", *STACKS["norm"])
    with pytest.raises(jfuse.LowerError, match="not f64"):
        jfuse.convert(model, forms=jfuse.Forms(precision="source"), verify=False)
