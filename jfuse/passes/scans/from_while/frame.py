"""The frame of a while loop, proven from structure alone: which carried value counts, is read, written, or a state.

Counters move by 1; the conditions compare them with limits and say nothing else; a sequence is read, or written, at one
row each step. What else looks at a counter sees it as one more sequence.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import live_eqns, producers, substitute_graph, use_counts
from jfuse.kernels import ops
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.rules import need
from jfuse.passes.scans.from_while.row_writes import row_write
from jfuse.passes.scans.from_while.step_index import Counting, Index, Limits, counters_of, limits_of


@dataclass(frozen=True)
class Read:
    """One sequence read each step: the carried position, the axis of time, the row, and the Var that holds the step."""

    position: int
    axis: int
    index: Index
    step: Var


@dataclass(frozen=True)
class Write:
    """One list written each step: the carried position, the row, and what is written: a row [1, …]."""

    position: int
    index: Index
    row: Var


@dataclass(frozen=True)
class Copy:
    """A carried value that is another one after each step, or that one with its shape changed by `maker`."""

    position: int
    maker: Eqn | None


@dataclass(frozen=True)
class Frame:
    """What a while loop turned out to be. Numbers are positions among the carried values.

    body: the body without its reads. counted: the counters whose values the steps need.
    """

    body: Graph
    limits: Limits
    counters: Mapping[int, Index]
    counted: tuple[int, ...]
    reads: tuple[Read, ...]
    writes: tuple[Write, ...]
    copies: Mapping[int, Copy]  # values that no step reads -> the carry that they follow
    carries: tuple[int, ...]
    consts: tuple[int, ...]

    @property
    def length(self) -> Dim:
        """The number of steps."""
        return self.limits.length

    @classmethod
    def of(cls, eqn: Eqn, used: set[Var]) -> Frame:
        """The frame of a while equation; raises NotFused with the condition that fails. used: Vars that are read."""
        need(not depends_on_data(eqn), "size_changes", want="values that keep their sizes from step to step")
        counters = counters_of(eqn)
        limits = limits_of(eqn, counters)
        whole = eqn.bodies[1]
        counting = Counting(whole, counters, limits.length)
        reads, aliases = _reads(whole, counting, limits.length)
        body = _without_reads(whole, reads, aliases)
        positions = {var: i for i, var in enumerate(body.inputs)}
        invariant = {i for i, (a, b) in enumerate(zip(whole.inputs, whole.outputs, strict=True)) if a is b}
        others = [i for i in range(len(body.inputs)) if i not in invariant and i not in counters]
        writes = _writes(body, others, counting, limits.length)
        rest = [i for i in others if i not in {w.position for w in writes}]
        needed = _read_positions(body, [body.outputs[i] for i in rest] + [w.row for w in writes], positions)
        copies = _copies(body, [i for i in rest if i in needed], [i for i in rest if i not in needed], limits.length)
        for i in counters:
            known = is_known(limits.length) and is_known(counters[i].offset)
            need(eqn.outputs[i] not in used or known, "counter_is_a_result", want="a loop of known length")
        counted = tuple(sorted(needed & counters.keys()))
        carries = tuple(i for i in rest if i not in copies)
        return cls(body, limits, counters, counted, reads, writes, copies, carries, tuple(sorted(needed & invariant)))


def _reads(body: Graph, counting: Counting, length: Dim) -> tuple[tuple[Read, ...], dict[Var, Var]]:
    """The steps that the body takes out of sequences it is given, equal ones once (`aliases` says which)."""
    positions = {var: i for i, var in enumerate(body.inputs)}
    found: dict[tuple[int, int, Index], Read] = {}
    aliases: dict[Var, Var] = {}
    for eqn in live_eqns(body, body.outputs):
        if eqn.op is not ops.gather or eqn.params["batch_dims"] != 0:
            continue
        sequence, place = eqn.inputs
        if not isinstance(sequence, Var) or sequence not in positions or place is None or place.type.rank != 0:
            continue
        position, axis = positions[sequence], eqn.params["axis"] % sequence.type.rank
        index = counting.index(place)
        if sequence is not body.outputs[position] or index is None or not _steps_through(index):
            continue
        inside = rows(index, length, sequence.type.shape[axis]) is not None
        need(inside, "not_every_step", want=f"rows for {length} steps", got=f"a sequence of {sequence.type}")
        step = eqn.outputs[0]
        key = (position, axis, index)
        if key in found:
            aliases[step] = found[key].step
        else:
            found[key] = Read(position, axis, index, step)
    return tuple(found.values()), aliases


def _steps_through(index: Index) -> bool:
    return abs(index.scale) == 1


def rows(index: Index, length: Dim, size: Dim) -> tuple[Dim, Dim] | None:
    """The first row of `size` that is visited, and the first that is no more; None where some may be out of range."""
    first = index.lowest(length)
    if same(first, 0) and same(length, size):
        return 0, size
    if is_known(first) and is_known(length) and is_known(size) and 0 <= first <= size - length:
        return first, first + length
    return None


def _without_reads(body: Graph, reads: Sequence[Read], aliases: dict[Var, Var]) -> Graph:
    taken = {r.step for r in reads} | aliases.keys()
    eqns = tuple(e for e in body.eqns if not any(o in taken for o in e.outputs))
    return substitute_graph(replace(body, eqns=eqns), aliases)


def _writes(body: Graph, positions: Sequence[int], counting: Counting, length: Dim) -> tuple[Write, ...]:
    """The lists that get one row each step, where that is all that happens to them."""
    made, uses = producers(body), use_counts(body)
    found = (_write(body, i, made, uses, counting, length) for i in positions)
    return tuple(w for w in found if w is not None)


def _write(
    body: Graph, i: int, made: Mapping[Var, Eqn], uses: Mapping[Var, int], counting: Counting, length: Dim
) -> Write | None:
    out, var = body.outputs[i], body.inputs[i]
    found = row_write(out, var, made, counting)
    if found is None or not _steps_through(found.index):
        return None
    index, row, shape = found.index, found.row, var.type.shape
    fits = same(row.type.shape[0], 1) and all(map(same, row.type.shape[1:], shape[1:]))
    inside = rows(index, length, shape[0]) is not None
    once = uses[var] == found.reads and isinstance(out, Var) and uses[out] == 1
    return Write(i, index, row) if fits and inside and once else None


def _read_positions(body: Graph, wanted: Sequence[Atom], positions: Mapping[Var, int]) -> set[int]:
    """The carried values that the computation of `wanted` reads."""
    atoms = [a for eqn in live_eqns(body, wanted) for a in eqn.inputs] + list(wanted)
    return {positions[a] for a in atoms if isinstance(a, Var) and a in positions}


def _copies(body: Graph, read: Sequence[int], others: Sequence[int], length: Dim) -> dict[int, Copy]:
    """Which of the values that no step reads follow one that is read, after one step at least.

    Keras keeps the last output as a list of one row, EXPAND_DIMS of what is also the new h.
    """
    made = producers(body)
    carried = {v: i for i in read if isinstance(v := body.outputs[i], Var)}
    found: dict[int, Copy] = {}
    for i in others:
        atom = body.outputs[i]
        maker = made.get(atom) if isinstance(atom, Var) else None
        if atom in carried and is_known(length):  # an open length may be 0, and they may start differently
            found[i] = Copy(carried[atom], None)
        elif maker is not None and maker.op in (ops.expand_dims, ops.reshape) and not isinstance(maker.inputs[1], Var):
            source = maker.inputs[0]
            if source in carried:
                found[i] = Copy(carried[source], maker)
    return found
