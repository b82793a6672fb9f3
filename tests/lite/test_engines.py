"""The engines of `jfuse.lite.Interpreter`: LiteRT by default, XLA where that is asked for or LiteRT has no kernel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter as LiteRt

from jfuse import lite


@pytest.fixture(scope="module")
def doubled() -> bytes:
    function = tf.function(lambda x: x * 2.0, input_signature=[tf.TensorSpec([None, 2], name="x")])
    owner = tf.Module()
    return lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], owner).convert()


@pytest.mark.parametrize(("engine", "is_litert"), [(None, True), ("litert", True), ("xla", False)])
def test_both_engines_answer(engine: Any, is_litert: bool, doubled: bytes) -> None:
    interpreter = lite.Interpreter(model_content=doubled, engine=engine)
    assert isinstance(interpreter, lite.Interpreter)
    assert isinstance(interpreter, LiteRt) == is_litert
    x = np.array([[1, 2], [3, 4]], np.float32)
    np.testing.assert_array_equal(interpreter.get_signature_runner()(x=x)["output_0"], 2 * x)


def test_an_unknown_engine_is_refused(doubled: bytes) -> None:
    with pytest.raises(ValueError, match="engine is 'litert', 'xla' or None"):
        lite.Interpreter(model_content=doubled, engine="gpu")  # type: ignore[arg-type]


def test_operators_without_a_kernel_in_litert_are_for_xla() -> None:
    def values(x: tf.Tensor) -> tf.Tensor:
        return tf.raw_ops.MatrixSquareRoot(input=x)

    function = tf.function(values, input_signature=[tf.TensorSpec([4, 4], name="x")])
    converter = lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.allow_custom_ops = True
    assert not isinstance(lite.Interpreter(model_content=converter.convert()), LiteRt)
