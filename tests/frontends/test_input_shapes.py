"""`shapes=` and `batch=`: the user fixes the sizes of inputs."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import ImportFailed, JfuseError


def two(x: Any, y: Any) -> Any:
    return {"z": tf.reduce_sum(x, 1) * y}


def function() -> Any:
    types = [tf.TensorSpec([None, None, 4], name="x"), tf.TensorSpec([None, 4], name="y")]
    return tf.function(two, input_signature=types, autograph=False)


def shapes(model: jfuse.Model) -> list[str]:
    return [str(var.type) for var in model.signature().graph.inputs]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"batch": 3}, ["f32[3,N,4]", "f32[3,4]"]),
        ({"shapes": {"x": (1, 49, 4)}}, ["f32[1,49,4]", "f32[B,4]"]),
        ({"shapes": {"x": (None, 49, None)}}, ["f32[B,49,4]", "f32[B,4]"]),
        ({"shapes": {"x": [None, 2, 4]}, "batch": 5}, ["f32[5,2,4]", "f32[5,4]"]),
    ],
)
def test_sizes_are_fixed(given: dict[str, Any], expected: list[str]) -> None:
    assert [s.replace("B1", "B") for s in shapes(jfuse.load(function(), jfuse.Inputs(**given)))] == expected


def test_the_file_answers_as_the_source() -> None:
    """The comparison is with the source, whose sizes are open."""
    result = jfuse.convert(function(), jfuse.Inputs(shapes={"x": (2, 7, 4)}), batch=2)
    assert shapes(result) == ["f32[2,7,4]", "f32[2,4]"]
    assert {d.pair for d in result.report.differences} == {"tensorflow/xla", "tensorflow/litert"}


def test_a_shape_stands_for_an_unknown_rank() -> None:
    call = tf.function(lambda x: tf.reduce_sum(x, -1), input_signature=[tf.TensorSpec(None, name="x")], autograph=False)
    assumed = jfuse.load(call)
    assert shapes(assumed) == ["f32[B]"]
    assert any("'x', of unknown rank" in assumption for assumption in assumed.report.assumptions)
    assert shapes(jfuse.load(call, jfuse.Inputs(shapes={"x": (2, None)}))) == ["f32[2,N]"]


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shapes": {"w": (1,)}}, r"no input 'w'(.|\n)*one of \['x', 'y'\]"),
        ({"shapes": {"y": (2, 5)}}, r"another shape(.|\n)*\[\?, 4\](.|\n)*\[2, 5\]"),
        ({"shapes": {"y": (2,)}}, "another shape"),
        ({"shapes": {"y": "2,4"}}, "sizes, or None"),
        ({"shapes": {"y": (2, -1)}}, "sizes, or None"),
        ({"batch": 0}, "batch= is no size"),
    ],
)
def test_shapes_that_do_not_fit(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        jfuse.load(function(), jfuse.Inputs(**given))


def test_files_have_their_shapes(tmp_path: Any) -> None:
    file = jfuse.convert(function(), verify=False).save(tmp_path / "m.tflite")
    with pytest.raises(JfuseError, match=r"not to \.tflite files"):
        jfuse.load(file, batch=1)
