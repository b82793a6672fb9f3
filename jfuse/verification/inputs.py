"""Inputs for comparisons: seeded draws at several scales, with sizes for the dimensions that are open."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from jfuse.ir.dims import Dim, is_known, substitute_dim, symbols_of
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Signature, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops

_SCALES = (1.0, 0.1, 4.0)
_LARGEST_INTEGER = 100  # for integer inputs that index nothing
_PASS_ON: dict[Op, tuple[int, ...]] = {
    **dict.fromkeys((ops.cast, ops.reshape, ops.expand_dims, ops.squeeze, ops.transpose, ops.strided_slice), (0,)),
    **{ops.gather: (0,), ops.select: (1, 2), ops.select_v2: (1, 2)},
}
"""The operands whose entries are the entries of an op's result."""


def size_choices(graph: Graph) -> list[dict[str, int]]:
    """Two independent sizes for each open dimension, 1 among them; a single empty choice where all is static."""
    symbols = sorted({s for v in graph.inputs for d in v.type.shape for s in symbols_of(d)})
    if not symbols:
        return [{}]
    return [{s: 3 + i for i, s in enumerate(symbols)}, {s: 1 + i for i, s in enumerate(symbols)}]


def draws(signature: Signature, sizes: Mapping[str, int], seed: int, count: int = 3) -> Iterator[dict[str, np.ndarray]]:
    """`count` sets of inputs by name, each at another scale."""
    limits = integer_limits(signature.graph)
    generator = np.random.default_rng(seed)
    for number in range(count):
        scale = _SCALES[number % len(_SCALES)]
        yield {
            name: draw(generator, var.type, sizes, scale, limits.get(var, _LARGEST_INTEGER))
            for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)  # states come last
        }


def draw(
    generator: np.random.Generator, of: TensorType, sizes: Mapping[str, int], scale: float, limit: int
) -> np.ndarray:
    """One array: floats normal with standard deviation `scale`, integers in [0, limit), bools and short texts."""
    shape = concrete(of.shape, sizes)
    if of.dtype is DType.string:
        words = np.array([b"", b"a", b"jfuse", "größe".encode()], object)
        return np.asarray(words[generator.integers(0, len(words), shape)], object)
    if of.dtype is DType.bool:
        return generator.integers(0, 2, shape).astype(np.bool_)
    if of.dtype.is_integer:
        return generator.integers(0, limit, shape).astype(of.dtype.numpy)
    return (generator.standard_normal(shape) * scale).astype(of.dtype.numpy)


def concrete(shape: Sequence[Dim], sizes: Mapping[str, int]) -> tuple[int, ...]:
    """A shape with sizes put in for its symbols."""
    dims = [substitute_dim(d, sizes) for d in shape]
    assert all(is_known(d) for d in dims)
    return tuple(int(d) for d in dims)


def integer_limits(graph: Graph) -> dict[Var, int]:
    """For each integer input, the size of the smallest table that it indexes: ids beyond it are errors, not values."""
    limits: dict[Var, int] = {}

    def lower(atom: Atom | None, limit: int) -> None:
        if isinstance(atom, Var):
            limits[atom] = min(limit, limits.get(atom, limit))

    for eqn in reversed(graph.eqns):
        for table, ids in _lookups(eqn):
            lower(ids, table)
        for body in eqn.bodies:
            operands = dict(zip(body.inputs, eqn.inputs[-len(body.inputs) :], strict=False))
            for var, limit in integer_limits(body).items():
                lower(operands.get(var), limit)
        known = [limits[o] for o in eqn.outputs if o in limits]
        for position in _PASS_ON.get(eqn.op, ()) if known else ():
            lower(eqn.inputs[position], min(known))
    return {v: limits[v] for v in graph.inputs if v in limits}


def _lookups(eqn: Eqn) -> Iterator[tuple[int, Atom | None]]:
    """The sizes of the tables that an equation looks into, with the ids."""
    if eqn.op not in (ops.gather, ops.embedding_lookup):
        return
    table, ids = eqn.inputs if eqn.op is ops.gather else eqn.inputs[::-1]
    size = None if table is None else table.type.shape[eqn.params.get("axis", 0)]
    if size is not None and is_known(size):
        yield int(size), ids
