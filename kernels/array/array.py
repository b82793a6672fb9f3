"""Ops that arrange elements: reshape, transpose, pad, tile, broadcast, fill, reverse.

They work on every element type, strings included (NumPy object arrays of bytes), and on shape values.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed, axes_from_front, from_front, resolved_shape
from jfuse.kernels.core.op import Array, Axes, Paddings, ShapeOnly, Sizes, Static, namespace, tfl
from jfuse.kernels.core.static_values import fresh_size, sizes_in_any_order


@tfl(
    "RESHAPE",
    on_shapes=True,
    sized_by_data=True,
    linear="joint",
    moves="renames",
    at_allocation=True,
    sized_at_allocation=True,
)
def reshape(x: Array, shape: Static = None, /, *, new_shape: tuple[int, ...] | None = None) -> Array:
    """The elements of x in another shape, one dimension of which may be -1.

    x: any[...]; shape: i32[rank of the result], or omitted and given by `new_shape`, as old files do.
    Source: tflite/kernels/reshape.cc
    """
    xp = namespace(x)
    return xp.reshape(x, resolved_shape(x.shape, _new_shape(shape, new_shape)))


@reshape.types
def _reshape_type(x: TensorType, shape: Any, *, new_shape: tuple[int, ...] | None) -> TensorType:
    # Not by the body: jax refuses sizes whose equality symbols leave open, TFLite checks them at run time.
    return TensorType(resolved_shape(x.shape, _new_shape(shape, new_shape)), x.dtype)


def _new_shape(shape: Any, new_shape: tuple[int, ...] | None) -> tuple[Any, ...]:
    shape_ = new_shape if shape is None else shape
    if not isinstance(shape_, tuple):
        raise TypeMismatch("reshape needs its new shape as a vector", found=shape_)
    return shape_


@tfl("EXPAND_DIMS", on_shapes=True, linear="joint", moves="renames")
def expand_dims(x: Array, axis: Static, /) -> Array:
    """x with a dimension of 1 inserted at axis.

    x: any[...]; axis: i32[] or i32[1]   Source: tflite/kernels/expand_dims.cc
    """
    (place,) = axes_from_front(axis, len(x.shape) + 1)
    return namespace(x).reshape(x, (*x.shape[:place], 1, *x.shape[place:]))


@expand_dims.types_by_data
def _expand_dims_by_data(x: Atom, axis: Atom) -> TensorType:
    return TensorType(tuple(fresh_size() for _ in range(x.type.rank + 1)), x.type.dtype)


@tfl("SQUEEZE", on_shapes=True, linear="joint", moves="renames")
def squeeze(x: Array, /, *, squeeze_dims: tuple[int, ...] = ()) -> Array:
    """x without the dimensions named, each of which is 1; all that are 1 where none is named.

    x: any[...]   Source: tflite/kernels/squeeze.cc
    """
    return namespace(x).squeeze(x, _squeezed(x.shape, squeeze_dims))


@squeeze.types
def _squeeze_type(x: TensorType, *, squeeze_dims: tuple[int, ...]) -> TensorType:
    gone = _squeezed(x.shape, squeeze_dims)
    return TensorType(tuple(d for i, d in enumerate(x.shape) if i not in gone), x.dtype)


def _squeezed(shape: tuple[Any, ...], squeeze_dims: tuple[int, ...]) -> tuple[int, ...]:
    if not squeeze_dims:
        return tuple(i for i, d in enumerate(shape) if same(d, 1))
    axes = axes_from_front(tuple(squeeze_dims), len(shape))
    for axis in axes:
        if same(shape[axis], 1) is False:
            raise TypeMismatch(f"squeeze of a dimension that is not 1, at axis {axis}", found=shape[axis])
    return axes


@tfl("TRANSPOSE", on_shapes=True, linear="joint", moves="permutes")
def transpose(x: Array, perm: Static, /) -> Array:
    """The dimensions of x in the order perm.   x: any[...]; perm: i32[rank]   Source: tflite/kernels/transpose.cc"""
    axes = axes_from_front(perm, len(x.shape))
    if sorted(axes) != list(range(len(x.shape))):
        raise TypeMismatch("transpose by what is no order of the axes", expected=f"rank {len(x.shape)}", found=axes)
    return namespace(x).transpose(x, axes)


@transpose.types_by_data
def _transpose_by_data(x: Atom, perm: Atom) -> TensorType:
    return TensorType(sizes_in_any_order(x.type.rank, x.type.shape), x.type.dtype)


@tfl("PAD", sized_by_data=True, on_shapes=True, linear="joint", entries=("x",), sized_at_allocation=True)
def pad(x: Array, paddings: Paddings, /) -> Array:
    """x with zeros around it.   x: n[...]; paddings: i32|i64[rank,2]   Source: tflite/kernels/pad.cc"""
    return namespace(x).pad(x, paddings)


@pad.types
def _pad_type(x: TensorType, paddings: Any) -> TensorType:
    return _padded(x, paddings)


@tfl("PADV2", sized_by_data=True, on_shapes=True, linear="joint", entries=("x", "value"), sized_at_allocation=True)
def padv2(x: Array, paddings: Paddings, value: Array, /) -> Array:
    """x with `value` around it.   x: n[...]; paddings: i32|i64[rank,2]; value: n[]   Source: tflite/kernels/pad.cc"""
    xp = namespace(x, value)
    return xp.pad(x, paddings, constant_values=xp.reshape(value, ()))


@padv2.types
def _padv2_type(x: TensorType, paddings: Any, value: TensorType) -> TensorType:
    return _padded(x, paddings)


@tfl("MIRROR_PAD", linear="joint", entries=("x",))
def mirror_pad(x: Array, paddings: Paddings, /, *, mode: str = "REFLECT") -> Array:
    """x with its own mirror image around it; REFLECT leaves the border element out, SYMMETRIC repeats it.

    x: n[...]; paddings: i32|i64[rank,2], at most the dimension (less one for REFLECT)
    Source: tflite/kernels/mirror_pad.cc
    """
    for size, amounts in zip(x.shape, paddings, strict=True):
        if max(amounts) > size - (mode == "REFLECT"):
            raise TypeMismatch(f"mirror padding of {max(amounts)} beside a dimension of {size}", found=mode)
    return namespace(x).pad(x, paddings, mode=mode.lower())


@mirror_pad.types
def _mirror_pad_type(x: TensorType, paddings: Any, *, mode: str) -> TensorType:
    return _padded(x, paddings)


@mirror_pad.types_by_data
def _mirror_pad_by_data(x: Atom, paddings: Atom, *, mode: str) -> TensorType:
    return TensorType(tuple(fresh_size() for _ in x.type.shape), x.type.dtype)


def _padded(x: TensorType, paddings: Any) -> TensorType:
    if len(paddings) != x.rank or any(is_known(p) and p < 0 for pair in paddings for p in pair):
        raise TypeMismatch("paddings are a pair of sizes, 0 or more, for each dimension", found=paddings)
    return TensorType(tuple(d + low + high for d, (low, high) in zip(x.shape, paddings, strict=True)), x.dtype)


@tfl("TILE", on_shapes=True, sized_by_data=True, linear="joint", moves="repeats", sized_at_allocation=True)
def tile(x: Array, multiples: Sizes, /) -> Array:
    """x repeated along each dimension.   x: any[...]; multiples: i32|i64[rank]   Source: tflite/kernels/tile.cc"""
    return namespace(x).tile(x, multiples)


@tfl("BROADCAST_TO", on_shapes=True, sized_by_data=True, linear="joint", moves="repeats", sized_at_allocation=True)
def broadcast_to(x: Array, shape: Sizes, /) -> Array:
    """x broadcast to shape.

    x: any[...]; shape: i32|i64[rank of the result]   Source: tflite/kernels/broadcast_to.cc
    """
    return namespace(x).broadcast_to(x, shape)


@broadcast_to.types
def _broadcast_to_type(x: TensorType, shape: Any) -> TensorType:
    if len(shape) < x.rank:
        raise TypeMismatch("a broadcast keeps the rank or raises it", expected=f"{x.rank} or more sizes", found=shape)
    for d, e in zip(x.shape, shape[len(shape) - x.rank :], strict=True):
        if same(d, 1) is False and same(d, e) is False:
            raise TypeMismatch(f"a dimension of {d} cannot be broadcast to {e}", found=str(x))
    return TensorType(tuple(shape), x.dtype)


@tfl("BROADCAST_ARGS", on_shapes=True)
def broadcast_args(s0: Array, s1: Array, /) -> Array:
    """The shape to which tensors of the shapes s0 and s1 broadcast.

    s0, s1: i32|i64[rank]; where the two disagree, s1's.   Source: tflite/kernels/broadcast_args.cc
    """
    xp = namespace(s0, s1)
    longest = max(len(s0), len(s1))
    a, b = (xp.concatenate([xp.ones(longest - len(s), s.dtype), s]) for s in (s0, s1))
    if a.dtype == object or b.dtype == object:
        return np.array([_broadcast_dim(d, e) for d, e in zip(a, b, strict=True)], object)
    return xp.where(b == 1, a, b)


def _broadcast_dim(d: Any, e: Any) -> Any:
    if same(d, e):
        return d
    if same(d, 1):
        return e
    if same(e, 1):
        return d
    raise TypeMismatch(f"whether {d} or {e} is broadcast depends on run-time sizes")


@tfl("FILL", on_shapes=True, sized_by_data=True, linear="joint", sized_at_allocation=True)
def fill(dims: Sizes, value: Array, /) -> Array:
    """`value` in every element of a tensor of shape dims.

    dims: i32|i64[rank]; value: any[]   Source: tflite/kernels/fill.cc
    """
    xp = namespace(value)
    return xp.broadcast_to(xp.reshape(value, ()), dims)


@tfl("REVERSE_V2", on_shapes=True, linear="joint", moves="takes")
def reverse_v2(x: Array, axis: Axes, /) -> Array:
    """x with the order along the axes turned round.

    x: any[...]; axis: i32[axes]   Source: tflite/kernels/reverse.cc
    """
    return namespace(x).flip(x, axes_from_front(axis, len(x.shape)))


@reverse_v2.types_by_data
def _reverse_v2_by_data(x: Atom, axis: Atom) -> TensorType:
    return x.type


@tfl("REVERSE_SEQUENCE", linear="first", entries=("x",))
def reverse_sequence(x: Array, seq_lengths: Array, /, *, seq_dim: int, batch_dim: int = 0) -> Array:
    """The first seq_lengths[b] elements of each row b along seq_dim in reverse, the others as they are.

    x: any[...]; seq_lengths: i32|i64[batch]   Source: tflite/kernels/reverse_sequence.cc
    """
    xp = namespace(x, seq_lengths)
    steps = _along(xp.arange(x.shape[seq_dim]), seq_dim, len(x.shape))
    lengths = _along(seq_lengths, batch_dim, len(x.shape))
    source = xp.where(steps < lengths, lengths - 1 - steps, steps)
    return xp.take_along_axis(x, xp.broadcast_to(source, x.shape), axis=seq_dim)


@reverse_sequence.types
def _reverse_sequence_type(x: TensorType, seq_lengths: TensorType, *, seq_dim: int, batch_dim: int) -> TensorType:
    agreed(x.shape[from_front(batch_dim, x.rank)], seq_lengths.shape[0])
    return TensorType(x.shape, x.dtype)


def _along(vector: Array, axis: int, rank: int) -> Array:
    return vector.reshape(tuple(-1 if i == axis else 1 for i in range(rank)))


# SHAPE and RANK, which read no data.


@tfl("SHAPE", on_shapes=True, at_allocation=True)
def shape(x: ShapeOnly, /, *, out_type: DType = DType.i32) -> Array:
    """The sizes of x.   x: any[...] -> i32|i64[rank]   Source: tflite/kernels/shape.cc"""
    return _sizes(x.shape, out_type)


@shape.types
def _shape_type(x: TensorType, *, out_type: DType) -> TensorType:
    return TensorType((x.rank,), out_type)


@tfl("RANK", on_shapes=True, at_allocation=True)
def rank(x: ShapeOnly, /) -> Array:
    """The number of dimensions of x.   x: any[...] -> i32[]   Source: tflite/kernels/rank.cc"""
    return np.asarray(len(x.shape), np.int32)


@rank.types
def _rank_type(x: TensorType) -> TensorType:
    return TensorType((), DType.i32)


def _sizes(dims: tuple[Any, ...], out_type: DType) -> Any:
    known = all(isinstance(d, int) for d in dims)
    return np.array(dims, out_type.numpy if known else object)


# Ops that order or tell apart elements: the greatest ones, distinct ones, buckets.


@tfl("TOPK_V2", sized_by_data=True, switch="select", chooses=True, entries=("x",))
def topk_v2(x: Array, k: Static, /) -> tuple[Array, Array]:
    """The k largest elements along the last dimension, largest first, and their places; of equals the first one.

    x: n[..., size]; k: i32[]; results: n[..., k], i32[..., k]   Source: tflite/kernels/topk_v2.cc
    """
    values, places = jax.lax.top_k(x, k)
    return values, places.astype(np.int32)


@topk_v2.types
def _topk_v2_type(x: TensorType, k: Any) -> tuple[TensorType, TensorType]:
    shape = (*x.shape[:-1], k)
    return TensorType(shape, x.dtype), TensorType(shape, DType.i32)


@tfl("UNIQUE", traceable=False, chooses=True)
def unique(x: Array, /, *, idx_out_type: DType = DType.i32) -> tuple[Array, Array]:
    """The distinct elements in the order in which they come, and which of them each element is.

    x: n[size] -> n[count], i32|i64[size]   Source: tflite/kernels/unique.cc
    """
    _, first, inverse = np.unique(np.asarray(x), return_index=True, return_inverse=True)
    order = np.argsort(first)
    return np.asarray(x)[first[order]], np.argsort(order)[inverse.reshape(-1)].astype(idx_out_type.numpy)


@unique.types
def _unique_type(x: TensorType, *, idx_out_type: DType) -> tuple[TensorType, TensorType]:
    return TensorType((fresh_size(),), x.dtype), TensorType(x.shape, idx_out_type)


@tfl("BUCKETIZE", elementwise=True, switch="compare")
def bucketize(x: Array, /, *, boundaries: tuple[float, ...]) -> Array:
    """How many of the boundaries, which ascend, are not greater than the element.

    x: f32|f64|i32|i64[...] -> i32[...]. Integers are compared as floats.   Source: tflite/kernels/bucketize.cc
    """
    xp = namespace(x)
    limits = np.asarray(boundaries, np.float32)
    numbers = x if DType.of(x.dtype).is_float else x.astype(np.float32)
    wide = xp.promote_types(numbers.dtype, np.float32)
    return xp.searchsorted(xp.asarray(limits.astype(wide)), numbers.astype(wide), side="right").astype(np.int32)
