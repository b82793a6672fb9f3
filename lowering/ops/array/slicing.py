"""Slices: dense STRIDED_SLICE without ellipsis and new-axis masks, GATHER where a place is computed at run time.

SLICE is emitted only where a size is computed: with an open dimension the runtime takes its result for dynamic, which
breaks what follows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32, element, entries
from jfuse.lowering.rule_tools.query import rank, static
from jfuse.lowering.rule_tools.shape_tensors import shaped, size_of, size_tensor
from jfuse.lowering.rules import lowers


@dataclass(frozen=True)
class Bound:
    """One end of a range: an int, a symbolic dimension or a Var i32[], and how to get it as a tensor."""

    value: Any
    tensor: Callable[[], Array]

    @property
    def is_computed(self) -> bool:
        """Whether nothing is known of it before run time."""
        return isinstance(self.value, Var)


@dataclass(frozen=True)
class SliceRange:
    """The part taken of one dimension: begin:end:stride, or the one element at begin (`shrink`), which drops it.

    stride: an int, or a Var i32[] where data decides it.
    """

    begin: Bound | None = None
    end: Bound | None = None
    stride: Any = 1
    shrink: bool = False

    @property
    def is_stepped(self) -> bool:
        """Whether elements may be left out, or come in reverse."""
        return isinstance(self.stride, Var) or self.stride != 1

    @property
    def is_whole(self) -> bool:
        """Whether the dimension stays as it is."""
        return self.begin is None and self.end is None and not self.is_stepped


@dataclass(frozen=True)
class SliceMasks:
    """The attributes of TensorFlow's strided slices: bit i of each is about the i-th of begin, end and strides.

    begin_mask, end_mask: there is no such bound. ellipsis_mask: it is `...`. new_axis_mask: it is a new axis.
    shrink_axis_mask: it is one element.
    """

    begin_mask: int = 0
    end_mask: int = 0
    ellipsis_mask: int = 0
    new_axis_mask: int = 0
    shrink_axis_mask: int = 0


@lowers("StridedSlice")
def lower_strided_slice(x: Array, begin: Array, end: Array, strides: Array, *, masks: SliceMasks) -> Array:
    """A dense STRIDED_SLICE, GATHER for elements whose place is computed, EXPAND_DIMS for new axes."""
    ranges, new_axes = ranges_of(x, begin, end, strides, masks)
    x = cut(x, ranges)
    for axis in new_axes:
        x = ops.expand_dims(x, np.asarray(axis, np.int32))
    return x


def ranges_of(
    x: Array, begin: Array, end: Array, strides: Array, masks: SliceMasks
) -> tuple[list[SliceRange], list[int]]:
    """The parts that a strided slice takes of the first dimensions of x, and the axes that are new in its result."""
    steps = entries(strides)
    begins, ends = bounds(begin), bounds(end)
    ranges: list[SliceRange] = []
    new_axes: list[int] = []
    results = 0
    for i, stride in enumerate(steps):
        bit = 1 << i
        if masks.ellipsis_mask & bit:
            later = sum(not masks.new_axis_mask >> k & 1 for k in range(i + 1, len(steps)))
            whole = rank(x) - later - len(ranges)
            ranges += [SliceRange()] * whole
            results += whole
        elif masks.new_axis_mask & bit:
            new_axes.append(results)
            results += 1
        elif masks.shrink_axis_mask & bit:
            ranges.append(SliceRange(begins[i], shrink=True))
        else:
            first = None if masks.begin_mask & bit else begins[i]
            last = None if masks.end_mask & bit else ends[i]
            ranges.append(SliceRange(first, last, stride))
            results += 1
    return ranges, new_axes


@lowers("Slice")
def lower_slice(x: Array, begin: Array, size: Array) -> Array:
    """STRIDED_SLICE, GATHER of consecutive places where the begin is computed at run time, SLICE where the size is."""
    firsts, counts = bounds(begin), bounds(size)
    if any(count.is_computed for count in counts):
        return ops.slice_(x, vector_of(firsts), vector_of(counts))
    ranges = []
    for axis, (first, count) in enumerate(zip(firsts, counts, strict=True)):
        if same_bound(count, x.shape[axis]):
            ranges.append(SliceRange())
        elif first.is_computed and is_known(count.value) and count.value >= 0:
            x = ops.gather(x, ops.add(first.value, np.arange(count.value, dtype=np.int32)), axis=axis)
            ranges.append(SliceRange())
        elif same_bound(count, -1):
            ranges.append(SliceRange(first))
        else:
            ranges.append(SliceRange(first, _sum(first, count)))
    return _of_size(cut(x, ranges), counts)


def _of_size(x: Array, counts: Sequence[Bound]) -> Array:
    """x in the sizes that TensorFlow's Slice is sure of: it refuses what STRIDED_SLICE cuts off at the end."""
    open_ = [same_bound(count, -1) for count in counts]
    return shaped(x, tuple(d if o else c.value for d, o, c in zip(x.shape, open_, counts, strict=True)))


