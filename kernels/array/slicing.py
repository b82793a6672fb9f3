"""SLICE and STRIDED_SLICE, with every mask, on arrays, shape values and symbolic dimensions."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array, Static, tfl
from jfuse.kernels.core.static_values import fresh_size, known_entries

_MOST_ROWS = 1024  # that an open size, such as N - 400, is thought to lack


@tfl("SLICE", on_shapes=True, linear="joint", moves="takes")
def slice_(x: Array, begin: Static, size: Static, /) -> Array:
    """The block of x of that size from begin; a size of -1 reaches to the end.

    x: any[...]; begin, size: i32|i64[rank]. Only where data decides the size: with open dimensions the runtime takes
    the result's shape for dynamic, which STRIDED_SLICE does not suffer from.
    Source: tflite/kernels/slice.cc
    """
    if not len(begin) == len(size) == len(x.shape):
        raise TypeMismatch("slice takes a begin and a size for each dimension", found=(begin, size))
    index = []
    for dim, start, count in zip(x.shape, begin, size, strict=True):
        stop = dim if same(count, -1) else start + count
        if is_known(dim) and is_known(start) and is_known(stop) and not 0 <= start <= stop <= dim:
            raise TypeMismatch(f"a slice from {start} to {stop} of a dimension of {dim}")
        index.append(slice(start, stop))
    return x[tuple(index)]


@slice_.types_by_data
def _slice_by_data(x: Atom, begin: Atom, size: Atom) -> TensorType:
    shape = []
    for dim, start, count in zip(x.type.shape, known_entries(begin), known_entries(size), strict=True):
        if count is None or (start is None and same(count, -1)):
            shape.append(fresh_size())
        else:
            shape.append(dim - start if same(count, -1) else count)
    return TensorType(tuple(shape), x.type.dtype)


@tfl("STRIDED_SLICE", on_shapes=True, linear="joint", moves="takes", at_allocation=True, sized_at_allocation=True)
def strided_slice(
    x: Array,
    begin: Static,
    end: Static,
    strides: Static,
    /,
    *,
    begin_mask: int = 0,
    end_mask: int = 0,
    ellipsis_mask: int = 0,
    new_axis_mask: int = 0,
    shrink_axis_mask: int = 0,
    offset: bool = False,
) -> Array:
    """x[begin:end:strides, …]; bit i of a mask is about entry i, as in TensorFlow's strided_slice.

    x: any[...]; begin, end, strides: i32[entries]. offset: `end` counts from `begin`. Unlike TensorFlow, an entry with
    both begin and shrink bits is the first element.
    Source: tflite/kernels/strided_slice.cc
    """
    if ellipsis_mask & (ellipsis_mask - 1):
        raise TypeMismatch("a strided slice has one ellipsis at most", found=bin(ellipsis_mask))
    index: list[Any] = []
    axis = 0
    for i, (start, stop, stride) in enumerate(zip(begin, end, strides, strict=True)):
        bit = 1 << i
        if ellipsis_mask & bit:
            index.append(Ellipsis)
            axis = len(x.shape) - _axes_after(i, len(begin), new_axis_mask)
        elif new_axis_mask & bit:
            index.append(None)
        else:
            whole = _extent(x, axis)
            first = None if begin_mask & bit else start
            last = None if end_mask & bit else stop + (_counted(whole, first, stride) if offset else 0)
            if shrink_axis_mask & bit:
                place = _place(whole, first, stride)
                x = _long_enough(x, axis, place)
                index.append(place if is_known(place) else jnp.asarray(place))  # jax indexes with values, not symbols
            else:
                index.append(_range(first, last, stride))
            axis += 1
    return x[tuple(index)]


@strided_slice.types_by_data
def _strided_slice_by_data(x: Atom, begin: Atom, end: Atom, strides: Atom, **options: Any) -> TensorType:
    """The type as if dimensions with unknown bounds were taken whole, with fresh symbols for them."""
    begins, ends = known_entries(begin), known_entries(end)
    if options["offset"]:
        ends = [None for _ in ends]
    places = [[v if has_sign(v) else None for v in values] for values in (begins, ends)]
    steps = known_entries(strides)
    skipped = options["begin_mask"], options["end_mask"]
    computed = [
        i
        for i in range(begin.type.shape[0])
        if steps[i] is None
        or any(place[i] is None and not mask >> i & 1 for place, mask in zip(places, skipped, strict=True))
        if not (options["shrink_axis_mask"] | options["new_axis_mask"] | options["ellipsis_mask"]) >> i & 1
    ]
    whole = sum(1 << i for i in computed)
    bounds = [_bounds([0 if v is None else v for v in place]) for place in places]
    masks = {"begin_mask": skipped[0] | whole, "end_mask": skipped[1] | whole, "offset": False}
    step = _bounds([1 if v is None else v for v in steps])
    taken = _with_elements(x, places[0], options)
    (result,) = strided_slice.types_by_value([taken, *bounds, step], {**options, **masks})  # never by data once more
    shape = list(result.shape)
    for i in computed:
        shape[_result_axis(i, len(shape), len(places[0]), options)] = fresh_size()
    return TensorType(tuple(shape), result.dtype)


def _with_elements(x: Atom, begins: list[Any], options: dict[str, Any]) -> Atom:
    """x with a number for each open size that one element is taken from: half a size may be 0, which jax asks about."""
    if options["ellipsis_mask"] | options["new_axis_mask"]:
        return x
    shape = list(x.type.shape)
    for i, begin in enumerate(begins):
        if options["shrink_axis_mask"] >> i & 1 and not is_known(shape[i]) and begin is not None and is_known(begin):
            shape[i] = abs(int(begin)) + 1
    return Var(TensorType(tuple(shape), x.type.dtype))


def _bounds(values: list[Any]) -> Atom:
    known = all(map(is_known, values))
    vector = np.array(values, np.int32 if known else object)
    return Const(vector) if known else Var(TensorType((len(values),), DType.i32), value=vector)


def _result_axis(i: int, rank: int, entries: int, options: dict[str, Any]) -> int:
    """Which dimension of the result entry i becomes: counted from the end where the ellipsis stands before it."""
    gone = options["shrink_axis_mask"]
    if options["ellipsis_mask"] & ((1 << i) - 1):
        return rank - sum(not gone >> k & 1 for k in range(i, entries))
    return sum(not gone >> k & 1 for k in range(i))


def _axes_after(i: int, count: int, new_axis_mask: int) -> int:
    """How many dimensions the entries after the ellipsis at i take."""
    return sum(not new_axis_mask >> k & 1 for k in range(i + 1, count))


def _extent(x: Array, axis: int) -> Any:
    if not 0 <= axis < len(x.shape):
        raise TypeMismatch(f"a strided slice with more entries than the {len(x.shape)} dimensions")
    return x.shape[axis]


def _counted(size: Any, first: Any, stride: int) -> Any:
    """Where an entry begins, from the start of its dimension, as the kernel finds it before it adds the end to it."""
    if first is None:
        return 0 if stride > 0 else size - 1
    if not has_sign(first) or first >= 0:
        return first
    if is_known(size) and is_known(first) and first + size < 0:  # the kernel's answer is empty, or what it finds there
        raise TypeMismatch(f"a strided slice that begins at {first} of a dimension of {size}")
    return first + size


def _range(first: Any, last: Any, stride: int) -> slice:
    if stride == 0:
        raise TypeMismatch("a strided slice needs a stride other than 0")
    if stride > 0 and not all(map(has_sign, (first, last))):
        raise InconclusiveDimensionOperation(f"a slice from {first} to {last}, which may count from the end")
    return slice(first, last, stride)


def has_sign(bound: Any) -> bool:
    """Whether it is known of a bound if it counts from the end."""
    try:
        return bound is None or (bound >= 0) in (True, False)
    except InconclusiveDimensionOperation:
        return False


def _long_enough(x: Array, axis: int, place: Any) -> Array:
    """x, with rows added along an axis of open size that may be too short for a place: jax refuses that.

    Arrays have known sizes: types alone are found so, and the model must see to it that there is such a row.
    """
    size = x.shape[axis]
    if is_known(size) or not is_known(place):
        return x
    needed = -place if place < 0 else place + 1
    missing = next((n for n in range(needed + _MOST_ROWS) if has_sign(size + n - needed)), 0)
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = (missing, 0) if place < 0 else (0, missing)
    return jnp.pad(x, widths) if missing else x


def _place(size: Any, first: Any, stride: int) -> Any:
    if first is None:
        return 0 if stride > 0 else -1
    if is_known(first) and is_known(size) and not -size <= first < size:
        raise TypeMismatch(f"element {first} of a dimension of {size}")
    return first
