"""Input projections that stand before a loop, for all steps at once, go back into the step: a cell is known by them.

PyTorch's recurrent layers, and whoever writes for speed, multiply the whole sequence by the input weights first. A cell
that is recovered without them would read sequences of all its gates, through weights that only select.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import as_atom, trace_graph
from jfuse.ir.walk import producers, use_counts, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan, scan_parts
from jfuse.kernels.core.op import static_value
from jfuse.passes.rewrite import inline, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code

_MOST_MOVES = 8


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
        found = [_projection(x, made, counts) for x in xs]
        return _with_products(eqn, [*consts, *carries], list(xs), found) if any(found) else None

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
            operands = [a.array if isinstance(a, Const) else a for a in move.inputs[1:]]
            if move.op is ops.reshape:
                operands = [np.array([*(int(d) for d in move.outputs[0].type.shape[:-1]), weights.shape[1]], np.int32)]
            moved = move.op.run([moved, *operands], move.params, ())[0]
        return moved

    def of_row(self, row: Any) -> Any:
        """The product of one row; recorded in the active trace."""
        _, weights, bias = self.product.inputs
        return ops.fully_connected(row, weights, bias, keep_num_dims=row.type.rank != 2)


def _projection(x: Atom | None, made: Mapping[Var, Eqn], counts: Mapping[Var, int]) -> _Projection | None:
    moves: list[Eqn] = []
    while isinstance(x, Var) and counts[x] == 1 and x in made and len(moves) <= _MOST_MOVES:
        eqn = made[x]
        if eqn.op is ops.fully_connected:
            return _Projection(eqn, tuple(reversed(moves))) if _is_projection(eqn) else None
        if not _keeps_rows(eqn):
            return None
        moves.append(eqn)
        x = eqn.inputs[0]
    return None


def _is_projection(eqn: Eqn) -> bool:
    x, weights, bias = eqn.inputs
    params = eqn.params
    plain = params["fused_activation_function"] == "NONE" and params["weights_format"] == "DEFAULT"
    constant = isinstance(weights, Const) and (bias is None or isinstance(bias, Const))
    if not plain or not constant or weights is None or x is None or not x.type.dtype.is_float:
        return False
    static = all(map(is_known, (*x.type.shape, *eqn.outputs[0].type.shape)))
    narrow = weights.type.dtype is x.type.dtype and weights.shape[1] <= weights.shape[0]
    return static and narrow and x.type.shape[:-1] == eqn.outputs[0].type.shape[:-1]


def _keeps_rows(eqn: Eqn) -> bool:
    """Whether an equation moves whole rows: elements along the last axis stay side by side."""
    x, out = eqn.inputs[0], eqn.outputs[0]
    if x is None or x.type.rank < 2 or not out.type.rank or any(isinstance(a, Var) for a in eqn.inputs[1:]):
        return False
    last = x.type.rank - 1
    if eqn.op is ops.reshape:
        return bool(out.type.shape[-1] == x.type.shape[-1]) and out.type.is_static
    if eqn.op is ops.transpose:
        return _numbers(eqn.inputs[1])[-1:] == (last,)
    if eqn.op is ops.reverse_v2:
        return all(axis % (last + 1) != last for axis in _numbers(eqn.inputs[1]))
    shrinks = any(eqn.params.get(f"{name}_mask") for name in ("shrink_axis", "new_axis", "ellipsis"))
    return eqn.op is ops.strided_slice and not shrinks and len(_numbers(eqn.inputs[1])) <= last


def _numbers(atom: Atom | None) -> tuple[int, ...]:
    value = None if atom is None else static_value(atom)
    return value if isinstance(value, tuple) else ()


def _with_products(
    eqn: Eqn, before: Sequence[Atom | None], xs: list[Any], found: Sequence[_Projection | None]
) -> Sequence[Any]:
    """The scan with the products of some of its sequences in its step."""
    (body,) = eqn.bodies
    first = len(before)

    def step(*args: Any) -> Sequence[Any]:
        rows = [row if p is None else p.of_row(row) for row, p in zip(args[first:], found, strict=True)]
        return inline(body, [*args[:first], *map(as_atom, rows)])

    sequences = [x if p is None else p.rows() for x, p in zip(xs, found, strict=True)]
    types = [v.type for v in body.inputs[:first]]
    types += [v.type if p is None else _row_type(v, p) for v, p in zip(body.inputs[first:], found, strict=True)]
    new = trace_graph(step, [Var(t) for t in types], name=body.name)
    results: Sequence[Any] = eqn.op.run([*before, *sequences], eqn.params, (new,))
    return results


def _row_type(row: Var, projection: _Projection) -> Any:
    weights = projection.product.inputs[1]
    assert weights is not None
    return type(row.type)((*row.type.shape[:-1], weights.shape[1]), row.type.dtype)
