"""The frame of a while loop, proven from structure alone: which carried value counts, is read, written, or a state.

Counters move by 1; the conditions compare them with limits and say nothing else; a sequence is read, or written, at one
row each step. What else looks at a counter sees it as one more sequence.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import is_same_type, live_eqns, producers
from jfuse.lowering.rules import need
from jfuse.passes.scans.from_while.row_access import RowRead, Write, row_reads, row_writes, without_reads
from jfuse.passes.scans.from_while.step_index import Counting, Index, TurnCount, counters_of, limits_of


@dataclass(frozen=True)
class Copy:
    """A carried value that is another one after each step, or that one with its shape changed by `maker`."""

    position: int
    maker: Eqn | None


@dataclass(frozen=True)
class WhileFrame:
    """The roles of a while loop's carried values, by their positions.

    body: the body without its reads. counted: the counters whose values the steps need.
    """

    body: Graph
    limits: TurnCount
    counters: Mapping[int, Index]
    counted: tuple[int, ...]
    reads: tuple[RowRead, ...]
    writes: tuple[Write, ...]
    copies: Mapping[int, Copy]  # values that no step reads -> the carry that they follow
    carries: tuple[int, ...]
    consts: tuple[int, ...]

    @property
    def length(self) -> Dim:
        """The number of steps that the loop takes: an int, or an expression of open sizes."""
        return self.limits.length

    @classmethod
    def of(cls, eqn: Eqn, used: set[Var]) -> WhileFrame:
        """The frame of a while equation; raises NotFused with the condition that fails. used: Vars that are read."""
        counters = counters_of(eqn)
        limits = limits_of(eqn, counters)
        whole = eqn.bodies[1]
        counting = Counting(whole, counters, limits.length)
        reads, aliases = row_reads(whole, counting, limits.length)
        body = without_reads(whole, reads, aliases)
        positions = {var: i for i, var in enumerate(body.inputs)}
        invariant = {i for i, (a, b) in enumerate(zip(whole.inputs, whole.outputs, strict=True)) if a is b}
        others = [i for i in range(len(body.inputs)) if i not in invariant and i not in counters]
        writes = row_writes(body, others, counting, limits.length)
        need_sizes(eqn, {w.position for w in writes if w.appends})
        rest = [i for i in others if i not in {w.position for w in writes}]
        needed = _read_positions(body, [body.outputs[i] for i in rest] + [w.row for w in writes], positions)
        copies = _copies(body, [i for i in rest if i in needed], [i for i in rest if i not in needed], limits.length)
        for i in counters:
            known = is_known(limits.length) and is_known(counters[i].offset)
            need(eqn.outputs[i] not in used or known, "counter_is_a_result", want="a loop of known length")
        counted = tuple(sorted(needed & counters.keys()))
        carries = tuple(i for i in rest if i not in copies)
        return cls(body, limits, counters, counted, reads, writes, copies, carries, tuple(sorted(needed & invariant)))


def need_sizes(eqn: Eqn, growing: Collection[int] = ()) -> None:
    """Raise NotFused where a carried value changes its size from step to step, but for lists that grow by rows."""
    steps = enumerate(zip(eqn.bodies[1].inputs, eqn.bodies[1].outputs, strict=True))
    changing = [i for i, (before, after) in steps if i not in growing and not is_same_type(before.type, after.type)]
    need(not changing, "size_changes", want="values that keep their sizes from step to step")


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
    copies: dict[int, Copy] = {}
    for i in others:
        atom = body.outputs[i]
        maker = made.get(atom) if isinstance(atom, Var) else None
        if atom in carried and is_known(length):  # an open length may be 0, and they may start differently
            copies[i] = Copy(carried[atom], None)
        elif maker is not None and maker.op.moves == "renames" and not _computes_more(maker):
            source = maker.inputs[0]
            if source in carried:
                copies[i] = Copy(carried[source], maker)
    return copies


def _computes_more(eqn: Eqn) -> bool:
    """Whether an equation reads more than its first operand and constants."""
    return any(isinstance(a, Var) for a in eqn.inputs[1:])
