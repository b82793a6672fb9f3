"""Convolutions, pools and blocks of images whose height and width are open, besides the batch."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.defaults import default_rules
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.op_cases.case import Case
from tests.op_cases.compare import assert_close
from tests.op_cases.image import blocks
from tests.op_cases.nn import conv, pool, transpose_conv
from tests.op_cases.oracle import tensorflow_results

_ALL = (*conv.CASES, *pool.CASES, *blocks.CASES, *transpose_conv.CASES)


def _takes_open_sizes(row: Case) -> bool:
    """Images of floats beside constants; where the result's sizes are constants they would contradict open ones."""
    x, *others = row.inputs
    return (
        not others
        and x.ndim >= 3
        and x.dtype == np.float32
        and x.size > 0
        and "Backprop" not in row.op
        and row.op != "MaxPoolWithArgmax"  # spelled place by place, it wants known sizes
    )


ROWS = [row for row in _ALL if row.inputs and _takes_open_sizes(row)]


def traced(row: Case) -> Graph:
    """The row's graph with a symbol for every size but the channels'."""
    (x,) = row.inputs
    names = iter(string.ascii_uppercase)
    channels = 1 if str(row.attributes.get("data_format", "")).startswith(("NC", "CHANNELS_F")) else x.ndim - 1
    shape = [d if axis == channels else symbol(next(names)) for axis, d in enumerate(x.shape)]

    def call(value: Any) -> Any:
        operands = [a if o.constant else value for a, o in zip(row.arrays, row.operands, strict=True)]
        return default_rules().lowers[row.op](*operands, **row.attributes)

    return prepare_outputs(simplify(trace_graph(call, [TensorType(tuple(shape), DType.f32)]), Context()))


def sizes(graph: Graph, row: Case) -> dict[str, int]:
    """What the symbols of the input are in the row."""
    return {str(d): n for d, n in zip(graph.inputs[0].type.shape, row.inputs[0].shape, strict=True)}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_open_sizes(row: Case) -> None:
    graph = traced(row)
    check_graph(graph)
    wanted = tensorflow_results(row)
    known = {name: size for name, size in sizes(graph, row).items() if not name.isdigit()}
    assert [a.type.substitute(known).shape for a in graph.outputs] == [w.shape for w in wanted]
    if row.litert is None:
        assert_close(in_litert(graph, row.inputs[0]), wanted, row.tolerance)


def in_litert(graph: Graph, x: np.ndarray) -> tuple[np.ndarray, ...]:
    interpreter = Interpreter(
        model_content=to_bytes(Program((Signature("row", graph, ("x",), ("y",)),))), num_threads=1
    )
    (place,) = (d["index"] for d in interpreter.get_input_details())
    interpreter.resize_tensor_input(place, x.shape)
    interpreter.allocate_tensors()
    interpreter.set_tensor(place, x)
    interpreter.invoke()
    return tuple(interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details())


def test_branches_of_a_network_agree() -> None:
    """A stride of 2 by SAME and by VALID with one pixel give the same size, which the types say."""
    weights = {size: np.ones((size, size, 3, 4), np.float32) for size in (1, 2, 3)}
    rule = default_rules().lowers["Conv2D"]

    def model(x: Any) -> Any:
        same = rule(x, weights[3], strides=(1, 2, 2, 1), padding="SAME")
        valid = rule(x, weights[1], strides=(1, 2, 2, 1), padding="VALID")
        padded = rule(
            x, weights[3], strides=(1, 2, 2, 1), padding="EXPLICIT", explicit_paddings=(0, 0, 1, 1, 1, 1, 0, 0)
        )
        return same, valid, padded

    graph = trace_graph(model, [TensorType((symbol("B"), symbol("H"), symbol("W"), 3), DType.f32)])
    assert len({str(a.type) for a in graph.outputs}) == 1
