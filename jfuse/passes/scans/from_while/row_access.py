"""The rows of sequences and lists that the steps of a loop read and write.

A list is written by one operator, or as the official converter spells it, slice ++ row ++ slice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import at_source, trace_graph
from jfuse.ir.walk import live_eqns, producers, substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.lowering.rules import need
from jfuse.passes.scans.from_while.step_index import Counting, Index


@dataclass(frozen=True)
class RowRead:
    """One sequence read each step: the carried position, the axis of time, the row, and the Var that holds the step."""

    position: int
    axis: int
    index: Index
    step: Var


@dataclass(frozen=True)
class Write:
    """One list written each step: the carried position, the row, and what is written: a row [1, …].

    appends: the list has no such row before, and grows by it.
    """

    position: int
    index: Index
    row: Var
    appends: bool = False


def row_reads(body: Graph, counting: Counting, length: Dim) -> tuple[tuple[RowRead, ...], dict[Var, Var]]:
    """The steps that the body takes out of sequences it is given, equal ones once (`aliases` says which)."""
    positions = {var: i for i, var in enumerate(body.inputs)}
    reads: dict[tuple[int, int, Index], RowRead] = {}
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
        size = sequence.type.shape[axis]
        if rows(index, length, size) is None:
            outside = (is_known(length) and is_known(size)) or same(length, size) is True
            need(not outside, "not_every_step", want=f"rows for {length} steps", got=f"a sequence of {sequence.type}")
            continue  # of an open length of its own: its rows are gathered
        step = eqn.outputs[0]
        key = (position, axis, index)
        if key in reads:
            aliases[step] = reads[key].step
        else:
            reads[key] = RowRead(position, axis, index, step)
    return tuple(reads.values()), aliases


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


def without_reads(body: Graph, reads: Sequence[RowRead], aliases: dict[Var, Var]) -> Graph:
    """The body without the equations that read rows; values that only rename others go by the others."""
    taken = {r.step for r in reads} | aliases.keys()
    eqns = tuple(e for e in body.eqns if not any(o in taken for o in e.outputs))
    return substitute_graph(replace(body, eqns=eqns), aliases)


def row_writes(body: Graph, positions: Sequence[int], counting: Counting, length: Dim) -> tuple[Write, ...]:
    """The lists that get one row each step, where that is all that happens to them."""
    made = producers(body)
    writes = (_write(body, i, made, counting, length) for i in positions)
    return tuple(w for w in writes if w is not None)


def _write(body: Graph, i: int, made: Mapping[Var, Eqn], counting: Counting, length: Dim) -> Write | None:
    out, var = body.outputs[i], body.inputs[i]
    appended = _appended(out, var, made)
    write = _row_write(out, var, made, counting) if appended is None else _RowWrite(Index(1, 0), appended)
    if write is None or not _steps_through(write.index):
        return None
    index, row, shape = write.index, write.row, var.type.shape
    fits = same(row.type.shape[0], 1) and all(map(same, row.type.shape[1:], shape[1:]))
    inside = appended is not None or rows(index, length, shape[0]) is not None
    # Nothing else reads the list: the number of its row may have followed from its size.
    others = [*body.outputs[:i], *body.outputs[i + 1 :], row]
    read = {*others, *(a for eqn in live_eqns(body, others) for a in eqn.inputs)}
    return Write(i, index, row, appended is not None) if fits and inside and not {var, out} & read else None


def _appended(out: Atom, old: Var, made: Mapping[Var, Eqn]) -> Var | None:
    """Return the rows that `out` appends to a list; None where it is no such CONCATENATION."""
    eqn = made.get(out) if isinstance(out, Var) else None
    if eqn is None or eqn.op is not ops.concatenation or len(eqn.inputs) != 2 or eqn.inputs[0] is not old:
        return None
    plain = eqn.params["axis"] % old.type.rank == 0 and eqn.params["fused_activation_function"] == "NONE"
    return eqn.inputs[1] if plain and isinstance(eqn.inputs[1], Var) else None


@dataclass(frozen=True)
class _RowWrite:
    """An equation that sets one row of a list and leaves the others.   row: [1, …]"""

    index: Index
    row: Var


def _row_write(out: Atom, old: Var, made: Mapping[Var, Eqn], counting: Counting) -> _RowWrite | None:
    """How `out` is `old` with one row written; None where it is something else."""
    eqn = made.get(out) if isinstance(out, Var) else None
    if eqn is None:
        return None
    if eqn.op is ops.dynamic_update_slice and eqn.inputs[0] is old:
        _, row, begin = eqn.inputs
        index = _first(begin, made, counting, [(0,)] * (old.type.rank - 1))
        return _RowWrite(index, row) if index is not None and isinstance(row, Var) else None
    return _joined(eqn, old, made, counting) if eqn.op is ops.concatenation else None


def _joined(eqn: Eqn, old: Var, made: Mapping[Var, Eqn], counting: Counting) -> _RowWrite | None:
    """The rows before, the row, and the rows after: TensorListSetItem in the official converter's files."""
    plain = eqn.params["axis"] % old.type.rank == 0 and eqn.params["fused_activation_function"] == "NONE"
    if not plain or len(eqn.inputs) != 3:
        return None
    before, row, after = eqn.inputs
    slices = [made.get(part) if isinstance(part, Var) else None for part in (before, after)]
    if any(part is None or part.op is not ops.slice_ or part.inputs[0] is not old for part in slices):
        return None
    (_, start, count), (_, begin, rest) = (part.inputs for part in slices if part is not None)
    rank, sizes = old.type.rank, old.type.shape[1:]
    all_of_axes = [(-1, size) for size in sizes]
    index = _first(count, made, counting, all_of_axes)
    second = _first(begin, made, counting, [(0,)] * (rank - 1))
    if index is None or second is None or not isinstance(row, Var):
        return None
    whole = _are(start, [(0,)] * rank) and _are(rest, [(-1,), *all_of_axes])
    follows = second.scale == index.scale and same(second.offset, index.offset + 1) is True
    return _RowWrite(index, row) if whole and follows else None


