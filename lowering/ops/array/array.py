"""Layout in TensorFlow's ops: reshape, transpose, concatenate, pack, split, pad, tile, fill.

Targets and sizes that follow from shapes become constants wherever TFLite can take them as such, so that no shape
arithmetic is left for run time.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Shape, is_known, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed, from_front, resolved_shape, with_dim
from jfuse.kernels.core.op import Array
from jfuse.kernels.core.static_values import known_entries
from jfuse.lowering.ops.math.complex_numbers import lower_conj
from jfuse.lowering.rule_tools.open_broadcast import fitted
from jfuse.lowering.rule_tools.operands import as_i32, i32_operand, known_sizes, sizes_operand
from jfuse.lowering.rule_tools.query import axes_of, dtype, is_computed, is_constant, rank, static, type_of
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import shaped, zeros
from jfuse.lowering.rules import lowers


def reshaped(x: Array, target: Shape, shape: Array) -> Array:
    """x in the shape `target`, which `shape` computes: with a constant where one size at most is open."""
    target = resolved_shape(x.shape, _beside_zeros(x.shape, target))
    if _is_shape(x, target):
        return x
    open_ = [i for i, d in enumerate(target) if not is_known(d)]
    if len(open_) > 1 or (open_ and 0 in target):
        return ops.reshape(x, as_i32(shape))
    return ops.reshape(x, np.array([d if is_known(d) else -1 for d in target], np.int32))


def _beside_zeros(shape: Shape, target: Shape) -> Shape:
    """A target with -1 beside a size of 0 as TensorFlow fills it in: without the zeros of both shapes.

    Source: tensorflow/core/kernels/reshape_op.h
    """
    if 0 not in target or -1 not in target or not all(map(is_known, (*shape, *target))):
        return target
    counted, stated = (math.prod(int(d) for d in dims if d not in (0, -1)) for dims in (shape, target))
    return tuple(counted // stated if d == -1 else d for d in target)


def _is_shape(x: Array, target: Shape) -> bool:
    return rank(x) == len(target) and all(same(d, e) for d, e in zip(x.shape, target, strict=True))


@lowers("Reshape")
def lower_reshape(tensor: Array, shape: Array) -> Array:
    """RESHAPE, with -1 for the one size that is open; to sizes that data decides as it is."""
    target = known_sizes(shape)
    if target is not None:
        elements = product(tuple(target)), product(tensor.shape)
        if -1 not in target and same(*elements) is None:
            agreed(*elements)  # images of [h // 2, 2, w // 2, 2] have even sizes
        return reshaped(tensor, target, shape)
    entries = known_entries(shape)
    if all(e is None or is_known(e) for e in entries) and sum(e is None or e < 0 for e in entries) == 1:
        return reshaped(tensor, tuple(-1 if e is None else e for e in entries), shape)  # the others decide it
    return ops.reshape(tensor, as_i32(shape))


@lowers("ExpandDims")
def lower_expand_dims(x: Array, dim: Array) -> Array:
    """EXPAND_DIMS."""
    if is_computed(dim):
        return ops.expand_dims(x, as_i32(dim))
    (axis,) = axes_of(dim, rank(x) + 1, "dim")
    return ops.expand_dims(x, np.asarray(axis, np.int32))


@lowers("Squeeze")
def lower_squeeze(x: Array, *, squeeze_dims: tuple[int, ...] = ()) -> Array:
    """SQUEEZE of the dimensions named, or of all that are 1."""
    named = tuple(from_front(a, rank(x)) for a in squeeze_dims)
    if not named and any(same(d, 1) is None for d in x.shape):
        raise LowerError(
            f"a squeeze of {type_of(x)}, whose result has a rank that depends on the sizes at run time; name its axis"
        )
    axes = named or tuple(i for i, d in enumerate(x.shape) if same(d, 1))
    return ops.squeeze(x, squeeze_dims=tuple(sorted(axes))) if axes else x


@lowers("Transpose")
def lower_transpose(x: Array, perm: Array) -> Array:
    """TRANSPOSE; nothing where the order stays."""
    if is_computed(perm):
        return ops.transpose(x, as_i32(perm))
    axes = axes_of(perm, rank(x), "perm")
    return x if axes == tuple(range(rank(x))) else ops.transpose(x, np.asarray(axes, np.int32))


@lowers("ConjugateTranspose")
def lower_conjugate_transpose(x: Array, perm: Array) -> Array:
    """TRANSPOSE of the conjugates."""
    return lower_transpose(lower_conj(x) if dtype(x) is DType.c64 else x, perm)


@lowers("ConcatV2")
def lower_concat_v2(*operands: Array) -> Array:
    """CONCATENATION of all operands but the last, which is the axis."""
    *values, axis = operands
    return _concatenated(values, axis)


@lowers("Concat")
def lower_concat(axis: Array, *values: Array) -> Array:
    """CONCATENATION; the axis comes first."""
    return _concatenated(list(values), axis)


def _concatenated(values: list[Array], axis: Array) -> Array:
    (place,) = axes_of(axis, rank(values[0]))
    if len(values) == 1:
        return values[0]
    if rank(values[0]) > _DELEGATED:
        return _around(ops.concatenation(*(_in_three(v, place) for v in values), axis=1), values[0], place)
    return ops.concatenation(*values, axis=place)


_DELEGATED = 6  # dimensions: XNNPACK takes joints and cuts of more and fails on them (LiteRT 2.3.0)


def _in_three(x: Array, axis: int) -> Array:
    """x with the dimensions before the axis merged into one, and those after it."""
    return shaped(x, (product(x.shape[:axis]), x.shape[axis], product(x.shape[axis + 1 :])), x)


def _around(part: Array, x: Array, axis: int) -> Array:
    """Undo `_in_three` on a result of another size along the axis."""
    return shaped(part, (*x.shape[:axis], part.shape[1], *x.shape[axis + 1 :]), x)


@lowers("Pack")
def lower_pack(*values: Array, axis: int = 0) -> Array:
    """PACK."""
    return ops.pack(*values, axis=from_front(axis, rank(values[0]) + 1))


@lowers("Unpack")
def lower_unpack(value: Array, *, num: int, axis: int = 0) -> Any:
    """UNPACK, or STRIDED_SLICEs of wide types; an open dimension is taken to be of the size that TensorFlow knows."""
    place = from_front(axis, rank(value))
    agreed(value.shape[place], num)
    if num and 0 in value.shape:  # the kernel refuses tensors without elements
        return tuple(zeros(with_dim(value.shape, place), dtype(value), [value]) for _ in range(num))
    return tuple(unpacked(value, place)) if num else ()


@lowers("Split")
def lower_split(split_dim: Array, value: Array, *, num_split: int) -> Any:
    """SPLIT; nothing for one part."""
    if is_computed(split_dim) and 1 < rank(value) <= _DELEGATED and num_split > 1:
        return ops.split(as_i32(split_dim), value, num_splits=num_split)
    (axis,) = axes_of(split_dim, rank(value), "split_dim")
    if num_split == 1:
        return value
    if rank(value) > _DELEGATED:
        parts = ops.split(np.int32(1), _in_three(value, axis), num_splits=num_split)
        return tuple(_around(part, value, axis) for part in parts)
    return ops.split(np.asarray(axis, np.int32), value, num_splits=num_split)


@lowers("SplitV")
def lower_split_v(value: Array, size_splits: Array, split_dim: Array, *, num_split: int) -> Any:
    """SPLIT_V; nothing for one part."""
    sizes = as_i32(size_splits) if is_computed(size_splits) else i32_operand(size_splits, "size_splits")
    if is_computed(split_dim) and 1 < rank(value) and num_split > 1:
        return ops.split_v(value, sizes, as_i32(split_dim))
    (axis,) = axes_of(split_dim, rank(value), "split_dim")
    return value if num_split == 1 else ops.split_v(value, sizes, np.asarray(axis, np.int32))


@lowers("Pad")
def lower_pad(x: Array, paddings: Array) -> Array:
    """PAD; nothing where all amounts are 0."""
    return _padded(x, sizes_operand(paddings), None)


@lowers("PadV2")
def lower_pad_v2(x: Array, paddings: Array, constant_values: Array) -> Array:
    """PADV2, or PAD where the padding is a constant 0."""
    return _padded(x, sizes_operand(paddings), None if _is_zero(constant_values) else constant_values)


def _padded(x: Array, amounts: Array, value: Array | None) -> Array:
    if _is_zero(amounts):
        return x
    if rank(x) > _PADDED and is_constant(amounts):
        return _padded_in_parts(x, amounts, value)
    return ops.pad(x, amounts) if value is None else ops.padv2(x, amounts, value)


_PADDED = 5  # dimensions at most, of PAD


def _padded_in_parts(x: Array, amounts: Array, value: Array | None) -> Array:
    """Two dimensions at a time, with those around them merged."""
    for axis in range(0, rank(x), 2):
        some = amounts[axis : axis + 2]
        before, own, after = x.shape[:axis], x.shape[axis : axis + 2], x.shape[axis + 2 :]
        merged = shaped(x, (product(before), *own, product(after)), x)
        padded = _padded(merged, np.array([[0, 0], *some, [0, 0]], np.int32), value)
        x = shaped(padded, (*before, *padded.shape[1:-1], *after), x)
    return x


@lowers("MirrorPad")
def lower_mirror_pad(x: Array, paddings: Array, *, mode: str) -> Array:
    """MIRROR_PAD."""
    amounts = sizes_operand(paddings)
    return x if _is_zero(amounts) else ops.mirror_pad(x, amounts, mode=mode)


def _is_zero(x: Array) -> bool:
    return is_constant(x) and not np.any(x)


@lowers("Tile")
def lower_tile(x: Array, multiples: Array) -> Array:
    """TILE; nothing where nothing is repeated."""
    counts = sizes_operand(multiples)
    return x if is_constant(counts) and np.all(counts == 1) else ops.tile(x, counts)


@lowers("BroadcastTo")
def lower_broadcast_to(x: Array, shape: Array) -> Array:
    """BROADCAST_TO; nothing where the shape stays."""
    target = known_sizes(shape)
    if target is None:
        return ops.broadcast_to(x, as_i32(shape))
    x = fitted(x, target)
    return x if _is_shape(x, target) else ops.broadcast_to(x, sizes_operand(shape))


@lowers("BroadcastArgs")
def lower_broadcast_args(s0: Array, s1: Array) -> Array:
    """BROADCAST_ARGS."""
    return ops.broadcast_args(s0, s1)


@lowers("BroadcastGradientArgs")
def lower_broadcast_gradient_args(s0: Array, s1: Array) -> tuple[Array, ...]:
    """For each of two shapes the axes along which it is broadcast: constants, the shapes being known."""
    shapes = [static(s, "a shape") for s in (s0, s1)]
    rank_ = max(map(len, shapes))
    first, second = ((1,) * (rank_ - len(s)) + tuple(s) for s in shapes)
    pairs = list(enumerate(zip(first, second, strict=True)))
    if any(same(v, 1) is None for _, pair in pairs for v in pair):
        raise LowerError("whether a gradient is summed depends on open sizes", found=f"{first} and {second}")
    ones = ([i for i, (d, e) in pairs if d == 1], [i for i, (d, e) in pairs if e == 1])
    return tuple(np.asarray(axes, dtype(s0).numpy) for axes in ones)


@lowers("Fill")
def lower_fill(dims: Array, value: Array) -> Array:
    """FILL; a constant where sizes and value are."""
    return ops.fill(sizes_operand(dims), value)


@lowers("Empty")
def lower_empty(shape: Array, *, dtype: DType, init: bool = False) -> Array:
    """Zeros, also where TensorFlow leaves what was in memory."""
    return lower_fill(shape, np.zeros((), dtype.numpy))


# Ops that watch values and let them pass: they mean nothing in a file.


@lowers("Print")
def lower_print(x: Array, *data: Array, message: str = "", first_n: int = -1, summarize: int = 3) -> Array:
    """The first operand; nothing is printed."""
    return x


@lowers("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3")
def lower_debug_identity(x: Array, **watched: Any) -> Array:
    """The operand; gradients and debuggers mean nothing here."""
    return x


# Rules for Shape, Size and Rank: shapes as run-time tensors, with symbolic dimensions in them.


@lowers("Shape")
def lower_shape(x: Array, *, out_type: DType = DType.i32) -> Array:
    """The sizes; a constant where all are known."""
    return ops.shape(x, out_type=out_type)


@lowers("ShapeN")
def lower_shape_n(*tensors: Array, out_type: DType = DType.i32) -> tuple[Array, ...]:
    """The sizes of each tensor."""
    return tuple(ops.shape(x, out_type=out_type) for x in tensors)


@lowers("Size")
def lower_size(x: Array, *, out_type: DType = DType.i32) -> Array:
    """The number of elements: the product of the sizes."""
    return ops.reduce_prod(ops.shape(x, out_type=out_type), np.zeros(1, np.int32), keep_dims=False)


@lowers("Rank")
def lower_rank(x: Array) -> Array:
    """The number of dimensions, always a constant."""
    return np.asarray(rank(x), np.int32)


@lowers("EnsureShape")
def lower_ensure_shape(x: Array, *, shape: Sequence[int] | None = None) -> Array:
    """x, or a RESHAPE where its sizes are not known to be these: it fails at run time where TensorFlow does."""
    if shape is None:
        return x
    return shaped(x, tuple(d if size < 0 else size for d, size in zip(x.shape, shape, strict=True)))
