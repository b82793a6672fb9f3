"""Small programs, traced by hand, that the tests of export, import and LiteRT share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph, Program, Signature, Source
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.write.distinct_outputs import prepare_outputs

BATCH = symbol("B")
KEY = "serving_default"
RNG = np.random.default_rng(7)
WEIGHTS = RNG.normal(size=(5, 8)).astype(np.float32)
BIAS = RNG.normal(size=(5,)).astype(np.float32)


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def i32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i32)


def graph_of(function: Callable[..., Any], *types: TensorType, name: str = "main") -> Graph:
    """What the function records, ready for the export."""
    return prepare_outputs(trace_graph(function, types, name))


def signature(graph: Graph, key: str = KEY, prefix: str = "") -> Signature:
    """Inputs x0, x1, … and outputs y0, y1, … after a prefix."""
    inputs = tuple(f"{prefix}x{i}" for i in range(len(graph.inputs)))
    return Signature(key, graph, inputs, tuple(f"{prefix}y{i}" for i in range(len(graph.outputs))))


def program(function: Callable[..., Any], *types: TensorType) -> Program:
    """A program of one signature."""
    return Program((signature(graph_of(function, *types)),))


def dense() -> Program:
    """A dense layer with open batch, an input handed through, and a flattened input; its nodes have names."""

    def layer(x: Any) -> Any:
        with at_source(Source("dense/MatMul", stack=("model",))):
            y = ops.fully_connected(x, WEIGHTS, BIAS)
        with at_source(Source("dense/Relu", stack=("model",))):
            return ops.relu(y), x, ops.reshape(x, [-1])

    return program(layer, f32(BATCH, 8))


def dense_reference(x: np.ndarray) -> tuple[np.ndarray, ...]:
    return np.maximum(x @ WEIGHTS.T + BIAS, 0), x, x.reshape(-1)


def loop() -> Program:
    """While a < 40 in (a, b, x): a, b = b, a + b and x doubles; a and b trade places as body results."""

    def cond(a: Any, b: Any, x: Any) -> Any:
        return ops.less(a, 40)

    def body(a: Any, b: Any, x: Any) -> Any:
        return b, ops.add(a, b), ops.mul(x, 2.0)

    def main(a: Any, b: Any, x: Any) -> Any:
        types = [i32(), i32(), f32(BATCH, 3)]
        return ops.while_([a, b, x], [trace_graph(cond, types, "cond"), trace_graph(body, types, "body")])

    return program(main, i32(), i32(), f32(BATCH, 3))


def loop_reference(a: int, b: int, x: np.ndarray) -> tuple[int, int, np.ndarray]:
    while a < 40:
        a, b, x = b, a + b, x * 2
    return a, b, x


def branches() -> Program:
    """x + 1 where the flag holds; x else, and the constant 3 with it in both cases."""

    def main(flag: Any, x: Any) -> Any:
        then = trace_graph(lambda v: (ops.add(v, 1.0), np.float32(3)), [f32(BATCH)], "then")
        other = trace_graph(lambda v: (v, np.float32(3)), [f32(BATCH)], "else")
        return ops.if_([flag, x], [then, other])

    return program(main, TensorType((), DType.bool), f32(BATCH))


def lstm(units: int = 4, features: int = 3) -> Program:
    """An LSTM from zeros, its state written by operators that run on every invoke; results y and the final c."""
    rng = np.random.default_rng(units)

    def weights(*shape: int) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    arrays = [weights(units, features) for _ in range(4)] + [weights(units, units) for _ in range(4)]
    biases = [weights(units) for _ in range(4)]

    def main(x: Any) -> Any:
        zero = ops.zeros_like(
            ops.strided_slice(x, [0, 0, 0], [0, 1, 1], [1, 1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
        )
        h, c = ops.tile(zero, [1, units]), ops.tile(zero, [1, units])
        operands = [x, *arrays, None, None, None, *biases, None, None, h, c]
        y, _, last = ops.unidirectional_sequence_lstm(*operands)
        steps = ops.concatenation(
            last,
            ops.strided_slice(y, [0, -1, 0], [0, 0, 0], [1, 1, 1], begin_mask=5, end_mask=5, shrink_axis_mask=2),
            axis=1,
        )
        return y, ops.strided_slice(steps, [0, 0], [0, units], [1, 1], begin_mask=3, end_mask=1)

    return program(main, f32(BATCH, 6, features))


ALL: Sequence[Callable[[], Program]] = (dense, loop, branches, lstm)
