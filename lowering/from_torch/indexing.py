"""Reading and writing by index."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, broadcast_shape, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast
from jfuse.lowering.from_torch.promotion import as_type, is_tensor
from jfuse.lowering.from_torch.shapes import (
    from_front,
    lower_cat,
    lower_select,
    lower_slice_,
    lower_unsqueeze,
    lower_view,
    transposed,
)
from jfuse.lowering.rule_tools.place import note, sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_torch


def _places(indices: Array, size: Dim) -> Array:
    """Places as i32; those that are constants counted from the front."""
    if is_constant(indices):
        places = np.asarray(indices).astype(np.int32)
        if (places >= 0).all():
            return places
        return ops.add(places, _added(places, size))
    note("indices that are computed are taken to count from the front: the file fails on negative ones")
    return as_type(indices, DType.i32)


def _added(places: np.ndarray, size: Dim) -> Array:
    return ops.mul(np.where(places < 0, 1, 0).astype(np.int32), size_tensor(size, sources()))


@lowers_torch("aten.index_select")
def lower_index_select(x: Array, dim: int, index: Array) -> Array:
    """GATHER along an axis."""
    axis = from_front(dim, x)
    return ops.gather(x, _places(index, x.shape[axis]), axis=axis)


@lowers_torch("aten.gather")
def lower_gather(x: Array, dim: int, index: Array, *, sparse_grad: bool = False) -> Array:
    """The element at `index` along an axis, at each place of the index."""
    axis = from_front(dim, x)
    shape = tuple(index.shape)
    for other in range(rank(x)):
        if other != axis and same(x.shape[other], shape[other]) is not True:
            x = lower_slice_(x, other, 0, shape[other])
    last = rank(x) - 1
    order = [i for i in range(rank(x)) if i != axis] + [axis]
    table, places = transposed(x, order), transposed(_places(index, x.shape[axis]), order)
    elements = ops.gather(table, places, axis=last, batch_dims=last)
    return transposed(elements, [int(i) for i in np.argsort(order)])


@lowers_torch("aten.take_along_dim")
def lower_take_along_dim(x: Array, index: Array, dim: int | None = None) -> Array:
    """As gather, whose operands broadcast along the other axes; of all elements where no axis is named."""
    if dim is None:
        return lower_gather(lower_view(x, [-1]), 0, lower_view(index, [-1]))
    axis = from_front(dim, x)

    def wide(v: Array, other: Array) -> Array:
        pairs = enumerate(zip(v.shape, other.shape, strict=True))
        return broadcast(v, tuple(e if same(d, 1) and i != axis else d for i, (d, e) in pairs))

    return lower_gather(wide(x, index), axis, wide(index, x))


@lowers_torch("aten.index")
def lower_index(x: Array, indices: Sequence[Array | None]) -> Array:
    """x[i, :, j]: axes with tensors of places, which broadcast, None for those that are taken whole."""
    named = [axis for axis, i in enumerate(indices) if i is not None]
    index_tensors = [i for i in indices if i is not None]
    if len(index_tensors) == 1 and named == [0] and dtype(index_tensors[0]) is DType.bool:
        return _chosen(x, index_tensors[0])
    if any(dtype(i) is DType.bool for i in index_tensors):
        return lower_index(x, _with_places(indices))
    if len(named) == 1:
        axis = named[0]
        return ops.gather(x, _places(index_tensors[0], x.shape[axis]), axis=axis)
    rest = [a for a in range(rank(x)) if a not in named]
    table = transposed(x, [*named, *rest])
    sizes = tuple(x.shape[a] for a in named)
    number: Array | None = None
    for place, index in enumerate(index_tensors):
        step = product(sizes[place + 1 :])
        part = _places(index, sizes[place])
        part = part if same(step, 1) else ops.mul(part, size_tensor(step, sources()))
        number = part if number is None else ops.add(number, part)
    assert number is not None
    flat = shaped(table, (product(sizes), *table.shape[len(named) :]), x, *sources())
    elements = ops.gather(flat, number)
    if named != list(range(named[0], named[-1] + 1)) or named[0] == 0:
        return elements  # the axes of the places come first
    count = rank(number)
    order = [*range(count, count + named[0]), *range(count), *range(count + named[0], rank(elements))]
    return transposed(elements, order)


def _with_places(indices: Sequence[Array | None]) -> list[Array | None]:
    """The indices with places along each axis of a mask in its place."""
    with_places: list[Array | None] = []
    for index in indices:
        with_places += [index] if index is None or dtype(index) is not DType.bool else lower_places(index)
    return with_places


def _chosen(x: Array, mask: Array) -> Array:
    """The elements of x where a mask of its first axes holds, along one axis that is as long as they are many."""
    count = rank(mask)
    first = product(tuple(x.shape[:count]))
    rows = shaped(x, (first, *x.shape[count:]), x, *sources())
    column = DEFAULT.lowers["Where"](shaped(mask, (first,), mask, x, *sources()))
    places = as_type(shaped(column, (column.shape[0],), column), DType.i32)
    return ops.gather(rows, places, axis=0)


@lowers_torch("aten.masked_select")
def lower_masked_select(x: Array, mask: Array) -> Array:
    """The elements of x where the mask holds, in one row; both are broadcast."""
    count = max(rank(x), rank(mask))
    shape = broadcast_shape([tuple(v.shape) for v in (x, mask)])
    if shape is None:
        raise LowerError("a mask of another open shape", found=f"{type_of(x)}, {type_of(mask)}", remedy="equal shapes")
    x, mask = (broadcast(_wide(v, (1,) * (count - rank(v)) + tuple(v.shape)), shape) for v in (x, mask))
    return _chosen(x, mask)


@lowers_torch("aten.where.default", "aten.nonzero_numpy")
def lower_places(condition: Array) -> list[Array]:
    """The places where a condition holds: a row for each axis."""
    rows = lower_nonzero(condition)
    return [lower_select(rows, 1, axis) for axis in range(rank(condition))]


@lowers_torch("aten.select_scatter")
def lower_select_scatter(x: Array, part: Array, dim: int, index: int) -> Array:
    """x with one place along an axis written."""
    axis = from_front(dim, x)
    place = index if index >= 0 else int(x.shape[axis]) + index
    return _written(x, lower_unsqueeze(part, axis), axis, place, place + 1, 1)


@lowers_torch("aten.slice_scatter")
def lower_slice_scatter(
    x: Array, part: Array, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1
) -> Array:
    """x with x[start:end:step] along an axis written."""
    axis = from_front(dim, x)
    size = x.shape[axis]
    first = 0 if start is None else start if start >= 0 else size + start
    last = size if end is None or (isinstance(end, int) and end >= 2**62) else end if end >= 0 else size + end
    return _written(x, part, axis, first, last, step)


def _written(x: Array, part: Array, axis: int, first: Dim, last: Dim, step: int) -> Array:
    """x with a part in the place of some of its elements along an axis."""
    size = x.shape[axis]
    wide = broadcast(
        part, tuple(d if i == axis else e for i, (d, e) in enumerate(zip(part.shape, x.shape, strict=True)))
    )
    if same(first, 0) and same(last, size) and step == 1:
        return wide
    if step != 1:
        if not isinstance(size, int):
            raise LowerError("every so many elements of an open size, written", remedy="fix the size of the axis")
        pick = np.arange(size, dtype=np.int32)
        places = range(int(first), min(int(last), size), step)
        pick[list(places)] = size + np.arange(len(places))
        return ops.gather(lower_cat([x, wide], axis), pick, axis=axis)
    before = [] if same(first, 0) else [lower_slice_(x, axis, 0, first)]
    after = [] if same(last, size) else [lower_slice_(x, axis, last)]
    return lower_cat([*before, wide, *after], axis)


@lowers_torch("aten.copy")
def lower_copy(x: Array, source: Array, non_blocking: bool = False) -> Array:
    """The source in shape and dtype of x."""
    missing = rank(x) - rank(source)
    wide = shaped(source, (*[1] * missing, *source.shape), source, *sources())
    return broadcast(as_type(wide, dtype(x)), tuple(x.shape))


@lowers_torch("aten.index_copy")
def lower_index_copy(x: Array, dim: int, index: Array, source: Array) -> Array:
    """x with slices written at places along an axis: one by DYNAMIC_UPDATE_SLICE, as caches are written."""
    axis = from_front(dim, x)
    places = _places(index, x.shape[axis])
    if rank(index) == 0 or same(index.shape[0], 1):
        none = np.zeros(1, np.int32)
        begins = [shaped(places, (1,)) if i == axis else none for i in range(rank(x))]
        return ops.dynamic_update_slice(x, source, ops.concatenation(*begins, axis=0))
    order = [axis, *(i for i in range(rank(x)) if i != axis)]
    moved = (transposed(x, order), lower_unsqueeze(places, -1), transposed(source, order))
    written = DEFAULT.lowers["TensorScatterUpdate"](moved[0], moved[1], moved[2])
    return transposed(written, [int(i) for i in np.argsort(order)])


@lowers_torch("aten.index_put")
def lower_index_put(x: Array, indices: Sequence[Array | None], values: Array, accumulate: bool = False) -> Array:
    """x with elements at places of some axes written, or added to."""
    index_tensors = [i for i in indices if i is not None]
    named = [axis for axis, i in enumerate(indices) if i is not None]
    if (
        len(named) == 1
        and named[0]
        and rank(index_tensors[0]) == 1
        and dtype(index_tensors[0]) is not DType.bool
        and not accumulate
    ):
        written = tuple(index_tensors[0].shape[0] if i == named[0] else d for i, d in enumerate(x.shape))
        return lower_index_copy(x, named[0], index_tensors[0], _wide(as_type(values, dtype(x)), written))
    if len(index_tensors) == 1 and dtype(index_tensors[0]) is DType.bool and not accumulate:
        return _written_by_mask(x, index_tensors[0], named[0], as_type(values, dtype(x)))
    if any(dtype(i) is DType.bool for i in index_tensors):
        return lower_index_put(x, _with_places(indices), values, accumulate)
    if named != list(range(len(index_tensors))):
        return _written_at_later_axes(x, named, index_tensors, as_type(values, dtype(x)), accumulate)
    columns = [_places(i, x.shape[a]) for a, i in enumerate(index_tensors)]
    shape: tuple[Dim, ...] = max((tuple(c.shape) for c in columns), key=len)
    column = [lower_unsqueeze(_wide(c, shape), -1) for c in columns]
    places = lower_cat(column, -1)
    updates = _wide(as_type(values, dtype(x)), (*shape, *x.shape[len(index_tensors) :]))
    return DEFAULT.lowers["TensorScatterAdd" if accumulate else "TensorScatterUpdate"](x, places, updates)


def _written_at_later_axes(
    x: Array, named: Sequence[int], index_tensors: Sequence[Array], values: Array, accumulate: bool
) -> Array:
    """As index_put, at places of axes that are not the first, which are moved there."""
    others = [a for a in range(rank(x)) if a not in named]
    shape: tuple[Dim, ...] = max((tuple(i.shape) for i in index_tensors), key=len)
    start = named[0] if list(named) == list(range(named[0], named[-1] + 1)) else 0
    sizes = [x.shape[a] for a in others]
    wide = _wide(values, (*sizes[:start], *shape, *sizes[start:]))
    places = range(start, start + len(shape))
    updates = transposed(wide, [*places, *(i for i in range(rank(wide)) if i not in places)])
    order = [*named, *others]
    written = lower_index_put(transposed(x, order), index_tensors, updates, accumulate)
    return transposed(written, [int(i) for i in np.argsort(order)])


def _written_by_mask(x: Array, mask: Array, axis: int, values: Array) -> Array:
    """x with values where a mask of some axes holds: one for all of them, or the next one at each."""
    count, after = rank(mask), rank(x) - rank(mask) - axis
    flags = shaped(mask, (*[1] * axis, *mask.shape, *[1] * after), x, mask, *sources())
    row = rank(values) - after - 1  # the axis of values that is as long as places are many
    if row < 0:
        return ops.select_v2(flags, values, x)
    if same(values.shape[row], 1):
        column = (*values.shape[:row], *[1] * count, *values.shape[row + 1 :])
        return ops.select_v2(flags, shaped(values, column, values, *sources()), x)
    if axis:
        raise LowerError("writing a row of values by a mask of later axes", remedy="permute these axes to the front")
    size = product(tuple(mask.shape))
    numbers = ops.cast(shaped(mask, (size,), mask, x, *sources()), out_data_type=DType.i32)
    places = ops.maximum(ops.sub(ops.cumsum(numbers, np.int32(0)), np.int32(1)), np.int32(0))
    paddings = np.array([[0, int(i == 0)] for i in range(rank(values))], np.int32)
    news = ops.gather(ops.pad(values, paddings), places, axis=0)  # padded: there may be none
    return ops.select_v2(flags, shaped(news, tuple(x.shape), x, *sources()), x)


def _wide(x: Array, shape: Sequence[Dim]) -> Array:
    missing = len(shape) - rank(x)
    return broadcast(shaped(x, (*[1] * missing, *x.shape), x, *sources()), tuple(shape))


@lowers_torch("aten.nonzero")
def lower_nonzero(x: Array) -> Array:
    """The places of elements that are not 0, a row for each."""
    return as_type(DEFAULT.lowers["Where"](x), DType.i64)


def _grid(index: Array, axis: int, x: Array) -> Array:
    """The place in x of each element of an index along one axis, i32[..., rank of x]."""
    columns = []
    for other in range(rank(index)):
        if other == axis:
            columns.append(_places(index, x.shape[axis]))
            continue
        row = tuple(index.shape[other] if i == other else 1 for i in range(rank(index)))
        columns.append(_wide(shaped(counted(index.shape[other], index, *sources()), row, index), tuple(index.shape)))
    return lower_cat([lower_unsqueeze(c, -1) for c in columns], -1)


def _scatter(name: str, tensorflow: str) -> None:
    def lower(x: Array, dim: int, index: Array, source: Any) -> Array:
        updates = source
        if not is_tensor(source) or rank(source) == 0:
            updates = _wide(as_type(source, dtype(x)), tuple(index.shape))
        for axis, size in enumerate(index.shape):
            updates = lower_slice_(updates, axis, 0, size)
        return DEFAULT.lowers[tensorflow](x, _grid(index, from_front(dim, x), x), updates)

    lower.__doc__ = f"As TensorFlow's {tensorflow}, at `index` along an axis for each place of the index."
    lowers_torch(f"aten.{name}")(lower)


_scatter("scatter", "TensorScatterUpdate")
_scatter("scatter_add", "TensorScatterAdd")


@lowers_torch("aten.index_add")
def lower_index_add(x: Array, dim: int, index: Array, source: Array, *, alpha: Any = 1) -> Array:
    """x with slices added at places along an axis."""
    axis = from_front(dim, x)
    order = [axis, *(i for i in range(rank(x)) if i != axis)]
    added = source if alpha == 1 else ops.mul(source, as_type(alpha, dtype(source)))
    places = lower_unsqueeze(_places(index, x.shape[axis]), -1)
    summed = DEFAULT.lowers["TensorScatterAdd"](transposed(x, order), places, transposed(added, order))
    return transposed(summed, [int(i) for i in np.argsort(order)])


@lowers_torch("aten.unfold")
def lower_unfold(x: Array, dim: int, size: int, step: int) -> Array:
    """Windows along an axis, their elements along a new last one."""
    axis = from_front(dim, x)
    count = (x.shape[axis] - size) // step + 1
    firsts = counted(count, x, *sources())
    firsts = firsts if step == 1 else ops.mul(firsts, np.int32(step))
    places = ops.add(lower_unsqueeze(firsts, -1), np.arange(size, dtype=np.int32))
    windows = ops.gather(x, places, axis=axis)
    return transposed(windows, [i for i in range(rank(windows)) if i != axis + 1] + [axis + 1])
