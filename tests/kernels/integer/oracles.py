"""Who computes a graph of quantized integers: LiteRT in each of its ways, tflite-micro, and jfuse's integer bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

from bench.runtimes import emulated
from jfuse.base.limits import Limits
from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import Rounding
from jfuse.kernels.core.op import TflOp
from jfuse.running.interpreter import LiteRt
from jfuse.running.programs.device import Device
from jfuse.running.runner import Runner
from jfuse.tflite.write.file import to_bytes
from tests.corpus.quantized import apply

_RESOLVERS = {"xnnpack": OpResolverType.AUTO, "reference": OpResolverType.BUILTIN_REF}


def tensor(*shape: int, dtype: str = "i8", scale: float = 0.05, zero_point: int = 0) -> Var:
    """A tensor of quantized integers, or of floats."""
    if dtype == "f32":
        return Var(TensorType(shape, DType.f32))
    return Var(TensorType(shape, DType(dtype), Quantization((scale,), (zero_point,))))


def constant(array: np.ndarray, scale: Any, zero_point: int = 0, axis: int = 0) -> Const:
    """Integers with one scale or one for each index of an axis."""
    scales = tuple(float(s) for s in np.atleast_1d(scale))
    return Const(array, quantization=Quantization(scales, (zero_point,) * len(scales), axis))


def one(op: TflOp, operands: Sequence[Any], *results: Var, **options: Any) -> Graph:
    """The graph of one equation."""
    return graph_of(apply(op, operands, *results, **options))


def graph_of(*eqns: Eqn) -> Graph:
    """The graph of equations, whose outputs are the results of the last one."""
    made = {var for eqn in eqns for var in eqn.outputs}
    read = dict.fromkeys(a for e in eqns for a in e.inputs if isinstance(a, Var) and a not in made)
    return Graph("main", tuple(read), eqns, eqns[-1].outputs)


def file_of(graph: Graph, states: int = 0) -> bytes:
    """The .tflite file. The last so many inputs and outputs are states that an operator keeps."""
    plain = graph.inputs[: len(graph.inputs) - states]
    names = tuple(f"x{i}" for i in range(len(plain))), tuple(f"y{i}" for i in range(len(graph.outputs) - states))
    kept = tuple(State(f"s{i}", Const(array), "tensor") for i, array in enumerate(first_states(graph, states)))
    return to_bytes(Program((Signature("serving_default", graph, *names, kept),)))


def first_states(graph: Graph, states: int) -> list[np.ndarray]:
    """What stands for real zeros in the last inputs."""
    held = graph.inputs[len(graph.inputs) - states :] if states else ()
    zeros = [v.type.quantization.zero_point[0] for v in held]  # type: ignore[union-attr]
    return [np.full(_shape(v), zero, v.type.dtype.numpy) for v, zero in zip(held, zeros, strict=True)]


def need_runtime(rounding: Rounding) -> None:
    """Skip a test where the runtime of a rounding is not installed."""
    if rounding == "tflm":
        pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    if rounding == "arm64" and (missing := emulated.why_missing()):
        pytest.skip(missing)


def in_runtime(data: bytes, rounding: Rounding, calls: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    """The outputs of calls of a file in the runtime that a rounding is named after, without its variables."""
    if rounding == "tflm":
        return _in_micro(data, calls)
    if rounding == "arm64":
        return _on_arm64(data, calls)
    interpreter = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=_RESOLVERS[rounding])
    interpreter.allocate_tensors()
    found = []
    for call in calls:
        for detail, array in zip(interpreter.get_input_details(), call, strict=True):
            interpreter.set_tensor(detail["index"], array)
        interpreter.invoke()
        found.append([interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details()])
    return found


def _in_micro(data: bytes, calls: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    from tflite_micro.python.tflite_micro import runtime

    interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    count, found = 1, []
    for call in calls:
        for i, array in enumerate(call):
            interpreter.set_input(array, i)
        interpreter.invoke()
        found.append([np.array(interpreter.get_output(i)) for i in range(count)])
    return found


def _on_arm64(data: bytes, calls: Sequence[Sequence[np.ndarray]]) -> list[list[np.ndarray]]:
    lite = LiteRt(data, limits=Limits(seconds=600), device=Device(emulated.command("cortex-a76")))
    ((key, (names, outputs)),) = lite.signatures().items()
    answers = (lite.run(key, dict(zip(sorted(names), call, strict=True))) for call in calls)
    return [[answer[name] for name in sorted(outputs)] for answer in answers]


def on_xla(
    graph: Graph, rounding: Rounding, calls: Sequence[Sequence[np.ndarray]], states: int = 0
) -> list[list[np.ndarray]]:
    """The outputs of calls by integer bodies alone, each from the states that the one before left."""
    runner = Runner(graph, quick=True, integers=rounding)
    assert not runner.hosted, f"LiteRT computes {runner.hosted}"
    held, found, count = first_states(graph, states), [], len(graph.outputs) - states
    for call in calls:
        results = list(runner([*call, *held]))
        found.append(results[:count])
        held = results[count:]
    return found


def drawn(rng: np.random.Generator, graph: Graph, states: int = 0) -> list[list[np.ndarray]]:
    """Calls with random integers of the whole range, with the least and with the greatest ones alone."""
    inputs = graph.inputs[: len(graph.inputs) - states]
    random = [[_random(rng, v) for v in inputs] for _ in range(3 if states else 1)]
    return [*random, *([_filled(v, end) for v in inputs] for end in ("min", "max"))]


def _shape(var: Var) -> list[int]:
    return [int(d) for d in var.type.shape]


def _random(rng: np.random.Generator, var: Var) -> np.ndarray:
    dtype = var.type.dtype.numpy
    if dtype.kind == "f":
        return np.asarray(rng.standard_normal(_shape(var)) * rng.choice([0.1, 1, 10])).astype(dtype)
    least, greatest = np.iinfo(dtype).min, np.iinfo(dtype).max
    return np.asarray(rng.integers(least, greatest, _shape(var), endpoint=True)).astype(dtype)


def _filled(var: Var, end: str) -> np.ndarray:
    dtype = var.type.dtype.numpy
    value = {"min": -1e4, "max": 1e4}[end] if dtype.kind == "f" else getattr(np.iinfo(dtype), end)
    return np.full(_shape(var), value, dtype)