def _are(atom: Atom | None, wanted: Sequence[Collection[Dim]]) -> bool:
    """Whether a vector is known, and each number of it among those that are wanted there."""
    values = None if atom is None else static_value(atom)
    return (
        isinstance(values, tuple)
        and len(values) == len(wanted)
        and all(n in w for n, w in zip(values, wanted, strict=True))
    )


def _first(
    atom: Atom | None, made: Mapping[Var, Eqn], counting: Counting, others: Sequence[Collection[Dim]]
) -> Index | None:
    """The number of a row in a vector [row, …] whose other numbers are among those that are wanted there."""
    counter = counting.first(atom)
    if counter is not None:
        return counter if all(0 in numbers for numbers in others) else None
    eqn = made.get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.op not in (ops.concatenation, ops.pack) or len(eqn.inputs) == 1:
        single = eqn is not None and eqn.op in (ops.concatenation, ops.pack)
        return counting.index(eqn.inputs[0] if eqn is not None and single else atom)
    first, *rest = eqn.inputs
    numbers = [n for part in rest for n in _numbers(part, counting)]
    fits = len(numbers) == len(others) and all(n in w for n, w in zip(numbers, others, strict=True))
    return counting.index(first) if fits else None


def _numbers(atom: Atom | None, counting: Counting) -> list[Dim | None]:
    """The numbers of a part of a vector, None for what is not known."""
    if isinstance(atom, Const):
        return list(atom.array.reshape(-1).tolist())
    counter = counting.index(atom)
    return [counter.offset if counter is not None and counter.scale == 0 else None]


# Replaces slices of one row, such as `x[:, t : t + 1]`, by rows, where the counter t stays in the sequence.

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
