"""A scan written in builtins: straight-line code, or WHILE with one or several steps in a turn."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, as_atom, trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.control import scan_parts, while_
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.passes.rewrite import inline
from jfuse.passes.scans.to_loops.loop_cost import LoopSpelling
from jfuse.passes.scans.to_loops.run_time_zeros import Homes, empty

Place: TypeAlias = int | Var
"""The index of a step: a number, or an i32[] of the file."""


@dataclass(frozen=True)
class Loop:
    """A scan equation by its parts; `collected` are the types of its stacked results."""

    eqn: Eqn
    body: Graph
    consts: tuple[Atom, ...]
    carries: tuple[Atom, ...]
    xs: tuple[Atom, ...]
    collected: tuple[TensorType, ...]

    @classmethod
    def of(cls, eqn: Eqn) -> Loop:
        """Take a scan equation apart into constants, carries, sequences and stacked results."""
        consts, carries, xs = (tuple(part) for part in scan_parts(eqn.inputs, eqn.params))
        return cls(eqn, eqn.bodies[0], consts, carries, xs, tuple(o.type for o in eqn.outputs[len(carries) :]))

    @property
    def length(self) -> Dim:
        """The number of steps that the scan takes: an int, or an expression of open sizes."""
        return self.eqn.params["length"]

    @property
    def reverse(self) -> bool:
        """Whether the last step comes first."""
        return bool(self.eqn.params["reverse"])

    def in_order(self, count: int) -> Sequence[int]:
        """The indices of `count` steps in the order in which they are taken."""
        return range(count)[::-1] if self.reverse else range(count)

    def steps(
        self, consts: Sequence[Atom], carries: Sequence[Atom], columns: Sequence[Sequence[Atom]], count: int
    ) -> tuple[list[Atom], list[list[Atom]]]:
        """Record `count` steps side by side: the new carries, and for each collected result its rows by index.

        columns: for each step input its rows, by index.
        """
        rows: dict[int, Sequence[Atom]] = {}
        for i in self.in_order(count):
            results = inline(self.body, [*consts, *carries, *(column[i] for column in columns)])
            carries, rows[i] = results[: len(carries)], results[len(carries) :]
        return list(carries), [[rows[i][k] for i in range(count)] for k in range(len(self.collected))]


def written(loop: Loop, form: LoopSpelling, homes: Homes) -> Sequence[Atom]:
    """The results of a scan, recorded in the active trace in the given form."""
    length = loop.length
    if is_known(length) and length == 0:
        return [*loop.carries, *(empty(t.shape, t.dtype, homes) for t in loop.collected)]
    if form.unrolled:
        return _straight(loop, int(length))
    return _turning(loop, form.within(length), homes)


def _straight(loop: Loop, length: int) -> Sequence[Atom]:
    columns = [_rows(x, length) for x in loop.xs]
    carries, collected = loop.steps(loop.consts, loop.carries, columns, length)
    return [*carries, *map(_stacked, collected)]


def _rows(x: Atom, count: int) -> Sequence[Atom]:
    """The rows of a sequence; of a constant one as constants."""
    if isinstance(x, Const):
        return [Const(row) for row in x.array]
    return [as_atom(ops.squeeze(x, squeeze_dims=(0,)))] if count == 1 else unpacked(x)


def _stacked(rows: Sequence[Atom]) -> Atom:
    """Rows as one tensor, along a new first axis."""
    return as_atom(ops.expand_dims(rows[0], 0) if len(rows) == 1 else ops.pack(*rows, axis=0))


def _turning(loop: Loop, form: LoopSpelling, homes: Homes) -> Sequence[Atom]:
    """WHILE loops: one of whole turns, or of blocks of them, then what is left over."""
    length = loop.length
    left = length % form.steps
    # What is left over comes last, so backwards it has the first indices.
    whole = length - left
    main, tail = ((left, length), (0, left)) if loop.reverse else ((0, whole), (whole, length))

    def span(low: Dim, high: Dim) -> _Span:
        return _Span(*(_place(size_tensor(dim, homes.of([dim]))) for dim in (low, high)))

    state: _State = list(loop.carries), [_stack(t, form, homes) for t in loop.collected]
    if form.block:
        count = (whole + form.block - 1) // form.block
        state = _blocks(loop, form, span(*main), span(main[0], main[0] + count * form.block), state)
    else:
        state = _turns(loop, form, span(*main), state)
    if not is_known(left):
        state = _turns(loop, LoopSpelling(), span(*tail), state)
    elif left:
        state = _tail(loop, int(tail[0]), int(tail[1]), state)
    carries, stacks = state
    return [*carries, *(_filled(stack, _room(t, form)) for stack, t in zip(stacks, loop.collected, strict=True))]


_State: TypeAlias = tuple[list[Atom], list[Atom]]
"""The carries, and the stacks that collect results."""


@dataclass(frozen=True)
class _Span:
    """The steps from `low` up to `high`."""

    low: Place
    high: Place

    def route(self, stride: int, reverse: bool) -> tuple[Place, Place, int]:
        """The first index, the one at which it is over, and the step, where a turn takes `stride` indices from one."""
        if reverse:
            return _less(self.high, stride), _less(self.low, stride), -stride
        return self.low, self.high, stride


def _stack(collected: TensorType, form: LoopSpelling, homes: Homes) -> Atom:
    """Room in which the steps write their rows."""
    return empty(collected.shape, collected.dtype, homes, more=_room(collected, form))


def _room(collected: TensorType, form: LoopSpelling) -> int:
    """How many more rows a stack has, as a turn may reach beyond the last step.

    The runtime prepares the body even of a loop that never turns, and there the rows of a turn must fit in.
    """
    length = collected.shape[0]
    if is_known(length):
        return int(-(length - length % form.steps) % form.block if form.block else 0)
    return form.block or form.steps


def _filled(stack: Atom, room: int) -> Atom:
    """The stack without the rows that were only there for room."""
    if not room:
        return stack
    begin, end = np.zeros(1, np.int32), np.full(1, -room, np.int32)
    return as_atom(ops.strided_slice(stack, begin, end, np.ones(1, np.int32), begin_mask=1))


def _tail(loop: Loop, low: int, high: int, state: _State) -> _State:
    """The steps from low up to high after a loop, straight-line."""
    carries, stacks = state
    columns = [[as_atom(ops.gather(x, np.int32(i), axis=0)) for i in range(low, high)] for x in loop.xs]
    carries, rows = loop.steps(loop.consts, carries, columns, high - low)
    return carries, _with_rows(stacks, rows, {rank: _start(low, rank) for rank in _ranks(stacks)})


def _turns(loop: Loop, form: LoopSpelling, span: _Span, state: _State) -> _State:
    """WHILE over the steps in a span, some in each turn."""

    def turn(index: Any, starts: Mapping[int, Any], inner: Loop, state: _State) -> _State:
        columns = _columns(inner.xs, index, form.steps)
        carries, rows = inner.steps(inner.consts, state[0], columns, form.steps)
        return carries, _with_rows(state[1], rows, starts)

    return _while(loop, span.route(form.steps, loop.reverse), state, turn)


def _blocks(loop: Loop, form: LoopSpelling, span: _Span, blocks: _Span, state: _State) -> _State:
    """WHILE over blocks of steps, in each of them WHILE over its turns.

    The stack of a block is short, and the long one is copied only once for each block. Blocks are counted from the low
    end; the highest one may be cut short, in either direction.
    span: the steps; blocks: the same from the first step of the first block to behind the last step of the last one.
    """
    block, is_cut = form.block, span.high != blocks.high
    bounded = replace(loop, consts=(*loop.consts, as_atom(_value_of(span.high))))

    def turn(base: Any, starts: Mapping[int, Any], inner: Loop, state: _State) -> _State:
        *consts, high = inner.consts
        steps: Place = block
        places = ops.add(ops.reshape(base, (1,)), np.arange(block, dtype=np.int32))
        if is_cut:
            steps = ops.minimum(ops.sub(high, base), np.int32(block))
            places = ops.minimum(places, ops.sub(high, np.int32(1)))
        xs = tuple(as_atom(ops.gather(x, places, axis=0)) for x in inner.xs)
        room = [as_atom(_first_rows(stack, block)) for stack in state[1]]
        part = replace(inner, consts=tuple(consts), xs=xs)
        carries, filled = _turns(part, form, _Span(0, steps), (state[0], room))
        pairs = zip(state[1], filled, strict=True)
        return carries, [as_atom(ops.dynamic_update_slice(s, f, starts[s.type.rank])) for s, f in pairs]

    return _while(bounded, blocks.route(block, loop.reverse), state, turn)


def _first_rows(stack: Atom, count: int) -> Any:
    """The first rows of a stack, as room for the rows of a block."""
    begin, end = np.zeros(1, np.int32), np.full(1, count, np.int32)
    return ops.strided_slice(stack, begin, end, np.ones(1, np.int32))


_Turn: TypeAlias = Callable[[Any, Mapping[int, Any], Loop, _State], _State]
"""Called with the index of a turn, where its rows go by rank, the loop with operands of the body, and the state."""


def _while(loop: Loop, route: tuple[Place, Place, int], state: _State, turn: _Turn) -> _State:
    """WHILE over (index, starts, carries, stacks, then what the steps read but never change).

    route: the first index, the one at which it is over, and the step. The index is the lowest one of a turn's steps.
    The starts say the same as DYNAMIC_UPDATE_SLICE wants it, for each rank: carried, it costs one operator a turn; made
    from the index, two.
    """
    carries, stacks = state
    first, end, stride = route
    ranks = _ranks(stacks)
    limit = as_atom(_value_of(end))
    moving = [as_atom(_value_of(first)), *(as_atom(_start(first, rank)) for rank in ranks), *carries, *stacks]
    # Bound in the bodies a constant is one buffer of the file; carried, it would be a tensor of each graph.
    still = list(dict.fromkeys(a for a in (limit, *loop.consts, *loop.xs) if isinstance(a, Var)))
    types = [a.type for a in (*moving, *still)]

    def condition(index: Any, *values: Any) -> Any:
        return ops.not_equal(index, _lookup(limit, still, values))

    def body(index: Any, *values: Any) -> tuple[Any, ...]:
        consts, xs = (tuple(_lookup(a, still, values) for a in part) for part in (loop.consts, loop.xs))
        starts = dict(zip(ranks, values, strict=False))
        old = _parts(values[len(ranks) :], len(carries), len(stacks))
        new, filled = turn(index, starts, replace(loop, consts=consts, xs=xs), old)
        moved = [ops.add(start, _start(stride, rank)) for rank, start in starts.items()]
        return (ops.add(index, np.int32(stride)), *moved, *new, *filled, *values[len(moving) - 1 :])

    bodies = trace_graph(condition, types, "cond"), trace_graph(body, types, "body")
    results = active_trace().append(while_, [*moving, *still], types, {}, bodies)
    return _parts(results[1 + len(ranks) :], len(carries), len(stacks))


def _columns(xs: Sequence[Any], index: Any, steps: int) -> list[Sequence[Atom]]:
    """The rows that a turn reads, for each sequence."""
    if not xs:
        return []
    if steps == 1:
        return [[as_atom(ops.gather(x, index, axis=0))] for x in xs]
    places = ops.add(ops.reshape(index, (1,)), np.arange(steps, dtype=np.int32))
    return [unpacked(ops.gather(x, places, axis=0)) for x in xs]


def _with_rows(stacks: Sequence[Atom], rows: Sequence[Sequence[Atom]], starts: Mapping[int, Any]) -> list[Atom]:
    """The stacks with the rows of some steps written where `starts` has it for each rank."""
    pairs = zip(stacks, rows, strict=True)
    return [as_atom(ops.dynamic_update_slice(s, _stacked(r), starts[s.type.rank])) for s, r in pairs]


def _ranks(stacks: Sequence[Atom]) -> list[int]:
    return sorted({stack.type.rank for stack in stacks})


def _start(index: Place, rank: int) -> Any:
    """Where a row begins in a stack: (index, 0, …).   i32[rank]"""
    if isinstance(index, int):
        return np.array([index] + [0] * (rank - 1), np.int32)
    place = ops.reshape(index, (1,))
    return ops.concatenation(place, np.zeros(rank - 1, np.int32), axis=0) if rank > 1 else place


def _lookup(atom: Atom, still: Sequence[Atom], values: Sequence[Any]) -> Any:
    """Return an unchanging operand as the body reads it: one of the last values, or the constant itself."""
    return values[len(values) - len(still) + still.index(atom)] if isinstance(atom, Var) else atom


def _parts(values: Sequence[Atom], carries: int, stacks: int) -> _State:
    return list(values[:carries]), list(values[carries : carries + stacks])


def _place(size: Any) -> Place:
    return size if isinstance(size, Var) else int(size)


def _less(place: Place, other: Place) -> Place:
    if isinstance(place, int) and isinstance(other, int):
        return place - other
    difference = ops.sub(_value_of(place), _value_of(other))
    return difference if isinstance(difference, Var) else int(difference)


def _value_of(place: Place) -> Any:
    return np.asarray(place, np.int32) if isinstance(place, int) else place
