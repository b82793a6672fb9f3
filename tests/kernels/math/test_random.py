"""Random numbers: the first call against TensorFlow and LiteRT, number by number; later ones by their distribution."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.frontends.against_tensorflow import spec

SEEDS = {"seed": 1234567, "seed2": 89}
SHAPE = np.array([3, 7], np.int32)
LOGITS = np.array([[0.5, -1.0, 2.0, -np.inf], [0.0, 0.0, 1e4, 1.0]], np.float32)


def first_call(function: Any, x: np.ndarray) -> np.ndarray:
    """What LiteRT answers when the function's file is run for the first time."""
    graph = prepare_outputs(trace_graph(function, [TensorType(x.shape, DType.of(x.dtype))]))
    data = to_bytes(Program((Signature("main", graph, ("x",), ("y",)),)))
    return LiteRt(data).run("main", {"x": x})["y"]


def test_uniform_numbers_are_those_of_tensorflow() -> None:
    wanted = tf.raw_ops.RandomUniform(shape=SHAPE, dtype=tf.float32, **SEEDS)
    np.testing.assert_array_equal(ops.random_uniform(SHAPE, **SEEDS), wanted)


def test_normal_numbers_are_those_of_tensorflow() -> None:
    wanted = tf.raw_ops.RandomStandardNormal(shape=SHAPE, dtype=tf.float32, **SEEDS).numpy()
    # 2e-6: sines of angles up to 2 pi in f32
    np.testing.assert_allclose(ops.random_standard_normal(SHAPE, **SEEDS), wanted, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [DType.i32, DType.i64])
def test_places_are_those_of_tensorflow(dtype: DType) -> None:
    out = {"num_samples": 200, "output_dtype": tf.as_dtype(dtype.numpy)}
    wanted = tf.raw_ops.Multinomial(logits=LOGITS, **out, **SEEDS).numpy()
    found = ops.multinomial(LOGITS, np.int32(200), **SEEDS, output_type=dtype)
    assert found.dtype == wanted.dtype
    np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("name", ["random_uniform", "random_standard_normal"])
def test_the_first_numbers_of_the_file(name: str) -> None:
    op = getattr(ops, name)
    found = first_call(lambda x: ops.add(x, op(SHAPE, **SEEDS)), np.zeros((3, 7), np.float32))
    np.testing.assert_allclose(found, op(SHAPE, **SEEDS), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("dtype", [DType.i32, DType.i64])
def test_the_first_places_of_the_file(dtype: DType) -> None:
    found = first_call(lambda x: ops.multinomial(x, np.int32(200), **SEEDS, output_type=dtype), LOGITS)
    np.testing.assert_array_equal(found, ops.multinomial(LOGITS, np.int32(200), **SEEDS, output_type=dtype))


def drawing(function: Any) -> jfuse.Model:
    return jfuse.convert(tf.function(function, input_signature=[spec(400, name="x")], autograph=False))


def draws_of(lite: jfuse.Model) -> np.ndarray:
    """What several invokes of a file that adds random numbers to `x` have drawn."""
    runtime = LiteRt(lite.to_bytes())
    x = np.zeros(400, np.float32)
    found = [next(iter(runtime.run("serving_default", {"x": x}).values())) for _ in range(20)]
    assert len({f.tobytes() for f in found}) == 20, "each invoke draws others"
    return np.stack(found)


def test_drawn_in_each_call() -> None:
    lite = drawing(lambda x: (x + tf.random.uniform([400]), x * 2.0))
    assert "output_0 depend on random numbers, which were not compared with the source's" in lite.report.notes
    assert {d.output for d in lite.report.differences} == {"output_1"}
    drawn = draws_of(lite)
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert abs(drawn.mean() - 0.5) < 0.02  # 6 standard deviations of 8,000 numbers


def test_normal_numbers_in_each_call() -> None:
    drawn = draws_of(drawing(lambda x: x + tf.random.normal(tf.shape(x))))
    assert abs(drawn.mean()) < 0.07  # 6 standard deviations
    assert abs(drawn.std() - 1) < 0.05


def test_truncated_normal_numbers_in_each_call() -> None:
    drawn = draws_of(drawing(lambda x: x + tf.random.truncated_normal([400])))
    assert abs(drawn).max() <= 2
    assert abs(drawn.mean()) < 0.06  # 6 standard deviations
    assert abs(drawn.std() - 0.87963) < 0.03  # of a normal variable between -2 and 2
    assert abs((drawn < 0.5).mean() - 0.7006) < 0.03


def test_shuffled_in_each_call() -> None:
    drawn = draws_of(drawing(lambda x: x + tf.random.shuffle(tf.range(400.0))))
    np.testing.assert_array_equal(np.sort(drawn, axis=1), np.tile(np.arange(400.0), (20, 1)))
    assert abs(np.corrcoef(drawn)[0, 1:]).max() < 0.3  # 6 standard deviations


def test_integers_in_each_call() -> None:
    lite = drawing(lambda x: x + tf.cast(tf.random.uniform([400], -2, 5, tf.int32), tf.float32))
    drawn = draws_of(lite)
    assert sorted(set(drawn.ravel())) == [-2, -1, 0, 1, 2, 3, 4]


def test_two_draws_are_not_one() -> None:
    lite = drawing(lambda x: x + tf.random.uniform([400]) - tf.random.uniform([400]))
    assert lite.report.operators["random_uniform"] == 2
    assert draws_of(lite).std() > 0.3


def test_categories_in_each_call() -> None:
    def call(x: Any) -> Any:
        return tf.random.categorical(tf.reshape(x, [4, 100]), 100, dtype=tf.int32)

    drawn = draws_of(drawing(call))
    assert drawn.min() >= 0
    assert drawn.max() <= 99


def test_a_size_known_at_run_time() -> None:
    def call(x: Any) -> Any:
        return x + tf.random.uniform(tf.shape(x))

    lite = jfuse.convert(tf.function(call, input_signature=[spec(None, 3, name="x")], autograph=False))
    for size in (2, 5):
        found = LiteRt(lite.to_bytes()).run("serving_default", {"x": np.zeros((size, 3), np.float32)})
        assert next(iter(found.values())).shape == (size, 3)


def test_seeds_that_are_constants_give_constants() -> None:
    lite = drawing(lambda x: x + tf.random.stateless_normal([400], seed=[3, 4]))
    assert lite.report.operators == {"add": 1}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x + tf.cast(tf.random.uniform([400], dtype=tf.float64), tf.float32), "random numbers of f64"),
        (lambda x: x + tf.cast(tf.random.uniform([400], 0, 2**30, tf.int32), tf.float32), "from a range that is large"),
        (lambda x: x + tf.random.poisson([400], 2.0), "RandomPoisson"),
    ],
)
def test_what_no_operator_draws_is_refused(function: Any, message: str) -> None:
    with pytest.raises(LowerError, match=message):
        drawing(function)
