"""Ops that pick or place elements by index: gather, scatter, one-hot, where, range."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.core import max_dim

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed, from_front
from jfuse.kernels.core.op import Array, Measure, Sizes, Static, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size, static_value


@tfl("GATHER", on_shapes=True, linear="first", moves="takes", at_allocation=True)
def gather(x: Array, indices: Array, /, *, axis: int = 0, batch_dims: int = 0) -> Array:
    """The slices of x along axis that indices name, row by row over the first batch_dims dimensions.

    x: any[...]; indices: i16|i32|i64[...]. The runtime fails on an index out of range; here it is an error on
    constants, and the nearest index is taken under jax, zeros where there is none.
    Source: tflite/kernels/gather.cc
    """
    place = from_front(axis, len(x.shape))
    batch = batch_dims + len(indices.shape) if batch_dims < 0 else batch_dims
    _check_indices(indices, x.shape[place])
    if batch == 0:
        return _take(x, indices, place)
    # One index array for each dimension of x up to axis; those after it are taken whole.
    shape = (*x.shape[:place], *indices.shape[batch:])
    xp = namespace(x, indices)
    if x.shape[place] == 0 and xp is jnp:
        return jnp.zeros((*shape, *x.shape[place + 1 :]), x.dtype)
    index = [xp.arange(x.shape[i]).reshape(_line(i, len(shape))) for i in range(place)]
    ones = (1,) * (place - batch)
    index.append(xp.reshape(indices, (*indices.shape[:batch], *ones, *indices.shape[batch:])))
    return (x if xp is np else jnp.asarray(x))[tuple(index)]


@gather.types
def _gather_type(x: TensorType, indices: TensorType, *, axis: int, batch_dims: int) -> TensorType:
    place = from_front(axis, x.rank)
    batch = batch_dims + indices.rank if batch_dims < 0 else batch_dims
    if not 0 <= batch <= min(place, indices.rank):
        raise TypeMismatch(f"gather along axis {axis} over {batch_dims} batch dimensions", found=f"{x}, {indices}")
    for d, e in zip(x.shape[:batch], indices.shape[:batch], strict=True):
        agreed(d, e)
    return TensorType((*x.shape[:place], *indices.shape[batch:], *x.shape[place + 1 :]), x.dtype)


def _line(axis: int, rank: int) -> tuple[int, ...]:
    return tuple(-1 if i == axis else 1 for i in range(rank))


def _take(x: Array, indices: Array, axis: int) -> Array:
    if namespace(x, indices) is np or x.dtype == object:  # strings never reach jax
        return np.take(x, np.asarray(indices), axis=axis)
    if x.shape[axis] == 0:  # in a loop that makes no step, which XLA compiles all the same
        return jnp.zeros((*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :]), x.dtype)
    return jnp.take(x, indices, axis=axis, mode="clip")


def _check_indices(indices: Array, size: Dim) -> None:
    if not isinstance(indices, np.ndarray | list) or not isinstance(size, int):
        return
    wrong = [int(i) for i in np.ravel(indices) if not 0 <= i < size]
    if wrong:
        raise TypeMismatch(
            f"an index out of range of a dimension of {size}", expected=f"0 to {size - 1}", found=wrong[:8]
        )


@tfl("GATHER_ND", linear="first", moves="takes")
def gather_nd(x: Array, indices: Array, /) -> Array:
    """The elements or slices of x at the places in the last dimension of indices.

    x: any[...]; indices: i16|i32|i64[..., places]. An index out of range: as in GATHER.
    Source: tflite/kernels/gather_nd.cc
    """
    places = _places(indices)
    for place, size in zip(places, x.shape, strict=False):
        _check_indices(place, size)
    if namespace(x, indices) is np:
        return x[places]
    if 0 in x.shape[: len(places)]:
        return jnp.zeros((*indices.shape[:-1], *x.shape[len(places) :]), x.dtype)
    return jnp.asarray(x).at[places].get(mode="clip")


@gather_nd.types
def _gather_nd_type(x: TensorType, indices: TensorType) -> TensorType:
    """Told here because jax asks whether an open size is 1 or more."""
    places = indices.shape[-1] if indices.shape else None
    if places is None or not is_known(places) or places > x.rank or not indices.dtype.is_integer:
        raise TypeMismatch(
            "places are asked for, as integers in a last dimension of known size",
            expected=f"at most {x.rank} numbers for each place",
            found=str(indices),
        )
    return TensorType((*indices.shape[:-1], *x.shape[int(places) :]), x.dtype)


def _places(indices: Array) -> tuple[Array, ...]:
    xp = namespace(indices)
    return tuple(xp.moveaxis(indices, -1, 0)[i] for i in range(indices.shape[-1]))


@tfl("EMBEDDING_LOOKUP", linear="each")
def embedding_lookup(ids: Array, params: Array, /) -> Array:
    """The rows of params that ids name.

    ids: i32[n]; params: n[rows, ...]. An id out of range: as in GATHER.
    Source: tflite/kernels/embedding_lookup.cc
    """
    _check_indices(ids, params.shape[0])
    return _take(params, ids, 0)


@tfl("SCATTER_ND", sized_by_data=True)
def scatter_nd(indices: Array, updates: Array, shape: Static, /) -> Array:
    """Zeros of `shape` with the updates added at the places in the last dimension of indices.

    indices: i32[..., places]; updates: n[...]; shape: i32[rank]   Source: tflite/kernels/scatter_nd.cc
    """
    places = _places(indices)
    if isinstance(updates, np.ndarray) and isinstance(indices, np.ndarray):
        result = np.zeros(shape, updates.dtype)
        np.add.at(result, places, updates)
        return result
    zeros = jnp.zeros(shape, updates.dtype)
    return zeros.at[places].max(updates) if updates.dtype == bool else zeros.at[places].add(updates)


@scatter_nd.types
def _scatter_nd_type(indices: TensorType, updates: TensorType, shape: Any) -> TensorType:
    for d, e in zip(indices.shape[:-1], updates.shape, strict=False):
        agreed(d, e)
    return TensorType(tuple(shape), updates.dtype)


@tfl("SPARSE_TO_DENSE", sized_by_data=True)
def sparse_to_dense(indices: Array, shape: Static, values: Array, default_value: Array, /) -> Array:
    """A tensor of `shape` that holds the values at the places in the rows of indices, default_value elsewhere.

    indices: i32|i64[n, rank], or [n] for a vector; shape: i32|i64[rank], 4 at most; values: n[n] or n[], for all
    places; default_value: n[]. Of several values for a place the last one counts.
    Source: tflite/kernels/sparse_to_dense.cc
    """
    xp = namespace(indices, values, default_value)
    start = xp.broadcast_to(xp.reshape(default_value, ()), shape)
    places = _places(indices if len(indices.shape) == 2 else indices.reshape(-1, 1))
    if xp is np:
        result = start.copy()
        result[places] = values
        return result
    return start.at[places].set(values)


@sparse_to_dense.types
def _sparse_to_dense_type(indices: TensorType, shape: Any, values: TensorType, default_value: TensorType) -> TensorType:
    return TensorType(tuple(shape), values.dtype)


@tfl("ONE_HOT", sized_by_data=True, switch="compare")
def one_hot(indices: Array, depth: Sizes, on_value: Array, off_value: Array, /, *, axis: int = -1) -> Array:
    """on_value where the new dimension's index is the one in indices, off_value elsewhere.

    indices: i32|i64[...], whose lower 32 bits count; depth: i32[]; on_value, off_value: any[]
    Source: tflite/kernels/one_hot.cc
    """
    xp = namespace(indices, on_value, off_value)
    indices = indices.astype(np.int32)
    place = from_front(axis, len(indices.shape) + 1)
    line = xp.arange(depth).reshape(_line(place, len(indices.shape) + 1))
    hit = xp.expand_dims(indices, place) == line
    return xp.where(hit, xp.reshape(on_value, ()), xp.reshape(off_value, ()))


@one_hot.types
def _one_hot_type(
    indices: TensorType, depth: Any, on_value: TensorType, off_value: TensorType, *, axis: int
) -> TensorType:
    place = from_front(axis, indices.rank + 1)
    return TensorType((*indices.shape[:place], depth, *indices.shape[place:]), on_value.dtype)


@tfl("WHERE", traceable=False, chooses=True)
def where(condition: Array, /) -> Array:
    """The indices of the true (or nonzero) elements, in row-major order.

    condition: bool|n[...] -> i64[count, rank]   Source: tflite/kernels/where.cc
    """
    return np.argwhere(np.asarray(condition)).astype(np.int64)


@where.types
def _where_type(condition: TensorType) -> TensorType:
    return TensorType((fresh_size(), condition.rank), DType.i64)


@tfl("RANGE", counts=True, sized_at_allocation=True)
def range_(start: Measure, limit: Measure, delta: Measure, /) -> Array:
    """start, start + delta, … as long as it is short of limit.

    start, limit, delta: i32[], i64[] or f32[]. Floats are summed up one by one, as the kernel does.
    Source: tflite/kernels/range.cc
    """
    first, last, step = (np.asarray(v).reshape(()) for v in (start, limit, delta))
    count = range_length(first.item(), last.item(), step.item(), DType.of(first.dtype))
    steps = np.full(max(count, 1), step, first.dtype)
    steps[0] = first
    return np.cumsum(steps, dtype=first.dtype)[:count]


@range_.types_of_atoms
def _range_type(start: Atom, limit: Atom, delta: Atom) -> TensorType:
    first, last, step = (static_value(o) for o in (start, limit, delta))
    if first is None or last is None or step is None or not is_known(step):
        return TensorType((fresh_size(),), start.type.dtype)
    return TensorType((range_length(first, last, step, start.type.dtype),), start.type.dtype)


def range_length(start: Any, limit: Any, delta: Any, dtype: DType) -> Dim:
    """The number of elements of a range; raises TypeMismatch where the step is 0 or unknown."""
    if not is_known(delta) or delta == 0:
        raise TypeMismatch("a range needs a step that is known and not 0", found=delta)
    if dtype.is_float:  # in the operands' precision, which decides whether 0.3 / 0.1 is 3 or a little more
        first, last, step = np.asarray([start, limit, delta], dtype.numpy)
        return max(0, int(np.ceil((last - first) / step)))
    distance = limit - start
    steps = -(-distance // delta)
    return max(0, steps) if is_known(steps) else max_dim(0, steps)
