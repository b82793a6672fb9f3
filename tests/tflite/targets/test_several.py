"""Several targets are one: what a part lacks the whole lacks, and the reason names the part."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.graph import Eqn
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.targets.catalog import target_named
from tests.tflite.programs import f32

FLOATS = f32(2, 3)


def equation(function: Any, *types: TensorType) -> Eqn:
    return trace_graph(function, types).eqns[-1]


def test_names_are_a_text_or_a_sequence() -> None:
    several = target_named(("litert", "compiled-model", "tflite-micro"))
    assert several.name == "litert,compiled-model,tflite-micro"
    assert several == target_named("litert, compiled-model,tflite-micro")
    assert target_named(["litert", "litert"]) == target_named("litert")
    assert several.static
    assert several.single
    assert several.compiled_model
    assert several.runtimes == ("compiled-model", "tflite-micro")


@pytest.mark.parametrize("names", [(), "", "litert,", ("litert", 3), ("litert", "no")])
def test_a_name_that_there_is_not(names: Any) -> None:
    with pytest.raises(JfuseError, match="no target"):
        target_named(names)


def test_reasons_name_the_targets() -> None:
    tile = equation(lambda x: ops.tile(x, np.array([2, 1], np.int32)), FLOATS)
    found = target_named("litert,tflite-micro,cmsis-nn")
    assert found.why_not(tile) == "tflite-micro has no TILE (tflite-micro, cmsis-nn)"
    assert found.why_another_form(tile) is not None
    assert target_named("litert,compiled-model").why_not(tile) is None
    gelu = equation(ops.gelu, FLOATS)
    assert (
        target_named("litert>=2.8.1,compiled-model").why_not(gelu)
        == "GELU version 1 needs runtime 2.9.0 (litert>=2.8.1)"
    )
    assert target_named("litert>=2.8.1,tflite-micro").why_not(gelu) == (
        "GELU version 1 needs runtime 2.9.0 (litert>=2.8.1); tflite-micro has no GELU (tflite-micro)"
    )


def test_answers_are_those_of_the_strictest() -> None:
    several = target_named("google-tensor,tflite-micro")
    assert not several.has("ONE_HOT")
    assert target_named("google-tensor,litert").has("ONE_HOT")
    assert target_named("litert-gpu,litert").place_of("VAR_HANDLE") == "refused"
    assert target_named("google-tensor,litert").place_of("VAR_HANDLE") == "CPU"
    assert target_named("google-tensor,litert").composites == target_named("google-tensor").composites
    assert not several.composites  # tflite-micro has no STABLEHLO_COMPOSITE
    exp = equation(ops.exp, FLOATS)
    assert target_named("litert,tflite-micro").lacks_integers(exp, DType.i8)
    assert not target_named("litert,compiled-model").lacks_integers(exp, DType.i8)
    assert target_named("litert,tflite-micro").in_interpreter
    assert target_named("litert,tflite-micro").is_timed_here
    assert not target_named("litert-gpu,tflite-micro").is_timed_here


def test_a_file_for_two_is_taken_by_both() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2, 3], tf.float32, name="x")])
    def tiled(x: Any) -> Any:
        return tf.tile(tf.nn.gelu(x), [2, 1])

    result = jfuse.convert(tiled, target=("litert>=2.8", "tflite-micro"), verify=False)
    found = jfuse.check(result, ("litert>=2.8", "tflite-micro"))
    assert found.takes_it == ("litert>=2.8", "tflite-micro")
    plain = jfuse.check(jfuse.convert(tiled, verify=False), ("litert", "tflite-micro"))
    assert plain.takes_it == ("litert",)
    assert not plain.runs


def test_an_error_names_operator_and_target() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2], tf.int32, name="x")])
    def hot(x: Any) -> Any:
        return tf.math.unsorted_segment_prod(tf.cast(x, tf.float32), [0, 0], 1)

    with pytest.raises(LowerError) as error:
        jfuse.convert(hot, target="compiled-model,tflite-micro", verify=False)  # type: ignore[arg-type]
    text = str(error.value)
    assert "tflite-micro has no UNSORTED_SEGMENT_PROD (tflite-micro)" in text
    assert "a file for each of them" in text


def test_open_sizes_are_refused_for_the_one_that_plans() -> None:
    opened = tf.function(lambda x: tf.tanh(x), input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    with pytest.raises(LowerError, match="the target tflite-micro plans its memory"):
        jfuse.convert(opened, target="litert,tflite-micro", verify=False)  # type: ignore[arg-type]
