"""Reading by index: dynamic_slice, gather."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, Shape, is_known, product, same
from jfuse.ir.graph import Eqn, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import as_dtype, lower_slice
from jfuse.lowering.rule_tools.behind import eqns_behind
from jfuse.lowering.rule_tools.place import note, sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_jax


@lowers_jax("dynamic_slice")
def lower_dynamic_slice(x: Array, *starts: Array, slice_sizes: Sequence[Dim]) -> Array:
    """slice_sizes elements from `starts` on, which are moved so that the slice lies within x."""
    starts = starts[: rank(x)]  # sizes that are computed at run time come after them
    begins = [_start(s, d, n) for s, d, n in zip(starts, x.shape, slice_sizes, strict=True)]
    if all(map(is_constant, begins)):
        first = [int(np.asarray(b)) for b in begins]
        ends = [b + n for b, n in zip(first, slice_sizes, strict=True)]
        return lower_slice(x, start_indices=first, limit_indices=ends, strides=None)
    moving = [axis for axis, b in enumerate(begins) if not is_constant(b)]
    if len(moving) == 1 and same(slice_sizes[moving[0]], 1):
        (axis,) = moving
        rest = [0 if i == axis else int(np.asarray(b)) for i, b in enumerate(begins)]
        ends = [x.shape[i] if i == axis else rest[i] + n for i, n in enumerate(slice_sizes)]
        whole = lower_slice(x, start_indices=rest, limit_indices=ends, strides=None)
        row = ops.gather(whole, begins[axis], axis=axis)
        return shaped(row, tuple(slice_sizes), x, *sources())
    size = shape_tensor(tuple(slice_sizes), [x, *sources()])
    return DEFAULT.lowers["Slice"](x, ops.pack(*begins), size)


def _start(start: Array, size: Dim, count: Dim) -> Array:
    """A start within 0 and size - count, i32[]."""
    if same(size, count):
        return np.int32(0)
    if is_constant(start) and is_known(size) and is_known(count):
        return np.int32(np.clip(int(np.asarray(start)), 0, int(size) - int(count)))
    last = size_tensor(size - count, sources())
    return ops.minimum(ops.maximum(as_dtype(start, DType.i32), np.int32(0)), last)


@lowers_jax("dynamic_update_slice")
def lower_dynamic_update_slice(x: Array, update: Array, *starts: Array) -> Array:
    """x with `update` written from `starts` on, moved so that it lies within x.   -> DYNAMIC_UPDATE_SLICE"""
    if not starts:
        return update
    if all(map(is_constant, starts)):
        place: Array = np.array([int(np.asarray(s)) for s in starts], np.int32)
    else:
        place = ops.pack(*(as_dtype(s, DType.i32) for s in starts))
    return ops.dynamic_update_slice(x, update, place)


@dataclass(frozen=True)
class IndexWindows:
    """Which elements of an operand index vectors name: for gather and scatter alike.

    sizes: of the window that each vector names, along the operand's axes. mapped: the operand's axis of each component
    of a vector. batching: pairs of an axis of the operand and the axis of the indices that it goes with.
    """

    operand: Shape
    sizes: tuple[Dim, ...]
    mapped: tuple[int, ...]
    batching: tuple[tuple[int, int], ...] = ()

    @property
    def whole(self) -> tuple[int, ...]:
        """The mapped axes that every window covers: it can only start at 0."""
        return tuple(
            a for a in self.mapped if same(self.sizes[a], self.operand[a]) and same(self.operand[a], 1) is not True
        )

    @property
    def indexed(self) -> tuple[int, ...]:
        """The axes that are indexed: those that go with the indices' axes first, then the mapped ones."""
        return (*(a for a, _ in self.batching), *(a for a in self.mapped if a not in self.whole))

    @property
    def wide(self) -> tuple[int, ...]:
        """The indexed axes along which a window has several elements."""
        return tuple(a for a in self.indexed if same(self.sizes[a], 1) is not True)

    @property
    def rest(self) -> tuple[int, ...]:
        """The axes that are taken whole."""
        return tuple(a for a in range(len(self.operand)) if a not in self.indexed)

    def places(self, indices: Array) -> list[Array]:
        """For each indexed axis the positions, i32[batch…, wide…] up to broadcasting.   indices: i32[batch…, n]"""
        batch = rank(indices) - 1
        count = len(self.wide)
        positions: list[Array] = []
        for axis, with_ in self.batching:
            column = tuple(indices.shape[with_] if i == with_ else 1 for i in range(batch))
            positions.append(shaped(counted(self.operand[axis], indices, *sources()), (*column, *[1] * count), indices))
        for number, axis in enumerate(self.mapped):
            if axis in self.whole:
                continue
            part = _component(indices, number)
            part = shaped(part, (*indices.shape[:-1], *[1] * count), indices, *sources())
            if axis in self.wide:
                row = tuple(self.sizes[a] if a == axis else 1 for a in self.wide)
                steps = shaped(counted(self.sizes[axis], *sources()), (*[1] * batch, *row), *sources())
                part = ops.add(part, steps)
            positions.append(part)
        return positions

    def are_within(self, indices: Array) -> bool:
        """Whether all windows lie within the operand, as far as is known."""
        if not is_constant(indices):
            return False
        values = np.asarray(indices)
        return all(
            values[..., n].size == 0
            or (
                values[..., n].min() >= 0
                and is_known(self.operand[a] - self.sizes[a])
                and values[..., n].max() <= int(self.operand[a] - self.sizes[a])
            )
            for n, a in enumerate(self.mapped)
        )

    def last_starts(self) -> Array:
        """The last start of each component at which a window lies within, i32[n]."""
        lasts = [size_tensor(self.operand[a] - self.sizes[a], sources()) for a in self.mapped]
        return np.array(lasts, np.int32) if all(map(is_constant, lasts)) else ops.pack(*lasts)

    def within(self, indices: Array) -> Array:
        """Whether each window lies within the operand as a whole.   indices: i32[batch…, n] -> bool[batch…]"""
        inside = ops.logical_and(ops.greater_equal(indices, np.int32(0)), ops.less_equal(indices, self.last_starts()))
        return ops.reduce_all(inside, np.array([rank(indices) - 1], np.int32))

    def clamped(self, indices: Array) -> Array:
        """The indices moved so that each window lies within the operand."""
        return ops.minimum(ops.maximum(indices, np.int32(0)), self.last_starts())


