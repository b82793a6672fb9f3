"""Random numbers in loops: each step draws its own, whatever passes do with the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import jfuse


def looped(draw: Callable[[], Any]) -> Any:
    """A function of x f32[2] that collects x plus what each of three steps draws: f32[3,2]."""

    def call(x: Any) -> Any:
        def body(i: Any, rows: Any) -> tuple[Any, Any]:
            return i + 1, rows.write(i, x + draw())

        rows = tf.TensorArray(tf.float32, 3, element_shape=[2])
        return tf.while_loop(lambda i, rows: i < 3, body, (0, rows))[1].stack()

    return tf.function(call, input_signature=[tf.TensorSpec([2], name="x")], autograph=False)


def rows_of(result: Any) -> np.ndarray:
    interpreter = Interpreter(model_content=result.to_bytes())
    return np.asarray(interpreter.get_signature_runner()(x=np.zeros(2, np.float32))["output_0"])


def test_each_step_draws() -> None:
    result = jfuse.convert(looped(lambda: tf.random.uniform([2])), verify=False)
    rows = rows_of(result)
    assert rows.shape == (3, 2)
    assert len(np.unique(rows)) == 6


@pytest.mark.parametrize("loop", ["auto", "while", "unroll"])
def test_a_seed_makes_no_two_steps_or_calls_alike(loop: Any) -> None:
    """TensorFlow goes on drawing; copies of an operator, and WHILE in LiteRT, would begin at the seed again."""

    def call(x: Any) -> Any:
        def body(i: Any, rows: Any) -> tuple[Any, Any]:
            def inner(j: Any, row: Any) -> tuple[Any, Any]:
                return j + 1, row.write(j, x + tf.random.uniform([2], seed=7))

            row = tf.TensorArray(tf.float32, 2, element_shape=[2])
            return i + 1, rows.write(i, tf.while_loop(lambda j, row: j < 2, inner, (0, row))[1].stack())

        rows = tf.TensorArray(tf.float32, 5, element_shape=[2, 2])
        return tf.while_loop(lambda i, rows: i < 5, body, (0, rows))[1].stack()

    function = tf.function(call, input_signature=[tf.TensorSpec([2], name="x")], autograph=False)
    result = jfuse.convert(function, verify=False, forms=jfuse.Forms(loop=loop))
    run = Interpreter(model_content=result.to_bytes()).get_signature_runner()
    drawn = np.concatenate([run(x=np.zeros(2, np.float32))["output_0"].ravel() for _ in range(3)])
    assert drawn.shape == (60,)
    assert len(np.unique(drawn)) == 60


def test_a_seed_makes_no_two_turns_of_a_search_alike() -> None:
    """A loop whose number of steps is data: it stays a WHILE."""

    def call(x: Any) -> Any:
        def body(i: Any, y: Any, z: Any) -> tuple[Any, Any, Any]:
            return i + 1, tf.random.uniform([2], seed=7), y

        return tf.while_loop(lambda i, y, z: i < tf.cast(x[0], tf.int32), body, (0, x, x))[1:]

    function = tf.function(call, input_signature=[tf.TensorSpec([2], name="x")], autograph=False)
    run = Interpreter(model_content=jfuse.convert(function, verify=False).to_bytes()).get_signature_runner()
    drawn = [found for _ in range(2) for found in run(x=np.full(2, 5, np.float32)).values()]
    assert len(np.unique(drawn)) == 8


def test_a_loop_over_constants_draws_when_it_runs() -> None:
    def call(x: Any) -> Any:
        y = tf.while_loop(
            lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.random.uniform([2])), (0, tf.constant([5.0, 5.0]))
        )[1]
        return x + y

    function = tf.function(call, input_signature=[tf.TensorSpec([2], name="x")], autograph=False)
    result = jfuse.convert(function, verify=False)
    first, second = rows_of(result), rows_of(result)
    assert result.report.operators["random_uniform"] == 3
    assert ((first > 5) & (first < 8)).all()
    assert not np.array_equal(first, second)


@pytest.mark.parametrize("options", [{"select_tf_ops": True}, {"custom_ops": {"RandomGamma": None}}])
def test_custom_operators_draw_in_each_step(options: dict[str, Any]) -> None:
    """Not computed at conversion, nor shared between steps or with the same operator elsewhere.

    One operator draws for all steps, as in TensorFlow: copies of it might begin at the same seed.
    """

    def call(x: Any) -> Any:
        def draw(i: Any, y: Any) -> tuple[Any, Any]:
            return i + 1, y + tf.random.gamma([2], 2.0)

        return tf.while_loop(lambda i, y: i < 3, draw, (0, x))[1] + tf.random.gamma([2], 2.0)

    function = tf.function(call, input_signature=[tf.TensorSpec([2], name="x")], autograph=False)
    (custom,) = jfuse.convert(function, verify=False, **options).report.custom
    assert (custom.op, custom.count) == ("RandomGamma", 2)
    with pytest.raises(jfuse.LowerError, match="cannot be unrolled"):
        jfuse.convert(function, verify=False, **{"loop": "unroll", **options})
