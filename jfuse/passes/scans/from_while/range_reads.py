"""Replaces slices of one row, such as `x[:, t : t + 1]`, by rows, where the counter t stays in the sequence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from jfuse.ir.dims import Dim, same
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.walk import producers
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.passes.scans.from_while.row_access import rows
from jfuse.passes.scans.from_while.step_index import Counting, Index

_Entry = tuple[Index | None, Atom | None]
"""A number in a vector, and the value that it is where that is a scalar of its own."""
_PLAIN = ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask", "offset")


@dataclass(frozen=True)
class _Row:
    """The row of `sequence` along `axis` that a range of one row holds.   place: its number"""

    sequence: Var
    axis: int
    place: Atom

    def read(self, env: Mapping[Var, Any]) -> Any:
        """The row as a gathered one, with its axis."""
        place = env[self.place] if isinstance(self.place, Var) else self.place
        scalar = ops.reshape(place, ()) if self.place.type.rank else place
        return ops.expand_dims(ops.gather(env[self.sequence], scalar, axis=self.axis), self.axis)


def with_rows_for_ranges(body: Graph, counting: Counting, length: Dim) -> Graph:
    """The body of a loop whose ranges of one row are rows that are gathered, as `row_reads` knows them.

    Sizes are inferred again: a range from t has any number of rows, as long as t is any number.
    """
    finder = _Finder(body, counting, length, producers(body))
    row_of = {eqn.outputs[0]: row for eqn in body.eqns if (row := finder.row(eqn)) is not None}
    if not row_of:
        return body

    def again(*arguments: Any) -> list[Any]:
        env: dict[Var, Any] = dict(zip(body.inputs, arguments, strict=True))
        for eqn in body.eqns:
            with at_source(eqn.source):
                row = row_of.get(eqn.outputs[0]) if eqn.outputs else None
                operands = [env[a] if isinstance(a, Var) else a for a in eqn.inputs]
                results = eqn.op.run(operands, eqn.params, eqn.bodies) if row is None else (row.read(env),)
            env.update(zip(eqn.outputs, results, strict=True))
        return [env[a] if isinstance(a, Var) else a for a in body.outputs]

    return trace_graph(again, [Var(v.type, v.name, v.value) for v in body.inputs], body.name)


@dataclass(frozen=True)
class _Finder:
    body: Graph
    counting: Counting
    length: Dim
    made: Mapping[Var, Eqn]

    def row(self, eqn: Eqn) -> _Row | None:
        """The row that an equation takes as a range; None for anything else."""
        if not eqn.inputs or not isinstance(sequence := eqn.inputs[0], Var) or sequence not in self.body.inputs:
            return None
        if eqn.op is ops.gather and eqn.params["batch_dims"] == 0:
            place, axis = eqn.inputs[1], eqn.params["axis"] % sequence.type.rank
            is_one = place is not None and place.type.rank == 1 and same(place.type.shape[0], 1) is True
            return self._inside(sequence, axis, place) if is_one else None
        if eqn.op is ops.strided_slice and not any(eqn.params[name] for name in _PLAIN):
            return self._of_range(eqn, sequence)
        return self._of_block(eqn, sequence) if eqn.op is ops.slice_ else None

    def _of_range(self, eqn: Eqn, sequence: Var) -> _Row | None:
        begins, ends, strides = (self._entries(a) for a in eqn.inputs[1:])
        if not len(begins) == len(ends) == len(strides):
            return None
        taken: list[tuple[int, Atom | None]] = []
        for axis, ((first, place), (last, _), (stride, _)) in enumerate(zip(begins, ends, strides, strict=True)):
            if stride != Index(0, 1):
                return None
            starts = eqn.params["begin_mask"] >> axis & 1 or first == Index(0, 0)
            stops = eqn.params["end_mask"] >> axis & 1 or _is(last, sequence.type.shape[axis])
            if starts and stops:
                continue
            if first is None or last != Index(first.scale, first.offset + 1):
                return None
            taken.append((axis, place))
        return self._inside(sequence, *taken[0]) if len(taken) == 1 else None

    def _of_block(self, eqn: Eqn, sequence: Var) -> _Row | None:
        begins, sizes = (self._entries(a) for a in eqn.inputs[1:])
        if not len(begins) == len(sizes) == sequence.type.rank:
            return None
        taken: list[tuple[int, Atom | None]] = []
        for axis, ((first, place), (count, _)) in enumerate(zip(begins, sizes, strict=True)):
            if first == Index(0, 0) and (_is(count, -1) or _is(count, sequence.type.shape[axis])):
                continue
            if not _is(count, 1):
                return None
            taken.append((axis, place))
        return self._inside(sequence, *taken[0]) if len(taken) == 1 else None

    def _inside(self, sequence: Var, axis: int, place: Atom | None) -> _Row | None:
        """The row, where its number follows a counter that stays in the sequence."""
        index = self.counting.index(place)
        if place is None or index is None or abs(index.scale) != 1:
            return None
        return None if rows(index, self.length, sequence.type.shape[axis]) is None else _Row(sequence, axis, place)

    def _entries(self, atom: Atom | None) -> list[_Entry]:
        """The entries of a vector of integers; none where they are not known one by one."""
        eqn = self.made.get(atom) if isinstance(atom, Var) else None
        if eqn is not None and eqn.op is ops.pack and eqn.outputs[0].type.rank == 1:
            return [(self.counting.index(a), a) for a in eqn.inputs]
        if eqn is not None and eqn.op is ops.concatenation:
            return [entry for part in eqn.inputs for entry in self._entries(part)]
        value = None if atom is None else static_value(atom)
        if isinstance(value, tuple):
            return [(None if isinstance(n, tuple) else Index(0, n), None) for n in value]
        return [(self.counting.index(atom), atom)] if atom is not None and atom.type.shape == (1,) else []


def _is(index: Index | None, number: Dim) -> bool:
    return index is not None and index.scale == 0 and same(index.offset, number) is True
