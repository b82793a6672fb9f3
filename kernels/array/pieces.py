"""Ops that join tensors and cut them apart: concatenate, pack, unpack, split, update a slice.

They work on every element type, strings included (NumPy object arrays of bytes), and on shape values.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom
from jfuse.ir.types import TensorType
from jfuse.kernels.core.layout import agreed, axes_from_front, from_front, with_dim
from jfuse.kernels.core.op import Array, Static, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size, known_entries, static_value
from jfuse.kernels.nn.activation import activate


@tfl("CONCATENATION", on_shapes=True, linear="joint", moves="joins", at_allocation=True)
def concatenation(*values: Array, axis: int, fused_activation_function: str = "NONE") -> Array:
    """The values one after the other along axis.

    values: any[...] of one type but for axis. Linear where there is no activation.
    Source: tflite/kernels/concatenation.cc
    """
    return activate(namespace(*values).concatenate(values, axis=axis), fused_activation_function)


@concatenation.types
def _concatenation_type(*values: TensorType, axis: int, fused_activation_function: str) -> TensorType:
    first = values[0]
    place = from_front(axis, first.rank)
    shape = list(first.shape)
    for other in values[1:]:
        _check_alike(first, other)
        for i, dim in enumerate(other.shape):
            shape[i] = shape[i] + dim if i == place else agreed(shape[i], dim)
    return TensorType(tuple(shape), first.dtype)


@tfl("PACK", on_shapes=True, linear="joint", moves="joins")
def pack(*values: Array, axis: int = 0) -> Array:
    """The values stacked along a new axis.   values: any[...] of one type   Source: tflite/kernels/pack.cc"""
    return namespace(*values).stack(values, axis=axis)


@pack.types
def _pack_type(*values: TensorType, axis: int) -> TensorType:
    first = values[0]
    shape = list(first.shape)
    for other in values[1:]:
        _check_alike(first, other)
        shape = [agreed(d, e) for d, e in zip(shape, other.shape, strict=True)]
    shape.insert(from_front(axis, first.rank + 1), len(values))
    return TensorType(tuple(shape), first.dtype)


def _check_alike(first: TensorType, other: TensorType) -> None:
    if first.dtype is not other.dtype or first.rank != other.rank:
        raise TypeMismatch("the values differ in dtype or rank", expected=str(first), found=str(other))


@tfl("UNPACK", on_shapes=True, linear="joint", moves="splits")
def unpack(x: Array, /, *, axis: int = 0) -> tuple[Array, ...]:
    """The slices of x along axis, without that axis; its size must be known.

    x: any[...]   Source: tflite/kernels/unpack.cc
    """
    place = from_front(axis, len(x.shape))
    if not is_known(x.shape[place]):
        raise TypeMismatch("unpack along a dimension known only at run time", found=x.shape[place])
    before = (slice(None),) * place
    return tuple(x[(*before, i)] for i in range(x.shape[place]))


@tfl("SPLIT", on_shapes=True, linear="joint", moves="splits", entries=("x",))
def split(axis: Static, x: Array, /, *, num_splits: int) -> tuple[Array, ...]:
    """x cut along axis into num_splits equal parts.

    axis: i32[] or i32[1]; x: any[...]   Source: tflite/kernels/split.cc
    """
    (place,) = axes_from_front(axis, len(x.shape))
    return _cut(x, place, (_equal_part(x.shape[place], num_splits),) * num_splits)


@split.types
def _split_type(axis: Any, x: TensorType, *, num_splits: int) -> tuple[TensorType, ...]:
    (place,) = axes_from_front(axis, x.rank)
    part = _equal_part(x.shape[place], num_splits)
    return (TensorType(with_dim(x.shape, place, part), x.dtype),) * num_splits


@split.types_by_data
def _split_by_data(axis: Atom, x: Atom, *, num_splits: int) -> tuple[TensorType, ...]:
    part = TensorType(tuple(fresh_size() for _ in x.type.shape), x.type.dtype)
    return (part,) * num_splits


def _equal_part(size: Any, count: int) -> Any:
    if is_known(size) and size % count:
        raise TypeMismatch(f"a dimension of {size} has no {count} equal parts")
    return size // count


@tfl("SPLIT_V", on_shapes=True, linear="joint", moves="splits")
def split_v(x: Array, size_splits: Static, axis: Static, /) -> tuple[Array, ...]:
    """x cut along axis into parts of the given sizes, one of which may be -1.

    x: any[...]; size_splits: i32|i64[parts]; axis: i32[] or i32[1]   Source: tflite/kernels/split_v.cc
    """
    (place,) = axes_from_front(axis, len(x.shape))
    return _cut(x, place, _part_sizes(x.shape[place], size_splits))


@split_v.types
def _split_v_type(x: TensorType, size_splits: Any, axis: Any) -> tuple[TensorType, ...]:
    (place,) = axes_from_front(axis, x.rank)
    parts = _part_sizes(x.shape[place], size_splits)
    return tuple(TensorType(with_dim(x.shape, place, part), x.dtype) for part in parts)


@split_v.types_by_data
def _split_v_by_data(x: Atom, size_splits: Atom, axis: Atom) -> tuple[TensorType, ...]:
    """Parts whose sizes data decides; of an axis that data decides nothing is known but the rank."""
    place = static_value(axis)
    if place is None:
        return tuple(TensorType(tuple(fresh_size() for _ in x.type.shape), x.type.dtype) for _ in _lengths(size_splits))
    (along,) = axes_from_front(place, x.type.rank)
    sizes = [fresh_size() if n is None or same(n, -1) else n for n in _lengths(size_splits)]
    return tuple(TensorType(with_dim(x.type.shape, along, n), x.type.dtype) for n in sizes)


def _lengths(size_splits: Atom) -> Any:
    lengths = known_entries(size_splits) if size_splits.type.is_static else None
    if lengths is None:
        raise TypeMismatch("a split into a number of parts that is open", found=str(size_splits.type))
    return lengths


def _part_sizes(size: Any, parts: tuple[Any, ...]) -> tuple[Any, ...]:
    unknown = [i for i, p in enumerate(parts) if same(p, -1)]
    if len(unknown) > 1:
        raise TypeMismatch("at most one size of a split may be -1", found=parts)
    if unknown:
        parts = with_dim(parts, unknown[0], size - sum(with_dim(parts, unknown[0])))
    if same(sum(parts), size) is False:
        raise TypeMismatch("the sizes of a split add up to the dimension", expected=size, found=parts)
    return parts


def _cut(x: Array, axis: int, sizes: tuple[Any, ...]) -> tuple[Array, ...]:
    before, start, parts = (slice(None),) * axis, 0, []
    for size in sizes:
        parts.append(x[(*before, slice(start, start + size))])
        start = start + size
    return tuple(parts)


@tfl("DYNAMIC_UPDATE_SLICE", moves="joins", entries=("x", "update"))
def dynamic_update_slice(x: Array, update: Array, start_indices: Array, /) -> Array:
    """x with `update` written at start_indices, which are moved as far as `update` needs to fit in.

    x: any[...]; update: any[...], same rank, no larger; start_indices: i32|i64[rank]
    Source: tflite/kernels/dynamic_update_slice.cc
    """
    # jax counts negative indices from the end, the runtime moves them to 0
    return jax.lax.dynamic_update_slice(x, update, tuple(jnp.maximum(jnp.asarray(start_indices), 0)))


@dynamic_update_slice.types
def _dynamic_update_slice_type(x: TensorType, update: TensorType, start_indices: TensorType) -> TensorType:
    _check_alike(x, update)
    return TensorType(x.shape, x.dtype)