def _component(indices: Array, number: int) -> Array:
    """One component of the index vectors: i32[batch…]"""
    if same(indices.shape[-1], 1):
        return shaped(indices, indices.shape[:-1], indices, *sources())
    start = [0] * (rank(indices) - 1) + [number]
    end = [*indices.shape[:-1], number + 1]
    return shaped(
        lower_slice(indices, start_indices=start, limit_indices=end, strides=None), indices.shape[:-1], indices
    )


def rows(x: Array, windows: IndexWindows) -> Array:
    """x with the indexed axes first and merged into one."""
    order = (*windows.indexed, *windows.rest)
    moved = x if list(order) == list(range(rank(x))) else ops.transpose(x, order)
    count = len(windows.indexed)
    return shaped(moved, (product(moved.shape[:count]), *moved.shape[count:]), x, *sources())


def row_numbers(indices: Array, windows: IndexWindows) -> Array:
    """The number of the row of `rows` that each element of each window is in: i32[batch…, wide…]"""
    sizes = [windows.operand[a] for a in windows.indexed]
    total: Array | None = None
    for position, place in enumerate(windows.places(indices)):
        step = product(tuple(sizes[position + 1 :]))
        scaled = place if same(step, 1) else ops.mul(place, size_tensor(step, sources()))
        total = scaled if total is None else ops.add(total, scaled)
    return np.zeros((1,) * (rank(indices) - 1), np.int32) if total is None else total


