"""Equations that take one step out of a sequence, and how a whole sequence is brought into the form of a scan."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import static_value


@dataclass(frozen=True)
class SequenceRead:
    """`source` at `index` along `axis`, from the end where it is negative. kept: the axis stays, with size 1."""

    source: Var
    axis: int
    index: int
    kept: bool

    @property
    def sequence(self) -> tuple[Var, int, bool]:
        """The key that reads of different steps of one sequence share."""
        return self.source, self.axis, self.kept


Reader = Callable[[Eqn], Sequence[SequenceRead | None]]
_READERS: dict[Op, Reader] = {}


def _reads(op: Op) -> Callable[[Reader], Reader]:
    """Register the decorated function: which steps the results of an equation of this op are."""
    return lambda reader: _READERS.setdefault(op, reader)


def reads_of(graph: Graph, *, from_end: bool = False) -> dict[Var, SequenceRead]:
    """For each Var that is one step of a sequence, which one. What is known of shapes is no sequence.

    from_end: steps of a sequence of open length, counted from its end, as well.
    """
    read_of: dict[Var, SequenceRead] = {}
    for eqn in graph.eqns:
        reader = _READERS.get(eqn.op)
        if reader is not None:
            reads = reader(eqn)
            read_of.update((v, r) for v, r in zip(eqn.outputs, reads, strict=True) if r and r.source.value is None)
    return {v: r for v, r in read_of.items() if from_end or r.index >= 0}


def taken(x: Var, start: int, stride: int, count: int) -> Any:
    """The steps start, start + stride, … of a sequence along axis 0, `count` of them, recorded in the active trace."""
    if stride < 0:
        return ops.reverse_v2(taken(x, start + (count - 1) * stride, -stride, count), [0])
    if start == 0 and stride == 1 and same(x.shape[0], count) is True:
        return x
    begin, end = np.array([start], np.int32), np.array([start + (count - 1) * stride + 1], np.int32)
    return ops.strided_slice(x, begin, end, np.array([stride], np.int32))


def time_first(x: Var, axis: int) -> Any:
    """x with `axis` moved to the front, recorded in the active trace."""
    return x if axis == 0 else ops.transpose(x, (axis, *(i for i in range(x.type.rank) if i != axis)))


def time_at(x: Var, axis: int) -> Any:
    """x with its first axis moved to `axis`, recorded in the active trace."""
    return x if axis == 0 else ops.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, x.type.rank)))


@_reads(ops.unpack)
def _unpacked(eqn: Eqn) -> Sequence[SequenceRead | None]:
    (x,) = eqn.inputs
    if not isinstance(x, Var):
        return [None] * len(eqn.outputs)
    axis = eqn.params["axis"] % x.type.rank
    return [SequenceRead(x, axis, i, False) for i in range(len(eqn.outputs))]


@_reads(ops.split)
def _split(eqn: Eqn) -> Sequence[SequenceRead | None]:
    axis, x = eqn.inputs
    return _parts(eqn, x, axis)


@_reads(ops.split_v)
def _split_v(eqn: Eqn) -> Sequence[SequenceRead | None]:
    x, _, axis = eqn.inputs
    return _parts(eqn, x, axis)


def _parts(eqn: Eqn, x: Atom | None, axis: Atom | None) -> Sequence[SequenceRead | None]:
    place = _number(axis)
    if not isinstance(x, Var) or place is None:
        return [None] * len(eqn.outputs)
    place %= x.type.rank
    start: Dim = 0
    reads: list[SequenceRead | None] = []
    for part in eqn.outputs:
        size = part.type.shape[place]
        single = is_known(start) and same(size, 1) is True
        reads.append(SequenceRead(x, place, int(start), True) if single else None)
        start = start + size
    return reads


@_reads(ops.gather)
def _gathered(eqn: Eqn) -> Sequence[SequenceRead | None]:
    x, indices = eqn.inputs
    if not isinstance(x, Var) or not isinstance(indices, Const) or eqn.params["batch_dims"] != 0:
        return [None]
    if indices.array.size != 1 or indices.type.rank > 1:
        return [None]
    axis = eqn.params["axis"] % x.type.rank
    return [SequenceRead(x, axis, int(indices.array.reshape(())), indices.type.rank == 1)]


@_reads(ops.slice_)
def _sliced(eqn: Eqn) -> Sequence[SequenceRead | None]:
    x, begin, size = eqn.inputs
    starts, sizes = _numbers(begin), _numbers(size)
    if not isinstance(x, Var) or starts is None or sizes is None:
        return [None]
    places = []
    for axis, (start, count, dim) in enumerate(zip(starts, sizes, x.shape, strict=True)):
        if start == 0 and (count == -1 or same(dim, count) is True):
            continue
        if count != 1:
            return [None]
        places.append((axis, start, True))
    return [_single(x, places)]


@_reads(ops.strided_slice)
def _strided(eqn: Eqn) -> Sequence[SequenceRead | None]:
    x = eqn.inputs[0]
    begin, end, strides = (_numbers(a) for a in eqn.inputs[1:])
    params = eqn.params
    plain = not params["ellipsis_mask"] and not params["new_axis_mask"] and not params["offset"]
    if not isinstance(x, Var) or begin is None or end is None or strides is None or not plain:
        return [None]
    places = []
    for axis, (start, stop, stride) in enumerate(zip(begin, end, strides, strict=True)):
        bits = {name: bool(params[f"{name}_mask"] >> axis & 1) for name in ("begin", "end", "shrink_axis")}
        first, last = None if bits["begin"] else start, None if bits["end"] else stop
        shrinks = bits["shrink_axis"]
        if not shrinks and _is_whole(first, last, stride, x.shape[axis]):
            continue
        place = _place(first, last, stride, shrinks, x.shape[axis])
        if place is None:
            return [None]
        places.append((axis, place, not shrinks))
    return [_single(x, places)]


def _is_whole(first: int | None, last: int | None, stride: int, size: Dim) -> bool:
    if stride != 1 or first not in (None, 0):
        return False
    return last is None or (is_known(size) and last >= size)


def _place(first: int | None, last: int | None, stride: int, shrinks: bool, size: Dim) -> int | None:
    """The one index that an entry of a strided slice takes, below 0 where it counts from the end of an open size.

    None where it takes more, or it is not known which.
    """
    if stride != 1:
        return None
    if is_known(size):
        start, stop, _ = slice(first, None if shrinks else last).indices(size)
        return start if shrinks or stop == start + 1 else None
    start = first or 0
    single = shrinks or (last is not None and last == start + 1 and start >= 0) or (first == -1 and last is None)
    return start if single else None


def _single(x: Var, places: Sequence[tuple[int, int, bool]]) -> SequenceRead | None:
    return SequenceRead(x, *places[0]) if len(places) == 1 else None


def _number(atom: Atom | None) -> int | None:
    numbers = _numbers(atom)
    return numbers[0] if numbers is not None and len(numbers) == 1 else None


def _numbers(atom: Atom | None) -> tuple[int, ...] | None:
    """A vector (or scalar) of numbers that is known."""
    value = None if atom is None else static_value(atom)
    if value is None:
        return None
    entries = value if isinstance(value, tuple) else (value,)
    return tuple(int(e) for e in entries) if all(map(is_known, entries)) else None
