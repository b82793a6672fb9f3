"""Moves input projections that run before a loop, on all steps at once, back into the step, so that cells are found.

PyTorch's recurrent layers, and whoever writes for speed, multiply the whole sequence by the input weights first. A cell
that is recovered without them would read sequences of all its gates, through weights that only select.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.walk import producers, use_counts, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan, scan_parts
from jfuse.passes.rewrite import inline, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code

_MOST_MOVES = 8
_MOST_ELEMENTS = 1 << 24  # of a sequence, whose elements are numbered to see where they go


def projections_inside(graph: Graph) -> Graph:
    """An equal graph in which scans compute what FULLY_CONNECTED made of their sequences, in bodies too.

    Only where the rows that it reads are no longer than those that it gives, and nothing else reads these. What stays a
    loop has it before all steps again: `scan_to_loops` takes out of loops what carries nothing.
    """
    graph = with_bodies(graph, projections_inside)
    if not any(eqn.op is scan for eqn in graph.eqns):
        return graph
    graph = eliminate_dead_code(graph)  # a step that was taken back into its loop would go on reading
    made, counts = producers(graph), use_counts(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not scan:
            return None
        consts, carries, xs = scan_parts(eqn.inputs, eqn.params)
        projections = [_projection(x, made, counts) for x in xs]
        return _with_products(eqn, [*consts, *carries], list(xs), projections) if any(projections) else None

    changed = rewrite(graph, visit)
    return graph if changed is graph else eliminate_dead_code(changed)


@dataclass(frozen=True)
class _Projection:
    """A sequence that is FULLY_CONNECTED of another one, then moved: `moves` in their order."""

    product: Eqn
    moves: tuple[Eqn, ...]

    def rows(self) -> Any:
        """The sequence that is multiplied, moved as its product was; recorded in the active trace."""
        (x, weights, _) = self.product.inputs
        assert x is not None
        assert weights is not None
        moved: Any = x
        for move in self.moves:
            moved = _moved(move, moved, (*move.outputs[0].type.shape[:-1], weights.shape[1]))
        return moved

    def of_row(self, row: Any) -> Any:
        """The product of one row; recorded in the active trace."""
        _, weights, bias = self.product.inputs
        return ops.fully_connected(row, weights, bias, keep_num_dims=row.type.rank != 2)


def _projection(x: Atom | None, made: Mapping[Var, Eqn], counts: Mapping[Var, int]) -> _Projection | None:
    moves: list[Eqn] = []
    while isinstance(x, Var) and counts[x] == 1 and x in made and len(moves) <= _MOST_MOVES:
        eqn = made[x]
        if eqn.op.product == "matrices":
            return _projected(eqn, moves[::-1])
        if not _moves_rows(eqn, eqn.inputs[0].type.shape[-1:] if eqn.inputs[0] is not None else ()):
            return None
        moves.append(eqn)
        x = eqn.inputs[0]
    return None


def _projected(eqn: Eqn, moves: Sequence[Eqn]) -> _Projection | None:
    """The projection that an equation is, where each of the moves does the same to the rows that it multiplies."""
    x, weights, *_ = eqn.inputs
    if eqn.params.get("weights_format") != "DEFAULT" or eqn.params["fused_activation_function"] != "NONE":
        return None
    if x is None or not all(isinstance(a, Const | None) for a in eqn.inputs[1:]) or not isinstance(weights, Const):
        return None
    is_fixed = all(map(is_known, x.type.shape)) and x.type.shape[:-1] == eqn.outputs[0].type.shape[:-1]
    narrow = weights.type.dtype is x.type.dtype and x.type.dtype.is_float and weights.shape[1] <= weights.shape[0]
    fits = is_fixed and narrow and all(_moves_rows(move, weights.shape[1:]) for move in moves)
    return _Projection(eqn, tuple(moves)) if fits else None


def _moves_rows(eqn: Eqn, width: Sequence[Any]) -> bool:
    """Whether an equation moves rows of this width as it moves its own, elements of the last axis side by side."""
    x, out = eqn.inputs[0], eqn.outputs[0]
    if eqn.op.moves not in ("renames", "permutes", "takes") or any(isinstance(a, Var) for a in eqn.inputs[1:]):
        return False
    if x is None or not (x.type.is_static and out.type.is_static) or x.type.rank < 2 or out.type.rank < 2:
        return False
    if out.type.shape[-1] != x.type.shape[-1] or prod(map(int, x.type.shape)) > _MOST_ELEMENTS:
        return False
    moved_rows = []
    for size in (int(x.type.shape[-1]), int(width[0])):
        numbers = np.arange(prod(map(int, x.type.shape[:-1])) * size, dtype=np.int64)
        shape = (*out.type.shape[:-1], size)
        try:
            moved = np.asarray(_moved(eqn, numbers.reshape(*x.type.shape[:-1], size), shape))
        except (JfuseError, ValueError, IndexError):
            return False
        if moved.shape != shape or (moved % size != np.arange(size)).any():
            return False
        moved_rows.append(moved[..., 0] // size)
    return bool((moved_rows[0] == moved_rows[1]).all())


def _moved(eqn: Eqn, x: Any, shape: Sequence[Any]) -> Any:
    """Apply the equation to another operand; the result has this shape."""
    if eqn.op.moves == "renames":
        return ops.reshape(x, np.array(shape, np.int32))
    return eqn.op.run([x, *(a.array if isinstance(a, Const) else a for a in eqn.inputs[1:])], eqn.params, ())[0]


def _with_products(
    eqn: Eqn, before: Sequence[Atom | None], xs: list[Any], projections: Sequence[_Projection | None]
) -> Sequence[Any]:
    """The scan with the products of some of its sequences in its step."""
    (body,) = eqn.bodies
    first = len(before)

    def step(*args: Any) -> Sequence[Any]:
        rows = [row if p is None else p.of_row(row) for row, p in zip(args[first:], projections, strict=True)]
        return inline(body, [*args[:first], *map(as_atom, rows)])

    sequences = [x if p is None else p.rows() for x, p in zip(xs, projections, strict=True)]
    types = [v.type for v in body.inputs[:first]]
    types += [v.type if p is None else _row_type(v, p) for v, p in zip(body.inputs[first:], projections, strict=True)]
    new = trace_graph(step, [Var(t) for t in types], name=body.name)
    results: Sequence[Any] = eqn.op.run([*before, *sequences], eqn.params, (new,))
    return results


def _row_type(row: Var, projection: _Projection) -> Any:
    weights = projection.product.inputs[1]
    assert weights is not None
    return type(row.type)((*row.type.shape[:-1], weights.shape[1]), row.type.dtype)
