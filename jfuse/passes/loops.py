"""While loops that step once through sequences become `scan`; the frame is proven from structure alone.

A counter starts at 0 and grows by 1; the condition is `counter < T` and nothing else; sequences of length T are read at
the counter and written at the counter; nothing else in the body looks at the counter. What does not fit stays a while.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.errors import NotFused
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import live_eqns, producers, substitute_graph, use_counts
from jfuse.kernels import ops
from jfuse.kernels.control import scan, while_
from jfuse.kernels.op import static_value
from jfuse.lowering.rules import need
from jfuse.passes.context import Context
from jfuse.passes.rewrite import rewrite, with_bodies
from jfuse.report import Refusal


def loops(graph: Graph, ctx: Context) -> Graph:
    """Turn every while whose frame is that of a scan into one, in bodies as well. Results stay exactly the same."""
    graph = with_bodies(graph, lambda body: loops(body, ctx))

    def as_scan(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not while_:
            return None
        try:
            return _emit(_Frame.of(eqn, used), eqn)
        except NotFused as refusal:
            ctx.report.refused.append(Refusal.of(refusal, "loop", "loops", eqn.source))
            return None

    used = set(use_counts(graph))
    return rewrite(graph, as_scan)


@dataclass(frozen=True)
class _Read:
    """One sequence read at the counter: the carried position, the axis of time, and the Var that holds the step."""

    position: int
    axis: int
    step: Var


@dataclass(frozen=True)
class _Copy:
    """A carried value that is another one after each step, or that one with its shape changed by `maker`."""

    position: int
    maker: Eqn | None


@dataclass(frozen=True)
class _Frame:
    """What a while loop turned out to be. Numbers are positions among the carried values."""

    length: Dim
    counters: frozenset[int]
    reads: tuple[_Read, ...]
    aliases: dict[Var, Var]
    writes: dict[int, Var]  # position of the list -> what is written each step
    copies: dict[int, _Copy]  # values that no step reads -> the carry that they follow
    carries: tuple[int, ...]
    consts: tuple[int, ...]

    @classmethod
    def of(cls, eqn: Eqn, used: set[Var]) -> _Frame:
        """The frame of a while equation; raises NotFused with the condition that fails."""
        body = eqn.bodies[1]
        made = producers(body)
        counters = _counters(eqn, made)
        length = _trip_count(eqn, counters)
        positions = {var: i for i, var in enumerate(body.inputs)}
        reads, aliases = _reads(body, made, positions, counters, length)
        step = _without_reads(body, reads, aliases)
        invariant = {i for i, (a, b) in enumerate(zip(body.inputs, body.outputs, strict=True)) if a is b}
        others = [i for i in range(len(body.inputs)) if i not in invariant | counters]
        writes = {i: v for i in others if (v := _written(step, i, made, positions, counters, length)) is not None}
        rest = [i for i in others if i not in writes]
        needed = _read_positions(step, [step.outputs[i] for i in rest] + list(writes.values()), positions)
        copies = _copies(step, [i for i in rest if i in needed], [i for i in rest if i not in needed], length)
        need(not needed & counters, "counter_is_a_value", want="the step number only as an index")
        for i in counters:
            need(eqn.outputs[i] not in used or is_known(length), "counter_is_a_result", want="a loop of known length")
        carries = tuple(i for i in rest if i not in copies)
        return cls(length, counters, reads, aliases, writes, copies, carries, tuple(sorted(needed & invariant)))


def _counters(eqn: Eqn, made: dict[Var, Eqn]) -> frozenset[int]:
    body = eqn.bodies[1]
    found = set()
    for i, (var, out, start) in enumerate(zip(body.inputs, body.outputs, eqn.inputs, strict=True)):
        producer = made.get(out) if isinstance(out, Var) else None
        if producer is None or producer.op is not ops.add or var.type.rank != 0 or not var.type.dtype.is_integer:
            continue
        other = [a for a in producer.inputs if a is not var]
        if len(other) == 1 and _is_scalar(other[0], 1) and _is_scalar(start, 0):
            found.add(i)
    return frozenset(found)


def _is_scalar(atom: Atom | None, value: int) -> bool:
    return isinstance(atom, Const) and atom.array.size == 1 and int(atom.array.reshape(())) == value


def _trip_count(eqn: Eqn, counters: frozenset[int]) -> Dim:
    """How often the loop runs: the least limit among `counter < limit` conditions, which must be all there is."""
    cond = eqn.bodies[0]
    positions = {var: i for i, var in enumerate(cond.inputs)}
    limits: list[Dim] = []
    made = producers(cond)
    pending: list[Atom] = list(cond.outputs)
    while pending:
        atom = pending.pop()
        producer = made.get(atom) if isinstance(atom, Var) else None
        if producer is not None and producer.op is ops.logical_and:
            pending += [a for a in producer.inputs if a is not None]
            continue
        if isinstance(atom, Const) and bool(np.all(atom.array)):
            continue
        need(producer is not None and producer.op in (ops.less, ops.greater), "early_exit", want="counter < limit")
        assert producer is not None
        small, large = producer.inputs if producer.op is ops.less else producer.inputs[::-1]
        carried = isinstance(small, Var) and small in positions and small.type.dtype.is_integer
        need(carried, "early_exit", want="counter < limit", got=f"a condition on {small!r}")
        assert isinstance(small, Var)
        need(positions[small] in counters, "not_from_zero", want="a counter 0, 1, 2, …")
        limits.append(_limit(large))
    need(limits, "early_exit", want="counter < limit")
    return _least(limits)


def _limit(atom: Atom | None) -> Dim:
    value = None if atom is None else static_value(atom)
    need(value is not None, "trip_count_unknown", want="a number of steps that follows from shapes")
    while isinstance(value, tuple) and len(value) == 1:
        (value,) = value
    return value


def _least(limits: Sequence[Dim]) -> Dim:
    known = [int(limit) for limit in limits if is_known(limit)]
    symbolic = [limit for limit in limits if not is_known(limit)]
    if not symbolic:
        length = min(known)
    else:
        length = symbolic[0]
        huge = np.iinfo(np.int32).max  # what "no limit" is written as
        need(all(same(length, s) for s in symbolic) and all(k >= huge for k in known), "trip_count_unknown")
    need(not is_known(length) or length >= 1, "no_steps", want="at least one step", got=length)
    return length


def _is_step_index(
    atom: Atom | None, made: dict[Var, Eqn], positions: dict[Var, int], counters: frozenset[int], length: Dim
) -> bool:
    """Whether a scalar (or one-element vector) equals the step number in every step."""
    while isinstance(atom, Var):
        if atom in positions:
            return positions[atom] in counters
        producer = made[atom]
        wide = producer.outputs[0].type.dtype in (DType.i32, DType.i64)  # a cast to anything smaller may wrap
        if producer.op in (ops.reshape, ops.expand_dims, ops.squeeze) or (producer.op is ops.cast and wide):
            atom = producer.inputs[0]
        elif producer.op is ops.floor_mod and _at_least(producer.inputs[1], length):
            atom = producer.inputs[0]  # x[t] wraps negative t; the step number is never negative
        else:
            return False
    return False


def _at_least(atom: Atom | None, length: Dim) -> bool:
    value = None if atom is None else static_value(atom)
    if value is None or isinstance(value, tuple):
        return False
    return bool(same(value, length)) or (is_known(value) and is_known(length) and value >= length)


def _reads(
    body: Graph, made: dict[Var, Eqn], positions: dict[Var, int], counters: frozenset[int], length: Dim
) -> tuple[tuple[_Read, ...], dict[Var, Var]]:
    """The steps that the body takes out of sequences it is given, equal ones once (`aliases` says which)."""
    found: dict[tuple[int, int], _Read] = {}
    aliases: dict[Var, Var] = {}
    for eqn in live_eqns(body, body.outputs):
        if eqn.op is not ops.gather or eqn.params["batch_dims"] != 0:
            continue
        sequence, index = eqn.inputs
        if not isinstance(sequence, Var) or sequence not in positions or index is None or index.type.rank != 0:
            continue
        position, axis = positions[sequence], eqn.params["axis"] % sequence.type.rank
        if sequence is not body.outputs[position] or not _is_step_index(index, made, positions, counters, length):
            continue
        whole = same(sequence.type.shape[axis], length) is True
        need(whole, "not_every_step", want=f"{length} steps", got=f"a sequence of {sequence.type}")
        if (position, axis) in found:
            aliases[eqn.outputs[0]] = found[position, axis].step
        else:
            found[position, axis] = _Read(position, axis, eqn.outputs[0])
    return tuple(found.values()), aliases


def _without_reads(body: Graph, reads: Sequence[_Read], aliases: dict[Var, Var]) -> Graph:
    taken = {r.step for r in reads} | aliases.keys()
    eqns = tuple(e for e in body.eqns if not any(o in taken for o in e.outputs))
    return substitute_graph(replace(body, eqns=eqns), aliases)


def _written(
    body: Graph, i: int, made: dict[Var, Eqn], positions: dict[Var, int], counters: frozenset[int], length: Dim
) -> Var | None:
    """What each step writes into list `i` at the counter, where that is all that happens to the list."""
    out, var = body.outputs[i], body.inputs[i]
    producer = made.get(out) if isinstance(out, Var) else None
    if producer is None or producer.op is not ops.dynamic_update_slice or producer.inputs[0] is not var:
        return None
    _, row, begin = producer.inputs
    shape = var.type.shape
    if not isinstance(row, Var):
        return None
    whole = same(row.type.shape[0], 1) and same(shape[0], length) and all(map(same, row.type.shape[1:], shape[1:]))
    read_once = sum(a is var for e in body.eqns for a in e.inputs) == 1 and use_counts(body)[producer.outputs[0]] == 1
    return row if whole and read_once and _starts_at_step(begin, made, positions, counters, length) else None


def _starts_at_step(
    begin: Atom | None, made: dict[Var, Eqn], positions: dict[Var, int], counters: frozenset[int], length: Dim
) -> bool:
    """Whether `begin` is [step, 0, 0, …]."""
    if _is_step_index(begin, made, positions, counters, length):
        return True
    producer = made.get(begin) if isinstance(begin, Var) else None
    if producer is None or producer.op not in (ops.concatenation, ops.pack):
        return False
    first, *rest = producer.inputs
    zeros = all(isinstance(r, Const) and not np.any(r.array) for r in rest)
    return zeros and _is_step_index(first, made, positions, counters, length)


def _read_positions(body: Graph, wanted: Sequence[Atom], positions: dict[Var, int]) -> set[int]:
    """The carried values that the computation of `wanted` reads."""
    atoms = [a for eqn in live_eqns(body, wanted) for a in eqn.inputs] + list(wanted)
    return {positions[a] for a in atoms if isinstance(a, Var) and a in positions}


def _copies(body: Graph, read: Sequence[int], others: Sequence[int], length: Dim) -> dict[int, _Copy]:
    """Which of the values that no step reads follow one that is read, after one step at least.

    Keras keeps the last output as a list of one row, EXPAND_DIMS of what is also the new h.
    """
    made = producers(body)
    carried = {v: i for i in read if isinstance(v := body.outputs[i], Var)}
    found: dict[int, _Copy] = {}
    for i in others:
        atom = body.outputs[i]
        maker = made.get(atom) if isinstance(atom, Var) else None
        if atom in carried and is_known(length):  # an open length may be 0, and they may start differently
            found[i] = _Copy(carried[atom], None)
        elif maker is not None and maker.op in (ops.expand_dims, ops.reshape) and not isinstance(maker.inputs[1], Var):
            source = maker.inputs[0]
            if source in carried:
                found[i] = _Copy(carried[source], maker)
    return found


def _emit(frame: _Frame, eqn: Eqn) -> Sequence[Any]:
    """Record the scan in the active trace; the values for all results of the while."""
    body = _without_reads(eqn.bodies[1], frame.reads, frame.aliases)
    carried = [body.outputs[i] for i in frame.carries]
    step = _step_graph(frame, body, carried, list(frame.writes.values()))
    xs = [_time_first(eqn.inputs[r.position], r.axis) for r in frame.reads]
    operands = [*(eqn.inputs[i] for i in (*frame.consts, *frame.carries)), *xs]
    counts = {"consts": len(frame.consts), "carries": len(carried)}
    results = scan(operands, (step,), **counts, length=frame.length, reverse=False)
    values: list[Any] = list(eqn.inputs)  # what the loop only passes on
    for i in frame.counters:
        # Where the length is open nobody reads the counter's result.
        values[i] = np.asarray(frame.length if is_known(frame.length) else 0, body.inputs[i].type.dtype.numpy)
    for i, value in zip((*frame.carries, *frame.writes), results, strict=True):
        values[i] = value
    for i, copy in frame.copies.items():
        source = values[copy.position]
        values[i] = source if copy.maker is None else _made_again(copy.maker, source)
    return values


def _made_again(maker: Eqn, operand: Any) -> Any:
    constants = [None if a is None else a.array for a in maker.inputs[1:] if not isinstance(a, Var)]
    return maker.op.run([operand, *constants], maker.params, ())[0]


def _step_graph(frame: _Frame, body: Graph, carried: Sequence[Atom], rows: Sequence[Var]) -> Graph:
    inputs = [body.inputs[i] for i in (*frame.consts, *frame.carries)] + [r.step for r in frame.reads]
    made = producers(body)
    contents = [_row_content(row, made) for row in rows]
    flat = {i for i, content in enumerate(contents) if content is None}  # these have to lose their first axis by an op
    ys = [content or row for content, row in zip(contents, rows, strict=True)]
    whole = Graph("step", tuple(inputs), live_eqns(body, [*carried, *ys]), (*carried, *ys))

    def step(*args: Any) -> Sequence[Any]:
        results = evaluate(whole, args)
        first = len(carried)
        return [_without_first_axis(r) if i in flat else r for i, r in enumerate(results, -first)]

    return trace_graph(step, [Var(v.type, value=v.value) for v in inputs], name="step")


def _row_content(row: Var, made: dict[Var, Eqn]) -> Var | None:
    """What a row [1, …] was made of by giving it its first axis."""
    maker = made.get(row)
    if maker is None or maker.op not in (ops.expand_dims, ops.reshape) or not isinstance(maker.inputs[0], Var):
        return None
    content = maker.inputs[0]
    kept = content.type.rank == row.type.rank - 1 and all(map(same, content.type.shape, row.type.shape[1:]))
    return content if kept else None


def _without_first_axis(row: Any) -> Any:
    shape = row.shape[1:]
    return ops.squeeze(row, squeeze_dims=(0,)) if len(shape) else ops.reshape(row, ())


def _time_first(x: Any, axis: int) -> Any:
    rank = len(x.shape)
    return x if axis == 0 else ops.transpose(x, (axis, *(i for i in range(rank) if i != axis)))
