"""`QuantizationDebugger` beside the official one: the same columns and metrics of the same layers."""

from __future__ import annotations

import csv
import io
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from jfuse import lite
from jfuse.lite.experimental import QuantizationDebugger, QuantizationDebugOptions

ROWS = np.random.default_rng(0).normal(size=(6, 1, 16)).astype(np.float32)


def samples() -> list[list[np.ndarray]]:
    return [[row] for row in ROWS]


def converter_of(library: Any) -> Any:
    weights = np.random.default_rng(1).normal(size=(16, 4)).astype(np.float32)

    @tf.function(input_signature=[tf.TensorSpec([1, 16], name="x")], autograph=False)
    def function(x: Any) -> Any:
        return tf.nn.softmax(tf.matmul(x, weights))

    converter = library.TFLiteConverter.from_concrete_functions([function.get_concrete_function()])
    converter.optimizations, converter.representative_dataset = [library.Optimize.DEFAULT], samples
    return converter


def debugger_of(library: Any, **options: Any) -> Any:
    own = library.experimental
    return own.QuantizationDebugger(
        converter=converter_of(library), debug_dataset=samples, debug_options=own.QuantizationDebugOptions(**options)
    )


@pytest.mark.filterwarnings("ignore:\\s*Warning. tf.lite.Interpreter is deprecated")
def test_the_dump_has_the_official_columns_and_layers() -> None:
    metrics = {
        "layer_debug_metrics": {"l1": lambda difference: np.mean(np.abs(difference))},
        "model_debug_metrics": {"worst": lambda floats, integers: np.max(np.abs(floats[0] - integers[0]))},
        "layer_direct_compare_metrics": {"steps": lambda floats, integers, scale, zero_point: scale},
    }
    tables = []
    for library in (lite, tf.lite):
        debugger = debugger_of(library, **metrics)
        debugger.run()
        debugger.layer_statistics_dump(file := io.StringIO())
        assert debugger.model_statistics["worst"] < 0.1
        tables.append(list(csv.DictReader(io.StringIO(file.getvalue()))))
    ours, official = tables
    assert [row["op_name"] for row in ours] == [row["op_name"] for row in official] == ["FULLY_CONNECTED", "SOFTMAX"]
    assert ours[0].keys() == official[0].keys()
    for row in ours:
        assert float(row["num_elements"]) == 4
        assert float(row["max_abs_error"]) >= float(row["l1"]) > 0
        # A value within the range is at most half a step away, and weights of 8 bits add a few.
        assert float(row["max_abs_error"]) < 4 * float(row["scale"])
        assert float(row["steps"]) == pytest.approx(float(row["scale"]))


@pytest.mark.parametrize(
    "options", [{"denylisted_ops": ["FULLY_CONNECTED"]}, {"denylisted_nodes": ["MatMul"]}], ids=["op", "node"]
)
def test_what_is_denied_stays_float(options: Any) -> None:
    data = debugger_of(lite, **options).get_nondebug_quantized_model()
    plain = OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
    operators = Interpreter(model_content=data, experimental_op_resolver_type=plain)._get_ops_details()
    assert operators[0]["op_name"] == "FULLY_CONNECTED"
    assert any(op["op_name"] == "QUANTIZE" for op in operators)


def test_what_it_needs_is_said_in_the_official_words() -> None:
    converter = converter_of(lite)
    converter.representative_dataset = None
    with pytest.raises(ValueError, match="must set representative_dataset"):
        QuantizationDebugger(converter=converter, debug_dataset=samples)
    converter.optimizations = []
    with pytest.raises(ValueError, match="must set optimizations"):
        QuantizationDebugger(converter=converter, debug_dataset=samples)
    with pytest.raises(ValueError, match="needs a converter"):
        QuantizationDebugger(debug_dataset=samples)
    with pytest.raises(ValueError, match="duplicate keys"):
        QuantizationDebugOptions(layer_debug_metrics={"a": np.mean}, model_debug_metrics={"a": np.mean})
