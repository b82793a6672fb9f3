"""What is left of scans and reserved lists, spelled in builtins: WHILE, and zeros of a shape that is computed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, is_known, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan, scan_parts, while_
from jfuse.kernels.lists import reserve
from jfuse.lowering.shapes import size_tensor, zeros
from jfuse.passes.context import Context
from jfuse.passes.rewrite import inline, rewrite, with_bodies


def unloop(graph: Graph, ctx: Context) -> Graph:
    """An equal graph without `scan` and `reserve`, in bodies too."""
    return _unlooped(graph, {})


def _unlooped(graph: Graph, done: dict[Graph, Graph]) -> Graph:
    """done: what came out for each body so far, so that equations that share one go on sharing it."""
    if graph not in done:
        inner = with_bodies(graph, lambda body: _unlooped(body, done))
        done[graph] = rewrite(inner, _Homes(inner.inputs).visit)
    return done[graph]


class _Homes:
    """For each symbol the first Var of the graph that has it as a dimension: where its size is read at run time."""

    def __init__(self, inputs: Sequence[Var]) -> None:
        self._found: dict[str, Var] = {}
        self.add(inputs)

    def add(self, variables: Sequence[Var]) -> None:
        for var in variables:
            for dim in var.type.shape:
                if not is_known(dim):
                    self._found.setdefault(str(dim), var)

    def of(self, *shapes: Sequence[Dim]) -> list[Var]:
        """Where to find the sizes of these shapes."""
        open_ = [d for shape in shapes for d in shape if not is_known(d)]
        names = {str(d): None for d in open_} | {n: None for d in open_ for n in sorted(symbols_of(d))}
        return list({self._found[n]: None for n in names if n in self._found})

    def visit(self, eqn: Eqn) -> Sequence[Any] | None:
        """The equation in builtins; None where it is one already."""
        results: Sequence[Any] | None = None
        if eqn.op is reserve:
            shape = eqn.outputs[0].type.shape
            results = (zeros(shape, eqn.params["dtype"], self.of(shape)),)
        elif eqn.op is scan:
            results = _while_of(_Scan.of(eqn), self)
        self.add(eqn.outputs)
        return results


@dataclass(frozen=True)
class _Scan:
    """A scan equation by its parts."""

    eqn: Eqn
    body: Graph
    consts: tuple[Atom, ...]
    carries: tuple[Atom, ...]
    xs: tuple[Atom, ...]
    stacked: tuple[TensorType, ...]

    @classmethod
    def of(cls, eqn: Eqn) -> _Scan:
        consts, carries, xs = (tuple(part) for part in scan_parts(eqn.inputs, eqn.params))
        stacked = tuple(out.type for out in eqn.outputs[len(carries) :])
        return cls(eqn, eqn.bodies[0], consts, carries, xs, stacked)

    @property
    def length(self) -> Dim:
        return self.eqn.params["length"]


def _while_of(loop: _Scan, homes: _Homes) -> Sequence[Atom]:
    """WHILE over (counter, carries, stacked results, then whatever the steps read but never change)."""
    trace = active_trace()
    if is_known(loop.length) and loop.length == 0:
        return [*loop.carries, *(_atom(zeros(t.shape, t.dtype, homes.of(t.shape))) for t in loop.stacked)]
    length = size_tensor(loop.length, homes.of([loop.length]))
    start, limit, step = (_atom(v) for v in _counting(length, loop.eqn.params["reverse"]))
    stacks = [_empty_stack(t, homes) for t in loop.stacked]
    moving = [start, *loop.carries, *stacks]
    # Bound in the bodies a constant is one buffer of the file; carried, it would be copied from turn to turn.
    still = list(dict.fromkeys(a for a in (limit, *loop.consts, *loop.xs) if isinstance(a, Var)))
    types = [a.type for a in (*moving, *still)]

    def condition(counter: Any, *values: Any) -> Any:
        return ops.not_equal(counter, _lookup(limit, still, values))

    def turn(index: Any, *values: Any) -> tuple[Any, ...]:
        consts = [_lookup(a, still, values) for a in loop.consts]
        rows = [_atom(ops.gather(_lookup(x, still, values), index, axis=0)) for x in loop.xs]
        count = len(loop.carries)
        results = inline(loop.body, [*consts, *values[:count], *rows])
        written = _with_rows(values[count : len(moving) - 1], results[count:], index)
        return (ops.add(index, step), *results[:count], *written, *values[len(moving) - 1 :])

    bodies = trace_graph(condition, types, "cond"), trace_graph(turn, types, "body")
    results = trace.append(while_, [*moving, *still], types, {}, bodies)[1 : len(moving)]
    finals, filled = results[: len(loop.carries)], results[len(loop.carries) :]
    return [*finals, *map(_filled_stack, filled, loop.stacked)]


def _empty_stack(stacked: TensorType, homes: _Homes) -> Atom:
    """Zeros in which the steps write their rows, with one row more where there may be no step at all.

    The runtime prepares the body even of a loop that never turns, and there a row must fit in.
    """
    length, *row = stacked.shape
    shape = (length if is_known(length) else length + 1, *row)
    return _atom(zeros(shape, stacked.dtype, homes.of(shape)))


def _filled_stack(stack: Atom, stacked: TensorType) -> Atom:
    """The stack without the row that was only there for room."""
    if is_known(stacked.shape[0]):
        return stack
    begin, end = np.zeros(1, np.int32), np.full(1, -1, np.int32)
    return _atom(ops.strided_slice(stack, begin, end, np.ones(1, np.int32), begin_mask=1))


def _counting(length: Any, reverse: bool) -> tuple[Any, Any, Any]:
    """Where the counter starts, at which value the loop is over, and the step: the counter is the index of the step."""
    zero, one = np.zeros((), np.int32), np.ones((), np.int32)
    return (ops.sub(length, one), -one, -one) if reverse else (zero, length, one)


def _lookup(atom: Atom, still: Sequence[Atom], values: Sequence[Any]) -> Any:
    """What stands for an unchanging operand in the body: one of the last values, or the constant itself."""
    return values[len(values) - len(still) + still.index(atom)] if isinstance(atom, Var) else atom


def _with_rows(stacks: Sequence[Atom], rows: Sequence[Atom], index: Any) -> list[Any]:
    """The stacks with one row of each written at index."""
    starts: dict[int, Any] = {}
    written = []
    for stack, row in zip(stacks, rows, strict=True):
        rank = stack.type.rank
        if rank not in starts:
            places = [ops.reshape(index, (1,)), np.zeros(rank - 1, np.int32)]
            starts[rank] = ops.concatenation(*places, axis=0) if rank > 1 else places[0]
        written.append(ops.dynamic_update_slice(stack, ops.expand_dims(row, 0), starts[rank]))
    return written


def _atom(value: Any) -> Atom:
    return value if isinstance(value, Var | Const) else active_trace().constant(np.asarray(value))