@lowers_jax("gather")
def lower_gather(
    x: Array,
    indices: Array,
    *,
    dimension_numbers: Any,
    slice_sizes: Sequence[Dim],
    mode: Any,
    fill_value: Any = None,
) -> Array:
    """The windows of x that the index vectors name.   -> GATHER, or slices where the indices are constants

    mode: windows that reach out of x are moved into it ("clip"), or answered by a value where that is given or where
        the places are made of real numbers, as in interpolation; on others the file fails.
    """
    numbers = dimension_numbers
    batching = tuple(zip(numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True))
    windows = IndexWindows(tuple(x.shape), tuple(slice_sizes), tuple(numbers.start_index_map), batching)
    indices = as_dtype(indices, DType.i32)
    how = _outside(str(mode), x, indices, windows, fill_value)
    if how == "fill":
        taken = lower_gather(x, indices, dimension_numbers=numbers, slice_sizes=slice_sizes, mode="CLIP")
        sizes = iter(indices.shape[:-1])
        column = tuple(1 if i in numbers.offset_dims else next(sizes) for i in range(rank(taken)))
        inside = shaped(windows.within(indices), column, indices, *sources())
        return ops.select_v2(inside, taken, scalar(_beyond(dtype(x)) if fill_value is None else fill_value, x))
    dropped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    axes_left = [a for a in range(rank(x)) if a not in dropped]
    batch = rank(indices) - 1
    if how == "fail":
        note("indices are taken to lie within what they index: the file fails on others, where jax fills in a value")
    elif batch == 0:
        starts: list[Array] = [np.int32(0)] * rank(x)
        for number, axis in enumerate(windows.mapped):
            starts[axis] = _component(indices, number)
        window = lower_dynamic_slice(x, *starts, slice_sizes=slice_sizes)
        return shaped(window, tuple(slice_sizes[a] for a in axes_left), x, *sources())
    elif how == "clip":
        indices = windows.clamped(indices)
    if batch == 0:  # one vector is a list of one
        indices = shaped(indices, (1, *indices.shape), indices, *sources())
    whole = tuple(d if a in windows.indexed else n for a, (d, n) in enumerate(zip(x.shape, slice_sizes, strict=True)))
    if any(same(d, n) is not True for d, n in zip(x.shape, whole, strict=True)):
        x = lower_slice(x, start_indices=[0] * rank(x), limit_indices=whole, strides=None)
    if batch == 1 and len(windows.indexed) == 1 and dropped == set(windows.indexed):
        (axis,) = windows.indexed
        if tuple(numbers.offset_dims) == tuple(i for i in range(rank(x)) if i != axis):  # x[:, :, places]
            (places,) = windows.places(indices)
            return ops.gather(x, places, axis=axis)
    selected = _gathered(x, indices, windows)
    # Now the axes are: those of the indices, the wide ones, the rest.
    axis_of = {a: rank(indices) - 1 + i for i, a in enumerate((*windows.wide, *windows.rest))}
    offsets, batches = iter(axes_left), iter(range(batch))
    order, shape = [], []
    for place in range(batch + len(axes_left)):
        if place in numbers.offset_dims:
            axis = next(offsets)
            shape.append(slice_sizes[axis])
            order += [axis_of[axis]] if axis in axis_of else []
        else:
            number = next(batches)
            shape.append(indices.shape[number])
            order.append(number)
    order += [i for i in range(rank(selected)) if i not in order]  # of size 1
    moved = selected if order == list(range(rank(selected))) else ops.transpose(selected, tuple(order))
    return shaped(moved, tuple(shape), x, indices, *sources())


def _outside(mode: str, x: Array, indices: Array, windows: IndexWindows, fill_value: Any) -> str:
    """Choose how to treat windows that reach out of x: "clip", "fill", "fail", or "none" where there are none."""
    if windows.are_within(indices):
        return "none"
    if "FILL" not in mode:
        return "clip" if "CLIP" in mode or _is_of_reals(indices) else "none"
    usual = fill_value is None or np.array_equal(fill_value, _beyond(dtype(x)), equal_nan=dtype(x).is_float)
    if not usual or _is_of_reals(indices):
        return "fill"
    if is_constant(indices):
        raise LowerError(
            "a constant index lies out of bounds, where jax fills in a value", found=f"{np.asarray(indices)}"
        )
    return "fail"


def _beyond(kind: DType) -> Any:
    """The default value that jax fills in."""
    if kind.is_float or kind is DType.c64:
        return np.nan
    limits = None if kind is DType.bool else np.iinfo(kind.numpy)
    return True if limits is None else limits.max if limits.min == 0 else limits.min


def _is_of_reals(indices: Array) -> bool:
    """Whether integers are real numbers made whole, and computed with."""
    behind = eqns_behind(indices, lambda eqn: () if _reads_reals(eqn) else eqn.inputs)
    return any(eqn.op is ops.cast and _reads_reals(eqn) for eqn in behind)


def _reads_reals(eqn: Eqn) -> bool:
    return any(isinstance(v, Var) and v.type.dtype.is_float for v in eqn.inputs)


def _gathered(x: Array, indices: Array, windows: IndexWindows) -> Array:
    """x[places], with axes: those of the indices, the wide ones, the rest."""
    if len(windows.indexed) == 1 and not windows.batching:
        (axis,) = windows.indexed
        (place,) = windows.places(indices)
        first = x if axis == 0 else ops.transpose(x, (axis, *windows.rest))
        return ops.gather(first, place)
    if not windows.indexed:
        places: Array = ops.mul(_component(indices, 0), np.int32(0))
        return ops.gather(shaped(x, (1, *x.shape), x, *sources()), places)
    return ops.gather(rows(x, windows), row_numbers(indices, windows))
