"""Small programs with scopes, a composite and a loop, before and after fusion, and verifications of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.measure import Measure
from jfuse.ir.graph import Graph, Program, Signature, Source
from jfuse.ir.text import format_eqn
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import composite, while_
from jfuse.kernels.core.op import Array
from jfuse.records.conversion import Difference, Fusion, Refusal, Report
from jfuse.records.verification import EquationError, Verification

ROW = TensorType((1, 4), DType.f32)
COUNT = TensorType((), DType.i32)
BLOCK = 8
"""How many operations one block of `blocks` is, after fusion."""

_weights = np.random.default_rng(0).standard_normal((4, 4)).astype(np.float32)


def at(node: str, op: str, function: Callable[..., Any], *args: Any, **params: Any) -> Any:
    """Call an op as if it came from this node."""
    with at_source(Source(node, op)):
        return function(*args, **params)


def program(graph: Graph, inputs: Sequence[str], outputs: Sequence[str], key: str = "serving_default") -> Program:
    return Program((Signature(key, graph, tuple(inputs), tuple(outputs)),))


def gelu(x: Array) -> Array:
    return ops.mul(x, ops.mul(np.float32(0.5), ops.add(np.float32(1), ops.tanh(x))))


def blocks(count: int, fused: bool, scope: str = "model/encoder") -> Program:
    """`count` blocks of a dense layer, a composite and a normalisation; fused the composite is one op."""
    body = trace_graph(gelu, [ROW], name="gelu")

    def net(x: Array) -> Array:
        for i in range(count):
            block = f"{scope}/block_{i}"
            y = at(f"{block}/dense/MatMul", "MatMul", ops.fully_connected, x, _weights, None)
            if fused:
                y = at(f"{block}/dense/gelu", "PartitionedCall", ops.gelu, y, approximate=True)
            else:
                named = {"name": "acme.gelu", "arguments": ("x",), "attributes": ()}
                (y,) = at(f"{block}/dense/gelu", "PartitionedCall", composite, [y], [body], **named)
            mean = at(f"{block}/norm/Mean", "Mean", ops.mean, y, [1], keep_dims=True)
            centred = at(f"{block}/norm/Sub", "Sub", ops.sub, y, mean)
            square = at(f"{block}/norm/Square", "Square", ops.square, centred)
            variance = at(f"{block}/norm/Variance", "Mean", ops.mean, square, [1], keep_dims=True)
            scale = at(f"{block}/norm/Rsqrt", "Rsqrt", ops.rsqrt, variance)
            x = at(f"{block}/norm/out", "Mul", ops.mul, centred, scale)
        return x

    return program(trace_graph(net, [ROW], name="net"), ["tokens"], ["hidden"])


def loop() -> Program:
    """tanh, then a WHILE whose body computes two ops."""
    cond = trace_graph(lambda n, x: ops.less(n, np.int32(3)), [COUNT, ROW], name="turns_left")
    body = trace_graph(lambda n, x: (ops.add(n, np.int32(1)), ops.tanh(x)), [COUNT, ROW], name="turn")

    def net(x: Array) -> Array:
        y = at("net/Tanh", "Tanh", ops.tanh, x)
        return at("net/while", "While", while_, [np.int32(0), y], [cond, body])[1]

    return program(trace_graph(net, [ROW], name="net"), ["x"], ["y"])


def measure(size: float) -> Measure:
    return Measure(2 * size, size, size * 1e7, 1.0, -20 * math.log10(size) if 0 < size < math.inf else math.inf)


def errors(
    found: Program, size: Callable[[int], float] = lambda i: 1e-8 * (i + 1), pair: str = "xla/litert"
) -> list[EquationError]:
    """An error for each equation of the first signature, bodies included; `size` tells it by the equation's number."""
    made: list[EquationError] = []

    def walk(graph: Graph, path: tuple[int, ...]) -> None:
        for i, eqn in enumerate(graph.eqns):
            place, text = (*path, i), format_eqn(eqn)
            made.append(
                EquationError(key, place, eqn.op.name, text, str(eqn.source), "", pair, measure(size(len(made))))
            )
            for number, inner in enumerate(eqn.bodies):
                walk(inner, (*place, number))

    key = found.signatures[0].key
    walk(found.signatures[0].graph, ())
    return made


def difference(error: float = 1e-6, pair: str = "xla/litert", output: str = "hidden") -> Difference:
    return Difference("serving_default", output, pair, error, 1e-5, "f32: sums of 4 terms", measure(error), 100)


def verification(equations: Sequence[EquationError] = (), *differences: Difference) -> Verification:
    shown = list(differences) or [difference()]
    return Verification("model.tflite", "saved_model", shown, None, list(equations), 100, {"XLA": 1.5}, "XLA on cpu")


def report(count: int) -> Report:
    """Of a conversion that fused the composites of `blocks`, and did not fuse a loop."""
    nodes = [f"model/encoder/block_{i}/dense/gelu (PartitionedCall)" for i in range(count)]
    fused = [Fusion("acme.gelu", "fuse_gelu", node, ("GELU",), 128, 2e-16) for node in nodes]
    refused = [Refusal("loop", "loops", "trip_count_unknown", "model/decode/while (While)", "want a number, got N")]
    return Report(fused, refused, ["B1 = B"], operators={"gelu": count}, size_bytes=1234, seconds={"import": 0.5})
