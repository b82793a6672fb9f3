"""Node data as Model Explorer reads it: its builder's fields, the ids of its reader of .tflite files."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.records.verification import EquationError
from jfuse.reports import write_model_explorer
from jfuse.reports.model_explorer import node_data
from tests.reports.shape import misfits
from tests.reports.small import ROW, blocks, errors, loop, measure, verification

# After GraphNodeData, NodeDataResult and ThresholdItem of ai-edge-model-explorer 0.1.34 (node_data_builder.py).
FORMAT: dict[str, Any] = {
    "type": "object",
    "additionalProperties": {
        "type": "object",
        "required": ["results"],
        "properties": {
            "name": {"type": "string"},
            "results": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "required": ["value"],
                    "properties": {
                        "value": {"anyOf": [{"type": "number"}, {"enum": ["inf"]}]},
                        "bgColor": {"type": "string"},
                        "textColor": {"type": "string"},
                    },
                },
            },
            "thresholds": {
                "type": "array",
                "items": {
                    "type": "object",
                    "required": ["value", "bgColor"],
                    "properties": {"value": {"type": "number"}, "bgColor": {"type": "string"}},
                },
            },
        },
    },
}


def test_the_format(tmp_path: Path) -> None:
    model = Model(blocks(2, True))
    sizes = errors(model.program, lambda i: (1e-7, 0.0, 5.0, math.inf)[i % 4])
    file = write_model_explorer(verification(sizes), model, tmp_path / "nodes.json")
    found = json.loads(file.read_text(encoding="ascii"))
    assert misfits(found, FORMAT) == []
    assert found.keys() == {"net"}
    assert found["net"]["results"]["0"] == {"value": 1e-7}
    assert found["net"]["results"]["3"]["value"] == "inf"
    assert {"2", "3"} == {
        key for key, result in found["net"]["results"].items() if "bgColor" in result and int(key) < 5
    }
    bounds = [threshold["value"] for threshold in found["net"]["thresholds"]]
    assert bounds == sorted(bounds)


def test_operations_of_bodies_stand_in_their_subgraphs() -> None:
    model = Model(loop())
    found = node_data(verification(errors(model.program)), model)
    assert {graph: sorted(data["results"]) for graph, data in found.items()} == {
        "net": ["0", "1"],
        "turns_left": ["0"],
        "turn": ["0", "1"],
    }


def test_operators_on_variables_stand_for_no_equation() -> None:
    """A kept state adds CALL_ONCE, VAR_HANDLE and READ_VARIABLE before the equations."""
    graph = trace_graph(lambda x, kept: (ops.tanh(x), ops.add(kept, x)), [ROW, ROW], name="net")
    state = State("total", Const(np.zeros((1, 4), np.float32)))
    model = Model(Program((Signature("serving_default", graph, ("x",), ("y",), (state,)),)))
    assert sorted(node_data(verification(errors(model.program)), model)["net"]["results"]) == ["3", "4"]


def test_one_comparison_or_the_worst_of_all() -> None:
    model = Model(blocks(1, True))
    both = verification(
        [*errors(model.program, lambda i: 1e-6), *errors(model.program, lambda i: 1e-3, "tensorflow/xla")]
    )
    assert node_data(both, model)["net"]["results"]["0"] == {"value": 1e-3}
    chosen = node_data(both, model, "xla/litert")["net"]
    assert chosen["results"]["0"] == {"value": 1e-6}
    assert "xla/litert" in chosen["name"]
    with pytest.raises(JfuseError, match="compared as 'xla/jax'"):
        node_data(both, model, "xla/jax")
    with pytest.raises(JfuseError, match="no equation was compared"):
        node_data(verification(), model)


def test_an_error_that_is_no_number_counts_as_without_bound() -> None:
    model = Model(blocks(1, True))
    (odd, *_) = errors(model.program)
    odd = replace(odd, measure=replace(measure(0.0), relative=math.nan))
    assert isinstance(odd, EquationError)
    assert node_data(verification([odd]), model)["net"]["results"]["0"]["value"] == "inf"
