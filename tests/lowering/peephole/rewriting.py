"""Rows of merge tests: a function of ops, what is left of it, and equal numbers before and after."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import same, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import producers, use_counts
from jfuse.lowering.peephole import PEEPHOLE_RULES
from jfuse.lowering.peephole.registry import why_not
from jfuse.passes.context import Context
from jfuse.passes.rewrite import Rewriting
from jfuse.passes.simplify.simplify import simplify
from jfuse.running.runner import Runner

B, T = symbol("B"), symbol("T")
SIZES = {"B": 3, "T": 5}


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def i32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i32)


def flags(*shape: Any) -> TensorType:
    return TensorType(shape, DType.bool)


def ints(*values: int) -> np.ndarray:
    return np.array(values, np.int32)


def floats(*shape: int) -> np.ndarray:
    return np.random.default_rng(7).standard_normal(shape).astype(np.float32)


@dataclass(frozen=True)
class Case:
    """A function, and the ops that are left of it."""

    name: str
    function: Callable[..., Any]
    inputs: tuple[TensorType, ...]
    left: tuple[str, ...]


def case(name: str, function: Callable[..., Any], *inputs: TensorType, left: str = "") -> Any:
    return pytest.param(Case(name, function, inputs, tuple(left.split())), id=name)


def check(item: Case, rtol: float = 1e-6) -> None:
    """The ops that are left, and equal numbers.

    rtol: beside the largest value. 1e-6: bias sums of up to three f32 terms in another order.
    """
    graph = trace_graph(item.function, item.inputs)
    simple = simplify(graph, Context())
    check_graph(simple)
    assert tuple(eqn.op.name for eqn in simple.eqns) == item.left
    for before, after in zip(graph.outputs, simple.outputs, strict=True):
        assert before.type.dtype is after.type.dtype
        assert all(same(d, e) for d, e in zip(before.type.shape, after.type.shape, strict=True))
    compare(graph, simple, rtol)


def compare(graph: Graph, simple: Graph, rtol: float) -> None:
    rng = np.random.default_rng(3)
    runs = [_run(simple), _run(graph)]
    for scale in (1, 5, 3e9):  # the last one beyond what f32 can say of an i32
        args = [draw(rng, var.type, scale) for var in graph.inputs]
        for found, wanted in zip(*(run(args) for run in runs), strict=True):
            largest = max(scale, np.abs(wanted).max(initial=0)) if rtol > 1e-6 else scale
            np.testing.assert_allclose(np.asarray(found), np.asarray(wanted), rtol=rtol, atol=rtol * largest)


_LONG = frozenset({"conv_2d", "depthwise_conv_2d", "transpose_conv", "max_pool_2d", "average_pool_2d"})


def _run(graph: Graph) -> Callable[[list[np.ndarray]], Sequence[Any]]:
    """The graph on arrays, op by op, as small ones are compiled already; in one quick program where that takes long."""
    if any(eqn.op.name in _LONG for eqn in graph.eqns):
        return Runner(graph, quick=True)
    return partial(evaluate, graph)


class GraphView:
    """A graph as rules see it."""

    def __init__(self, graph: Graph) -> None:
        self._made_by, self._reads, self._graph = producers(graph), use_counts(graph), graph

    def producer(self, atom: Atom | None, /) -> Eqn | None:
        return self._made_by.get(atom) if isinstance(atom, Var) else None

    def readers(self, atom: Atom, /) -> int:
        if isinstance(atom, Var):
            return self._reads[atom]
        operands = [a for e in self._graph.eqns for a in e.inputs if isinstance(a, Const)]
        return sum(a.memory == atom.memory for a in operands)

    def is_compared(self, atom: Atom, /) -> bool:
        return Rewriting(self._graph).is_compared(atom)

    def rounds_weights(self, eqn: Eqn, /) -> bool:
        return False


def refusals(function: Callable[..., Any], *inputs: TensorType) -> dict[str, list[str]]:
    """By rule, the conditions that it refuses the equations of a function by."""
    graph = trace_graph(function, inputs)
    found: dict[str, list[str]] = {}
    for eqn in graph.eqns:
        for rule, conditions in why_not(eqn, GraphView(graph), PEEPHOLE_RULES).items():
            found[rule] = found.get(rule, []) + conditions
    return found


def draw(rng: np.random.Generator, type_: TensorType, scale: float) -> np.ndarray:
    shape = tuple(SIZES.get(str(d), d) for d in type_.shape)
    values = rng.standard_normal(shape) * scale
    return values > 0 if type_.dtype is DType.bool else np.clip(values, -(2**31), 2**31 - 1).astype(type_.dtype.numpy)
