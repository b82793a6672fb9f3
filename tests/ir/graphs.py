"""Small graphs of real ops, and structural equality."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir import Atom, Const, DType, Graph, TensorType, Var, symbol, trace_graph
from jfuse.kernels import ops

B, T = symbol("B"), symbol("T")


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def i32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i32)


def weights(*shape: int, start: int = 0) -> np.ndarray:
    """Small whole numbers, so that sums of products are exact in every order of summation."""
    return ((np.arange(np.prod(shape, dtype=int)) + start) % 7 - 3).astype(np.float32).reshape(shape)


def recurrent(weight: np.ndarray) -> Graph:
    """h' = relu(h @ weight) - x over T steps, and the shape of the input."""

    def cell(h: Any, x: Any) -> tuple[Any, Any]:
        new = ops.sub(ops.relu(ops.batch_matmul(h, weight)), x)
        return new, new

    size = weight.shape[0]
    body = trace_graph(cell, [f32(B, size), f32(B, size)], "step")

    def main(h: Any, xs: Any) -> tuple[Any, ...]:
        return (*ops.scan([h, xs], [body], consts=0, carries=1, length=T), ops.shape(xs))

    return trace_graph(main, [f32(B, size), f32(T, B, size)])


def assert_same(found: Graph, wanted: Graph) -> None:
    """Equal ops, parameters, types, known values and constants, connected alike."""
    assert (found.name, len(found.eqns), len(found.inputs)) == (wanted.name, len(wanted.eqns), len(wanted.inputs))
    match: dict[Var, Var] = {}

    def same_vars(a: tuple[Var, ...], b: tuple[Var, ...]) -> None:
        assert [v.type for v in a] == [v.type for v in b]
        assert [known(v) for v in a] == [known(v) for v in b]
        match.update(zip(a, b, strict=True))

    def same_atoms(a: tuple[Atom | None, ...], b: tuple[Atom | None, ...]) -> None:
        assert [match[x] if isinstance(x, Var) else key(x) for x in a] == [
            x if isinstance(x, Var) else key(x) for x in b
        ]

    same_vars(found.inputs, wanted.inputs)
    for e, f in zip(found.eqns, wanted.eqns, strict=True):
        assert (e.op, repr(e.params), e.effects, str(e.source)) == (f.op, repr(f.params), f.effects, str(f.source))
        same_atoms(e.inputs, f.inputs)
        for body, other in zip(e.bodies, f.bodies, strict=True):
            assert_same(body, other)
        same_vars(e.outputs, f.outputs)
    same_atoms(found.outputs, wanted.outputs)


def known(var: Var) -> Any:
    return None if var.value is None else var.value.tolist()


def key(atom: Atom | None) -> str | None:
    return atom.digest if isinstance(atom, Const) else None
