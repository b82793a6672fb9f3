"""Operators about shapes: views, joins, pads, slices, and tensors made of sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, floor_divided, is_known, product, same
from jfuse.ir.graph import Var
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.shapes import broadcast, lower_pad, lower_slice
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import is_constant, rank, scalar
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_torch

_LAST = 2**62
"""Ends beyond this are the end of the axis."""


def from_front(dim: int, x: Array | int) -> int:
    """An axis counted from the front.   x: the tensor, or its rank"""
    count = x if isinstance(x, int) else rank(x)
    return dim + count if dim < 0 else dim


def transposed(x: Array, order: Sequence[int]) -> Array:
    """TRANSPOSE, where it does anything."""
    return x if list(order) == list(range(rank(x))) else ops.transpose(x, tuple(int(a) for a in order))


def to_last(x: Array, dim: int, apply: Callable[[Array], Array]) -> Array:
    """A function of the last axis on another one."""
    axis, last = from_front(dim, x), rank(x) - 1
    if rank(x) == 0 or axis == last:
        return apply(x)
    order = [i if i not in (axis, last) else axis + last - i for i in range(rank(x))]
    return transposed(apply(transposed(x, order)), order)


@lowers_torch("aten.view", "aten.reshape", "aten._unsafe_view", "aten._reshape_copy", "aten.view_copy")
def lower_view(x: Array, size: Sequence[Dim]) -> Array:
    """RESHAPE; -1 is what is left over."""
    sizes = list(size)
    places = [i for i, d in enumerate(sizes) if is_known(d) and int(d) == -1]
    if places:
        rest = product(tuple(d for i, d in enumerate(sizes) if i != places[0]))
        total = product(tuple(x.shape))
        sizes[places[0]] = floor_divided(total, int(rest)) if is_known(rest) and rest else total // rest
    return shaped(x, tuple(sizes), x, *sources())


@lowers_torch("aten.flatten")
def lower_flatten(x: Array, start_dim: int = 0, end_dim: int = -1) -> Array:
    """Axes merged into one."""
    first, last = from_front(start_dim, x), from_front(end_dim, x)
    if rank(x) == 0:
        return shaped(x, (1,))
    return shaped(x, (*x.shape[:first], product(tuple(x.shape[first : last + 1])), *x.shape[last + 1 :]), *sources())


@lowers_torch("aten.unflatten")
def lower_unflatten(x: Array, dim: int, sizes: Sequence[Dim]) -> Array:
    """An axis as several."""
    axis = from_front(dim, x)
    return lower_view(x, [*x.shape[:axis], *sizes, *x.shape[axis + 1 :]])


@lowers_torch("aten.squeeze")
def lower_squeeze(x: Array, dim: int | Sequence[int] | None = None) -> Array:
    """x without its axes of size 1, or without those named, where they are of size 1."""
    named = range(rank(x)) if dim is None else [dim] if isinstance(dim, int) else dim
    gone = {from_front(a, x) for a in named}
    ones = tuple(i for i in sorted(gone) if same(x.shape[i], 1) is True)
    shape_left = tuple(d for i, d in enumerate(x.shape) if i not in ones)
    if ones and _is_open(shape_left):
        return ops.squeeze(x, squeeze_dims=ones)
    return shaped(x, shape_left, x, *sources())


def _is_open(shape: Sequence[Dim]) -> bool:
    """Whether RESHAPE would need these sizes at run time: EXPAND_DIMS and SQUEEZE know them before."""
    return sum(not is_known(d) for d in shape) > 1


@lowers_torch("aten.unsqueeze")
def lower_unsqueeze(x: Array, dim: int) -> Array:
    """x with one more axis of size 1."""
    axis = from_front(dim, rank(x) + 1)
    if _is_open(x.shape):
        return ops.expand_dims(x, np.int32(axis))
    return shaped(x, (*x.shape[:axis], 1, *x.shape[axis:]), x, *sources())


@lowers_torch("aten.permute", "aten.permute_copy")
def lower_permute(x: Array, dims: Sequence[int]) -> Array:
    """TRANSPOSE"""
    return transposed(x, [from_front(d, x) for d in dims])


@lowers_torch("aten.transpose", "aten.swapaxes", "aten.transpose_copy")
def lower_transpose(x: Array, first: int, second: int) -> Array:
    """Two axes swapped."""
    order = list(range(rank(x)))
    a, b = from_front(first, x), from_front(second, x)
    order[a], order[b] = b, a
    return transposed(x, order)


@lowers_torch("aten.t", "aten.numpy_T", "aten.mT")
def lower_t(x: Array) -> Array:
    """The last two axes swapped."""
    return x if rank(x) < 2 else lower_transpose(x, -2, -1)


@lowers_torch("aten.movedim")
def lower_movedim(x: Array, source: int | Sequence[int], destination: int | Sequence[int]) -> Array:
    """Axes at other places."""
    froms, tos = ([v] if isinstance(v, int) else v for v in (source, destination))
    placed = {from_front(t, x): from_front(f, x) for f, t in zip(froms, tos, strict=True)}
    rest = iter(i for i in range(rank(x)) if i not in placed.values())
    return transposed(x, [placed[i] if i in placed else next(rest) for i in range(rank(x))])


@lowers_torch("aten.expand", "aten.expand_copy", "aten.broadcast_to")
def lower_expand(x: Array, size: Sequence[Dim]) -> Array:
    """x repeated along its axes of size 1, and along new ones in front; -1 keeps a size."""
    missing = len(size) - rank(x)
    wide = shaped(x, (*[1] * missing, *x.shape), x, *sources())
    sizes_ = tuple(old if is_known(d) and int(d) == -1 else d for d, old in zip(size, wide.shape, strict=True))
    return broadcast(wide, sizes_)


@lowers_torch("aten.expand_as")
def lower_expand_as(x: Array, other: Array) -> Array:
    """x in the shape of another."""
    return lower_expand(x, tuple(other.shape))


@lowers_torch("aten.repeat", "aten.tile")
def lower_repeat(x: Array, repeats: Sequence[Dim]) -> Array:
    """TILE"""
    missing = len(repeats) - rank(x)
    wide = shaped(x, (*[1] * max(missing, 0), *x.shape), x, *sources())
    counts = (*[1] * max(-missing, 0), *repeats)
    if all(same(c, 1) for c in counts):
        return wide
    return ops.tile(wide, shape_tensor(counts, [x, *sources()]))


@lowers_torch("aten.repeat_interleave")
def lower_repeat_interleave(x: Array, repeats: Any, dim: int | None = None, *, output_size: Any = None) -> Array:
    """Each element several times in a row.   repeats: a number"""
    if isinstance(repeats, Var):
        raise LowerError("repeats that are computed", remedy="repeat by a fixed number")
    if dim is None:
        x, dim = lower_view(x, [-1]), 0
    axis = from_front(dim, x)
    if not isinstance(repeats, int):
        places = np.repeat(np.arange(len(repeats)), np.asarray(repeats)).astype(np.int32)
        return ops.gather(x, places, axis=axis)
    wide = shaped(x, (*x.shape[: axis + 1], 1, *x.shape[axis + 1 :]), x, *sources())
    many = broadcast(wide, (*x.shape[: axis + 1], repeats, *x.shape[axis + 1 :]))
    return shaped(many, (*x.shape[:axis], x.shape[axis] * repeats, *x.shape[axis + 1 :]), x, *sources())


@lowers_torch("aten.cat", "aten.concat", "aten.concatenate")
def lower_cat(tensors: Sequence[Array], dim: int = 0) -> Array:
    """CONCATENATION, without those of shape [0], which PyTorch passes over."""
    parts = [t for t in tensors if not (rank(t) == 1 and same(t.shape[0], 0))]
    parts = parts or list(tensors[:1])
    if len(parts) == 1:
        return parts[0]
    return DEFAULT.lowers["ConcatV2"](*parts, np.int32(from_front(dim, parts[0])))


@lowers_torch("aten.stack")
def lower_stack(tensors: Sequence[Array], dim: int = 0) -> Array:
    """PACK"""
    return ops.pack(*tensors, axis=from_front(dim, rank(tensors[0]) + 1))


@lowers_torch("aten.split", "aten.split_with_sizes", "aten.split_with_sizes_copy", "aten.split_copy")
def lower_split(x: Array, sizes: int | Sequence[int], dim: int = 0) -> list[Array]:
    """Parts of these sizes, or of one size, the last one smaller."""
    axis = from_front(dim, x)
    if isinstance(sizes, int):
        total = _known(x.shape[axis], "a split")
        sizes = [min(sizes, total - first) for first in range(0, max(total, 1), sizes)]
    if len(sizes) == 1:
        return [x]
    if len(set(sizes)) == 1:
        return list(ops.split(np.int32(axis), x, num_splits=len(sizes)))
    return list(ops.split_v(x, np.asarray(sizes, np.int32), np.int32(axis)))


@lowers_torch("aten.chunk")
def lower_chunk(x: Array, chunks: int, dim: int = 0) -> list[Array]:
    """So many parts, the last one smaller."""
    total = _known(x.shape[from_front(dim, x)], "a split")
    parts: list[Array] = lower_split(x, -(-total // chunks), dim)
    return parts


@lowers_torch("aten.unbind", "aten.unbind_copy")
def lower_unbind(x: Array, dim: int = 0) -> list[Array]:
    """UNPACK"""
    return list(unpacked(x, from_front(dim, x)))


def _known(size: Dim, what: str) -> int:
    if not is_known(size):
        raise LowerError(f"{what} over an open size", found=str(size), remedy="fix the size of the axis")
    return int(size)


@lowers_torch("aten.slice", "aten.slice_copy")
def lower_slice_(x: Array, dim: int = 0, start: Dim | None = None, end: Dim | None = None, step: int = 1) -> Array:
    """x[start:end:step] along an axis."""
    axis, size = from_front(dim, x), x.shape[from_front(dim, x)]
    first = _bound(0 if start is None else start, size)
    last = size if end is None or (is_known(end) and int(end) >= _LAST) else _bound(end, size)
    if same(first, 0) and same(last, size) and step == 1:
        return x
    if step == 1 and is_known(size) and not (is_known(first) and is_known(last)):
        # Between open sizes: PyTorch's graph holds for sizes within the axis only, so that they are the result's.
        places = counted(last - first, x, *sources())
        begin = size_tensor(first, [x, *sources()])
        return ops.gather(x, places if same(first, 0) else ops.add(places, begin), axis=axis)
    starts = [first if i == axis else 0 for i in range(rank(x))]
    limits = [last if i == axis else d for i, d in enumerate(x.shape)]
    strides = [step if i == axis else 1 for i in range(rank(x))]
    return lower_slice(x, start_indices=starts, limit_indices=limits, strides=strides)


def _bound(bound: Dim, size: Dim) -> Dim:
    """A bound within an axis."""
    if not is_known(bound):
        return bound
    if is_known(size):
        return int(np.clip(int(bound) + int(size) if bound < 0 else int(bound), 0, int(size)))
    return size + bound if bound < 0 else int(bound)


@lowers_torch("aten.select", "aten.select_copy")
def lower_select(x: Array, dim: int, index: Any) -> Array:
    """x[index] along an axis.   index: a number, or a scalar that is computed"""
    axis = from_front(dim, x)
    rest = (*x.shape[:axis], *x.shape[axis + 1 :])
    if isinstance(index, Var):
        return ops.gather(x, as_type(index, DType.i32), axis=axis)
    value = filled(x)
    if value is not None:
        return broadcast_value(value, rest)
    place = index if not is_known(index) or index >= 0 else x.shape[axis] + int(index)
    return shaped(lower_slice_(x, axis, place, place + 1), rest, x, *sources())


def filled(x: Array) -> np.ndarray | None:
    """The one value of a tensor that FILL makes in the active trace."""
    made_by = producer(x)
    if made_by is None or made_by.op is not ops.fill or not is_constant(made_by.inputs[1]):
        return None
    return np.asarray(made_by.inputs[1].array)  # type: ignore[union-attr]


def broadcast_value(value: np.ndarray, shape: Sequence[Dim]) -> Array:
    """A scalar in a shape, FILL where that is open."""
    if all(map(is_known, shape)):
        return np.full([int(d) for d in shape], value)
    return ops.fill(shape_tensor(tuple(shape), sources()), value)


@lowers_torch("aten.constant_pad_nd")
def lower_constant_pad(x: Array, pad: Sequence[Dim], value: Any = 0) -> Array:
    """x with a value around it; a known negative width cuts off.   pad: before and after, from the last axis on"""
    return lower_pad(x, scalar(value, x), padding_config=[(*pair, 0) for pair in _sides(x, pad)])


@lowers_torch("aten.pad")
def lower_any_pad(x: Array, pad: Sequence[Dim], mode: str = "constant", value: Any = None) -> Array:
    """Pads of a value, of what is reflected, of the edges, or of the other end."""
    if mode == "constant":
        return lower_constant_pad(x, pad, 0 if value is None else value)
    return {"reflect": lower_reflection_pad, "replicate": lower_replication_pad, "circular": lower_circular_pad}[mode](
        x, pad
    )


@lowers_torch("aten.reflection_pad1d", "aten.reflection_pad2d", "aten.reflection_pad3d")
def lower_reflection_pad(x: Array, pad: Sequence[Dim]) -> Array:
    """MIRROR_PAD without the edges."""
    return ops.mirror_pad(x, np.asarray(_known_sides(x, pad), np.int32), mode="REFLECT")


@lowers_torch("aten.replication_pad1d", "aten.replication_pad2d", "aten.replication_pad3d")
def lower_replication_pad(x: Array, pad: Sequence[Dim]) -> Array:
    """The edges repeated."""
    for axis, (low, high) in enumerate(_known_sides(x, pad)):
        before, after = [lower_slice_(x, axis, 0, 1)] * low, [lower_slice_(x, axis, -1)] * high
        x = lower_cat([*before, x, *after], axis)
    return x


@lowers_torch("aten._pad_circular")
def lower_circular_pad(x: Array, pad: Sequence[Dim]) -> Array:
    """The other end in front and behind."""
    for axis, (low, high) in enumerate(_known_sides(x, pad)):
        before = [lower_slice_(x, axis, -low)] if low else []
        after = [lower_slice_(x, axis, 0, high)] if high else []
        x = lower_cat([*before, x, *after], axis)
    return x


def _sides(x: Array, pad: Sequence[Dim]) -> list[tuple[Dim, Dim]]:
    """Widths before and after each axis."""
    pairs: list[tuple[Dim, Dim]] = [*zip(pad[::2], pad[1::2], strict=True)]
    return [(0, 0)] * (rank(x) - len(pairs)) + pairs[::-1]


def _known_sides(x: Array, pad: Sequence[Dim]) -> list[tuple[int, int]]:
    what = "a pad of elements of the tensor itself"
    return [(_known(low, what), _known(high, what)) for low, high in _sides(x, pad)]


@lowers_torch("aten.flip")
def lower_flip(x: Array, dims: Sequence[int]) -> Array:
    """The axes in reverse."""
    for dim in dims:
        x = ops.reverse_v2(x, np.array([from_front(dim, x)], np.int32))
    return x


@lowers_torch("aten.roll")
def lower_roll(x: Array, shifts: Sequence[int], dims: Sequence[int] = ()) -> Array:
    """Elements moved along axes, those that leave at one end coming in at the other."""
    if not dims:
        return lower_view(lower_roll(lower_view(x, [-1]), shifts, [0]), tuple(x.shape))
    for shift, dim in zip(shifts, dims, strict=True):
        size = _known(x.shape[from_front(dim, x)], "a roll")
        first = -shift % size if size else 0
        if first:
            x = lower_cat([lower_slice_(x, dim, first), lower_slice_(x, dim, 0, first)], dim)
    return x
