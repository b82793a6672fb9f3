"""LiteRT's own kernels overwrite no value that is read later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.legalize.memory_apart import memory_apart
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.runtime.table import ROWS
from jfuse.tflite.write.file import to_bytes

SHAPE = np.array([3, 4], np.int32)
FLAT = np.array([1, 12], np.int32)
X = np.linspace(-2, 2, 12, dtype=np.float32).reshape(1, 12)
FIVE = np.float32(5)


def together(first: Any, second: Any) -> Any:
    return ops.concatenation(first, ops.reshape(second, FLAT), axis=0)


def halved(x: Any) -> Any:
    """In the memory of the sine."""
    return ops.mul(ops.sin(x), np.float32(0.5))


def overwritten_by(op: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def call(x: Any) -> Any:
        m = halved(x)
        return together(m, op(ops.reshape(m, SHAPE)))

    return call


def behind_bits(x: Any) -> Any:
    m = ops.bitcast(ops.sin(x), out_data_type=DType.i32)
    return together(m, ops.add(ops.reshape(m, SHAPE), np.int32(1 << 24)))


def behind_axes(x: Any) -> Any:
    m = halved(x)
    longer = ops.expand_dims(m, np.int32(0))
    return together(m, ops.sub(FIVE, ops.squeeze(longer, squeeze_dims=(0,))))


CORNER = np.full((2, 2), 7, np.float32)
OVERWRITING: dict[str, Callable[[Any], Any]] = {
    "add": overwritten_by(lambda y: ops.add(y, FIVE)),
    "sub": overwritten_by(lambda y: ops.sub(FIVE, y)),
    "mul": overwritten_by(lambda y: ops.mul(y, FIVE)),
    "div": overwritten_by(lambda y: ops.div(y, FIVE)),
    "softmax": overwritten_by(lambda y: ops.softmax(y, beta=1.0)),
    "dynamic_update_slice": overwritten_by(lambda y: ops.dynamic_update_slice(y, CORNER, np.array([0, 1], np.int32))),
    "behind_bits": behind_bits,
    "behind_axes": behind_axes,
}


def in_litert(graph: Any) -> np.ndarray:
    data = to_bytes(Program((Signature("main", graph, ("x",), ("y",)),)))
    return LiteRt(data, delegates=False).run("main", {"x": X})["y"]


@pytest.mark.parametrize("name", OVERWRITING)
def test_what_is_read_later_is_kept(name: str) -> None:
    graph = trace_graph(OVERWRITING[name], [TensorType(X.shape, DType.f32)])
    (wanted,) = evaluate(graph, [X])
    apart = memory_apart(graph)
    assert len(apart.eqns) == len(graph.eqns) + 1
    np.testing.assert_allclose(in_litert(apart), wanted, rtol=1e-6)
    assert not np.allclose(in_litert(graph), wanted), "LiteRT has mended it: the pass may go"


@pytest.mark.parametrize(
    "function",
    [
        lambda x: together(halved(x), ops.add(ops.reshape(ops.sin(x), SHAPE), FIVE)),  # nothing else reads the sine
        lambda x: together(m := halved(x), ops.relu(ops.reshape(m, SHAPE))),  # RELU has memory of its own
        lambda x: together(m := ops.sin(x), ops.add(ops.reshape(m, SHAPE), FIVE)),  # the planner counts m's readers
        lambda x: ops.add(ops.reshape(ops.relu(m := halved(x)), SHAPE), ops.reshape(m, SHAPE)),  # m is read before
    ],
)
def test_nothing_is_copied_without_need(function: Callable[[Any], Any]) -> None:
    graph = trace_graph(function, [TensorType(X.shape, DType.f32)])
    assert memory_apart(graph) is graph
    np.testing.assert_allclose(in_litert(graph), evaluate(graph, [X])[0], rtol=1e-6)


def test_the_rows_of_kernels_that_work_in_place() -> None:
    found = {name: row.litert.in_place for name, row in ROWS.items() if row.litert and row.litert.in_place}
    assert {name for name, of in found.items() if of.changes} == {
        *("ADD", "SUB", "MUL", "DIV", "SOFTMAX", "DYNAMIC_UPDATE_SLICE")
    }
    assert {name for name, of in found.items() if not of.changes} == {"RESHAPE", "EXPAND_DIMS", "SQUEEZE", "BITCAST"}
