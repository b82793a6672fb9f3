"""How loops write one row of a list: as one operator, or as the converters spell it, slice ++ row ++ slice."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from jfuse.ir.dims import Dim, same
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value
from jfuse.passes.scans.from_while.step_index import Counting, Index


@dataclass(frozen=True)
class RowWrite:
    """What an equation makes of a list: the row `index` of it becomes `row`, and the rest stays.   row: [1, …]

    reads: how many times the equations that write read the list.
    """

    index: Index
    row: Var
    reads: int


def row_write(out: Atom, old: Var, made: Mapping[Var, Eqn], counting: Counting) -> RowWrite | None:
    """How `out` is `old` with one row written; None where it is something else."""
    eqn = made.get(out) if isinstance(out, Var) else None
    if eqn is None:
        return None
    if eqn.op is ops.dynamic_update_slice and eqn.inputs[0] is old:
        _, row, begin = eqn.inputs
        index = _first(begin, made, counting, [(0,)] * (old.type.rank - 1))
        return RowWrite(index, row, 1) if index is not None and isinstance(row, Var) else None
    return _joined(eqn, old, made, counting) if eqn.op is ops.concatenation else None


def _joined(eqn: Eqn, old: Var, made: Mapping[Var, Eqn], counting: Counting) -> RowWrite | None:
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
    return RowWrite(index, row, 2) if whole and follows else None


def _are(atom: Atom | None, wanted: Sequence[Collection[Dim]]) -> bool:
    """Whether a vector is known, and each number of it among those that are wanted there."""
    found = None if atom is None else static_value(atom)
    return (
        isinstance(found, tuple)
        and len(found) == len(wanted)
        and all(n in w for n, w in zip(found, wanted, strict=True))
    )


def _first(
    atom: Atom | None, made: Mapping[Var, Eqn], counting: Counting, others: Sequence[Collection[Dim]]
) -> Index | None:
    """The number of a row in a vector [row, …] whose other numbers are among those that are wanted there."""
    eqn = made.get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.op not in (ops.concatenation, ops.pack) or len(eqn.inputs) == 1:
        single = eqn is not None and eqn.op in (ops.concatenation, ops.pack)
        return counting.index(eqn.inputs[0] if eqn is not None and single else atom)
    first, *rest = eqn.inputs
    if not all(isinstance(part, Const) for part in rest):
        return None
    numbers = [n for part in rest if isinstance(part, Const) for n in part.array.reshape(-1).tolist()]
    fits = len(numbers) == len(others) and all(n in w for n, w in zip(numbers, others, strict=True))
    return counting.index(first) if fits else None