@lowers("XlaDynamicSlice")
def lower_xla_dynamic_slice(x: Array, start_indices: Array, size_indices: Array) -> Array:
    """SLICE from where it fits in: the begin is moved as far as the size needs.

    Source: openxla.org/xla/operation_semantics#dynamicslice
    """
    counts = static(size_indices, "size_indices")
    room = [ops.sub(size_tensor(d, [x]), size_tensor(n, [x])) for d, n in zip(x.shape, counts, strict=True)]
    first = ops.maximum(ops.minimum(as_i32(start_indices), ops.pack(*room)), np.int32(0))
    return lower_slice(x, first, np.asarray(counts, np.int32))


def bounds(x: Array) -> list[Bound]:
    """The elements of an index vector."""
    return [Bound(value, _tensor_of(value, x, i)) for i, value in enumerate(entries(x))]


def _tensor_of(value: Any, x: Array, i: int) -> Callable[[], Array]:
    return lambda: value if isinstance(value, Var) else element(x, i)


def first_place(taken: SliceRange, x: Array, axis: int) -> Bound:
    """Where a range begins, counted from the start of an axis of known size."""
    begin = taken.begin
    if begin is None:
        return _NOWHERE
    if begin.is_computed:
        place = _wrapped(begin.value, x, axis)
        return Bound(place, lambda: place)
    return begin if begin.value >= 0 else Bound(begin.value + x.shape[axis], begin.tensor)


def same_bound(bound: Bound, dim: Dim) -> bool:
    """Whether a bound is known to be this number."""
    return not bound.is_computed and same(bound.value, dim) is True


def _sum(first: Bound, count: Bound) -> Bound:
    def tensor() -> Array:
        return ops.add(first.tensor(), count.tensor())

    return Bound(tensor() if first.is_computed else first.value + count.value, tensor)


def cut(x: Array, ranges: Sequence[SliceRange]) -> Array:
    """x[ranges], dimensions beyond them whole."""
    if len(ranges) > rank(x):
        raise LowerError(f"a slice of {len(ranges)} dimensions of a tensor that has {rank(x)}")
    all_ranges = list(ranges) + [SliceRange()] * (rank(x) - len(ranges))
    for axis in reversed(range(len(all_ranges))):
        first = all_ranges[axis].begin
        if all_ranges[axis].shrink and first is not None and first.is_computed:
            x = ops.gather(x, _wrapped(first.value, x, axis), axis=axis)
            del all_ranges[axis]
    all_ranges = [_plain(r, d) for r, d in zip(all_ranges, x.shape, strict=True)]
    return x if all(r.is_whole for r in all_ranges) else _strided_slice(x, all_ranges)


def _wrapped(index: Array, x: Array, axis: int) -> Array:
    """A run-time index with negative ones counted from the end: GATHER has no negative indices."""
    return ops.floor_mod(index, size_of(x, axis))


