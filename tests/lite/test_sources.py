"""Sources of `TFLiteConverter`'s constructors: their signatures, the numbers of calls, the order of inputs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

from jfuse import lite


class Pair(tf.Module):
    """Two functions with variables."""

    def __init__(self) -> None:
        self.two, self.three = tf.Variable(2.0), tf.Variable(3.0)

    @tf.function(input_signature=[tf.TensorSpec([1], name="x")])
    def add(self, x: Any) -> Any:
        return x + self.two

    @tf.function(input_signature=[tf.TensorSpec([1], name="x")])
    def sub(self, x: Any) -> Any:
        return x - self.three


@pytest.mark.parametrize("order", [("add", "sub"), ("sub", "add")])
def test_the_calls_of_several_functions_are_numbered_by_key(order: tuple[str, str]) -> None:
    pair = Pair()
    functions = [getattr(pair, name).get_concrete_function() for name in order]
    found = []
    for library in (lite, tf.lite):
        data = library.TFLiteConverter.from_concrete_functions(functions, pair).convert()
        runners = [Interpreter(model_content=data).get_signature_runner(key) for key in ("add", "sub")]
        found.append([next(iter(r.get_output_details().values()))["name"] for r in runners])
    assert found[0] == found[1] == ["StatefulPartitionedCall:0", "StatefulPartitionedCall_1:0"]


@pytest.mark.parametrize("owner", [None, tf.Module])
def test_a_function_without_its_owner_has_no_signature(owner: Callable[[], Any] | None) -> None:
    pair = Pair()
    trackable = None if owner is None else owner()
    converter = lite.TFLiteConverter.from_concrete_functions([pair.add.get_concrete_function()], trackable)
    assert Interpreter(model_content=converter.convert()).get_signature_list() == {}


def test_inputs_of_a_graph_of_version_1_are_sorted(tmp_path: Path) -> None:
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        b, a = (tf.compat.v1.placeholder(tf.float32, [2], name=name) for name in ("inputB", "inputA"))
        tf.compat.v1.saved_model.simple_save(session, str(tmp_path / "model"), {"x": b, "y": a}, {"z": b - a})
    data = lite.TFLiteConverter.from_saved_model(str(tmp_path / "model")).convert()
    assert [d["name"] for d in Interpreter(model_content=data).get_input_details()] == ["inputA:0", "inputB:0"]
    runner = Interpreter(model_content=data).get_signature_runner()
    np.testing.assert_array_equal(runner(x=np.array([3, 5], np.float32), y=np.array([1, 2], np.float32))["z"], [2, 3])
