"""Primitives about shapes: reshapes, broadcasts, slices, pads, joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, Shape, is_known, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_jax


@lowers_jax("reshape")
def lower_reshape(x: Array, *, new_sizes: Shape, dimensions: Sequence[int] | None = None) -> Array:
    """RESHAPE, of the axes in the order `dimensions` where that is given."""
    return shaped(x if dimensions is None else ops.transpose(x, tuple(dimensions)), tuple(new_sizes), *sources())


@lowers_jax("squeeze")
def lower_squeeze(x: Array, *, dimensions: Sequence[int]) -> Array:
    """x without these axes of size 1."""
    return shaped(x, tuple(d for axis, d in enumerate(x.shape) if axis not in dimensions), *sources())


@lowers_jax("expand_dims")
def lower_expand_dims(x: Array, *, dimensions: Sequence[int]) -> Array:
    """x with axes of size 1 at these places of the result."""
    rest = iter(x.shape)
    result = rank(x) + len(dimensions)
    return shaped(x, tuple(1 if axis in dimensions else next(rest) for axis in range(result)), *sources())


@lowers_jax("broadcast_in_dim")
def lower_broadcast_in_dim(x: Array, *dynamic: Array, shape: Shape, broadcast_dimensions: Sequence[int]) -> Array:
    """x with its axes at `broadcast_dimensions` of the result, repeated along the others."""
    wide: list[Dim] = [1] * len(shape)
    for axis, place in enumerate(broadcast_dimensions):
        wide[place] = x.shape[axis]
    return broadcast(shaped(x, tuple(wide), *sources()), tuple(shape))


def broadcast(x: Array, shape: Shape) -> Array:
    """x of the same rank, repeated along its axes of size 1 where `shape` has more."""
    if all(same(d, e) is True for d, e in zip(x.shape, shape, strict=True)):
        return x
    if is_constant(x) and all(map(is_known, shape)):
        return np.broadcast_to(np.asarray(x), [int(d) for d in shape])
    if is_constant(x) and np.asarray(x).size == 1:
        return ops.fill(shape_tensor(shape, sources()), np.asarray(x).reshape(()))
    return ops.broadcast_to(x, shape_tensor(shape, [x, *sources()]))


@lowers_jax("transpose")
def lower_transpose(x: Array, *, permutation: Sequence[int]) -> Array:
    """TRANSPOSE."""
    return x if list(permutation) == list(range(rank(x))) else ops.transpose(x, tuple(permutation))


@lowers_jax("rev")
def lower_rev(x: Array, *, dimensions: Sequence[int]) -> Array:
    """The axes in reverse."""
    for axis in dimensions:
        x = ops.reverse_v2(x, np.array([axis], np.int32))
    return x


@lowers_jax("concatenate")
def lower_concatenate(*operands: Array, dimension: int) -> Array:
    """CONCATENATION."""
    return DEFAULT.lowers["ConcatV2"](*operands, np.int32(dimension))


@lowers_jax("stack")
def lower_stack(*operands: Array, axis: int) -> Array:
    """PACK."""
    return ops.pack(*operands, axis=axis)


@lowers_jax("unstack")
def lower_unstack(x: Array, *, axis: int) -> list[Array]:
    """UNPACK, which gives as many results as the axis has elements."""
    return list(unpacked(x, axis))


@lowers_jax("split")
def lower_split(x: Array, *, sizes: Sequence[Dim], axis: int) -> Any:
    """Parts of these sizes."""
    return DEFAULT.lowers["SplitV"](
        x, shape_tensor(tuple(sizes), [x, *sources()]), np.int32(axis), num_split=len(sizes)
    )


@lowers_jax("slice")
def lower_slice(
    x: Array, *, start_indices: Sequence[Dim], limit_indices: Sequence[Dim], strides: Sequence[int] | None
) -> Array:
    """x[start:limit:stride] along each axis."""
    ends = [same(limit, size) for limit, size in zip(limit_indices, x.shape, strict=True)]
    mask = sum(1 << axis for axis, whole in enumerate(ends) if whole)
    begin, end = (shape_tensor(tuple(v), [x, *sources()]) for v in (start_indices, limit_indices))
    steps = np.array([1] * rank(x) if strides is None else strides, np.int32)
    return DEFAULT.lowers["StridedSlice"](x, begin, end, steps, end_mask=mask)


@lowers_jax("pad")
def lower_pad(x: Array, value: Array, *, padding_config: Sequence[Sequence[int]]) -> Array:
    """x with `value` around its elements and between them; a negative width cuts off."""
    between = [1 + int(inner) for _, _, inner in padding_config]
    if any(step != 1 for step in between):
        x = ops.dilate(x, np.array(between, np.int32), value)
    widths = [(low, high) for low, high, _ in padding_config]
    if any(_is_more(w) for pair in widths for w in pair):
        added = [tuple(w if _is_more(w) else 0 for w in pair) for pair in widths]
        rows = [shape_tensor(pair, [x, *sources()]) for pair in added]
        paddings = np.stack(rows) if all(map(is_constant, rows)) else ops.pack(*rows)
        x = DEFAULT.lowers["PadV2"](x, paddings, value)
    if any(is_known(w) and w < 0 for pair in widths for w in pair):
        cuts = [tuple(-int(w) if is_known(w) and w < 0 else 0 for w in pair) for pair in widths]
        ends = tuple(size - high for size, (_, high) in zip(x.shape, cuts, strict=True))
        x = lower_slice(x, start_indices=[low for low, _ in cuts], limit_indices=ends, strides=None)
    return x


def _is_more(width: Dim) -> bool:
    return not is_known(width) or width > 0


@lowers_jax("iota")
def lower_iota(*dynamic: Array, dtype: Any, shape: Shape, dimension: int) -> Array:
    """0, 1, … along one axis."""
    numbers = counted(shape[dimension], *sources())
    type_ = DType.of(np.dtype(dtype))
    if type_ is not DType.i32:
        numbers = ops.cast(numbers, out_data_type=type_)
    column = tuple(size if axis == dimension else 1 for axis, size in enumerate(shape))
    return broadcast(shaped(numbers, column, *sources()), tuple(shape))


@lowers_jax("dim_as_value")
def lower_dim_as_value(*, dim: Dim) -> Array:
    """An open size as i32[]."""
    return size_tensor(dim, sources())


@lowers_jax("tile")
def lower_tile(x: Array, *, reps: Sequence[Dim]) -> Array:
    """TILE."""
    return ops.tile(x, shape_tensor(tuple(reps), [x, *sources()]))


def as_dtype(x: Array, type_: DType) -> Array:
    """CAST where the dtype differs."""
    return x if dtype(x) is type_ else ops.cast(x, out_data_type=type_)
