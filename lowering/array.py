"""Layout in TensorFlow's ops: reshape, transpose, concatenate, pack, split, pad, tile, fill.

Targets and sizes that follow from shapes become constants wherever TFLite can take them as such, so that no shape
arithmetic is left for run time.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.dims import Shape, is_known, same
from jfuse.kernels import ops
from jfuse.kernels.layout import agreed, from_front, resolved_shape
from jfuse.kernels.op import Array
from jfuse.lowering.operands import as_i32, i32_operand
from jfuse.lowering.query import axes_of, is_constant, rank, static, type_of
from jfuse.lowering.rules import lowers


def reshaped(x: Array, target: Shape, shape: Array) -> Array:
    """x in the shape `target`, which `shape` computes: with a constant where one size at most is open."""
    target = resolved_shape(x.shape, target)
    if _is_shape(x, target):
        return x
    open_ = [i for i, d in enumerate(target) if not is_known(d)]
    if len(open_) > 1 or (open_ and 0 in target):
        return ops.reshape(x, as_i32(shape))
    return ops.reshape(x, np.array([d if is_known(d) else -1 for d in target], np.int32))


def _is_shape(x: Array, target: Shape) -> bool:
    return rank(x) == len(target) and all(same(d, e) for d, e in zip(x.shape, target, strict=True))


@lowers("Reshape")
def lower_reshape(tensor: Array, shape: Array) -> Array:
    """RESHAPE, with -1 for the one size that is open."""
    return reshaped(tensor, static(shape, "shape"), shape)


@lowers("ExpandDims")
def lower_expand_dims(x: Array, dim: Array) -> Array:
    """EXPAND_DIMS."""
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
    axes = axes_of(perm, rank(x), "perm")
    return x if axes == tuple(range(rank(x))) else ops.transpose(x, np.asarray(axes, np.int32))


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
    return values[0] if len(values) == 1 else ops.concatenation(*values, axis=place)


@lowers("Pack")
def lower_pack(*values: Array, axis: int = 0) -> Array:
    """PACK."""
    return ops.pack(*values, axis=from_front(axis, rank(values[0]) + 1))


@lowers("Unpack")
def lower_unpack(value: Array, *, num: int, axis: int = 0) -> Any:
    """UNPACK; an open dimension is taken to be of the size that TensorFlow knows."""
    place = from_front(axis, rank(value))
    agreed(value.shape[place], num)
    return ops.unpack(value, axis=place) if num else ()


@lowers("Split")
def lower_split(split_dim: Array, value: Array, *, num_split: int) -> Any:
    """SPLIT; nothing for one part."""
    (axis,) = axes_of(split_dim, rank(value), "split_dim")
    return value if num_split == 1 else ops.split(np.asarray(axis, np.int32), value, num_splits=num_split)


@lowers("SplitV")
def lower_split_v(value: Array, size_splits: Array, split_dim: Array, *, num_split: int) -> Any:
    """SPLIT_V; nothing for one part."""
    (axis,) = axes_of(split_dim, rank(value), "split_dim")
    sizes = i32_operand(size_splits, "size_splits")
    return value if num_split == 1 else ops.split_v(value, sizes, np.asarray(axis, np.int32))


@lowers("Pad")
def lower_pad(x: Array, paddings: Array) -> Array:
    """PAD; nothing where all amounts are 0."""
    amounts = i32_operand(paddings, "paddings")
    return x if _is_zero(amounts) else ops.pad(x, amounts)


@lowers("PadV2")
def lower_pad_v2(x: Array, paddings: Array, constant_values: Array) -> Array:
    """PADV2, or PAD where the padding is a constant 0."""
    amounts = i32_operand(paddings, "paddings")
    if _is_zero(amounts):
        return x
    return ops.pad(x, amounts) if _is_zero(constant_values) else ops.padv2(x, amounts, constant_values)


@lowers("MirrorPad")
def lower_mirror_pad(x: Array, paddings: Array, *, mode: str) -> Array:
    """MIRROR_PAD."""
    amounts = i32_operand(paddings, "paddings")
    return x if _is_zero(amounts) else ops.mirror_pad(x, amounts, mode=mode)


def _is_zero(x: Array) -> bool:
    return is_constant(x) and not np.any(x)


@lowers("Tile")
def lower_tile(x: Array, multiples: Array) -> Array:
    """TILE; nothing where nothing is repeated."""
    counts = i32_operand(multiples, "multiples")
    return x if is_constant(counts) and np.all(counts == 1) else ops.tile(x, counts)


@lowers("BroadcastTo")
def lower_broadcast_to(x: Array, shape: Array) -> Array:
    """BROADCAST_TO; nothing where the shape stays."""
    target = static(shape, "shape")
    return x if _is_shape(x, target) else ops.broadcast_to(x, i32_operand(shape, "shape"))


@lowers("BroadcastArgs")
def lower_broadcast_args(s0: Array, s1: Array) -> Array:
    """BROADCAST_ARGS."""
    return ops.broadcast_args(s0, s1)


@lowers("Fill")
def lower_fill(dims: Array, value: Array) -> Array:
    """FILL; a constant where sizes and value are."""
    return ops.fill(i32_operand(dims, "dims"), value)


@lowers("ReverseV2")
def lower_reverse_v2(x: Array, axis: Array) -> Array:
    """REVERSE_V2, once for each run of adjacent axes, which is what the runtime takes."""
    for run in _adjacent(sorted(axes_of(axis, rank(x)))):
        x = ops.reverse_v2(x, np.asarray(run, np.int32))
    return x


def _adjacent(axes: list[int]) -> list[list[int]]:
    runs: list[list[int]] = []
    for axis in axes:
        if runs and runs[-1][-1] == axis - 1:
            runs[-1].append(axis)
        else:
            runs.append([axis])
    return runs


@lowers("ReverseSequence")
def lower_reverse_sequence(x: Array, seq_lengths: Array, *, seq_dim: int, batch_dim: int = 0) -> Array:
    """REVERSE_SEQUENCE."""
    return ops.reverse_sequence(x, seq_lengths, seq_dim=seq_dim, batch_dim=batch_dim)


@lowers("InvertPermutation")
def lower_invert_permutation(x: Array) -> Array:
    """The inverse of a constant permutation."""
    if not is_constant(x):
        raise LowerError("a permutation that is computed at run time has no inverse in TFLite", found=str(type_of(x)))
    return np.argsort(x).astype(x.dtype)