def _plain(r: SliceRange, size: Dim) -> SliceRange:
    """The range with bounds at the edge left out, and those that count from the end as negative numbers."""
    if isinstance(r.stride, Var) or any(b is not None and b.is_computed for b in (r.begin, r.end)):
        return r
    begin, end = (None if b is None else _from_end(b, size) for b in (r.begin, r.end))
    if r.shrink:
        return SliceRange(begin, shrink=True)
    forward = r.stride > 0
    if _is_empty(begin, end, r.stride, size):
        return _EMPTY
    if begin is not None and _at_edge(begin.value, size, first=forward, inclusive=True):
        begin = None
    if end is not None and _at_edge(end.value, size, first=not forward, inclusive=False):
        end = None
    return SliceRange(begin, end, r.stride)


def _is_empty(begin: Bound | None, end: Bound | None, stride: int, size: Dim) -> bool:
    """Whether nothing is taken, whatever the run time brings."""
    first, last = (None if b is None else b.value for b in (begin, end))
    if stride > 0 and is_known(last) and last == 0:
        return True
    known = all(v is None or is_known(v) for v in (first, last, size))
    return known and size > 0 and not range(int(size))[slice(first, last, stride)]


def _from_end(bound: Bound, size: Dim) -> Bound:
    distance = bound.value - size
    if is_known(bound.value) or not is_known(distance) or distance >= 0 or not _is_natural(bound.value):
        return bound
    return Bound(int(distance), bound.tensor)


def _is_natural(dim: Dim) -> bool:
    try:
        return bool(dim >= 0)
    except InconclusiveDimensionOperation:
        return False


def _at_edge(value: Dim, size: Dim, *, first: bool, inclusive: bool) -> bool:
    """Whether a bound lies at or beyond the first (or last) place; an end is exclusive and lies one further."""
    if not is_known(value):
        return not first and not inclusive and same(value, size) is True
    if first:
        return (inclusive and value == 0) or (is_known(size) and value <= -size - (not inclusive))
    return (inclusive and value == -1) or (is_known(size) and value >= size - inclusive)


def _strided_slice(x: Array, ranges: Sequence[SliceRange]) -> Array:
    begins, ends, begin_mask, end_mask, shrink_axis_mask = [], [], 0, 0, 0
    for i, r in enumerate(ranges):
        begin_mask |= (r.begin is None) << i
        end_mask |= (r.end is None and not r.shrink) << i
        shrink_axis_mask |= r.shrink << i
        begins.append(r.begin or _NOWHERE)
        ends.append(_next(r.begin) if r.shrink and r.begin is not None else r.end or _NOWHERE)
    strides = vector_of([Bound(r.stride, partial(_itself, r.stride)) for r in ranges])
    return ops.strided_slice(
        x,
        vector_of(begins),
        vector_of(ends),
        strides,
        begin_mask=begin_mask,
        end_mask=end_mask,
        shrink_axis_mask=shrink_axis_mask,
    )


def _itself(value: Array) -> Array:
    return value


_ONE = Bound(1, lambda: np.asarray(1, np.int32))
_EMPTY = SliceRange(_ONE, _ONE)  # XNNPACK takes 0:0 for the whole dimension (LiteRT 2.3.0)
_NOWHERE = Bound(0, lambda: np.asarray(0, np.int32))  # beside a mask bit


def _next(begin: Bound) -> Bound:
    return Bound(begin.value + 1, lambda: ops.add(begin.tensor(), np.asarray(1, np.int32)))


def vector_of(values: Sequence[Bound]) -> Array:
    """The bounds as i32[n]."""
    known = [not b.is_computed and is_known(b.value) for b in values]
    if all(known):
        return np.array([int(b.value) for b in values], np.int32)
    return ops.pack(*(np.int32(b.value) if k else b.tensor() for b, k in zip(values, known, strict=True)))
