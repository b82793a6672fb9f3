"""Operators of StableHLO that make, move and take elements."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.rules import ModuleReader, reads
from jfuse.frontends.stablehlo.values import (
    are_sizes,
    as_array,
    as_sizes,
    complex_constant,
    constant,
    is_sizes,
    result_type,
)


def integers(op: Any, name: str) -> list[int]:
    """The integers of an attribute, [] where it is absent."""
    return [int(i) for i in op.attributes[name]] if name in op.attributes else []


@reads("stablehlo.constant")
def _constant(reader: ModuleReader, op: Any) -> Any:
    _, kind = result_type(op)
    return complex_constant(op) if kind.kind == "c" else constant(op.attributes["value"])


@reads("stablehlo.get_dimension_size")
def _size(reader: ModuleReader, op: Any, x: Any) -> Any:
    size = x.shape[int(op.attributes["dimension"])]
    return np.asarray(size, np.int32) if isinstance(size, int) else _scalar(size)


def _scalar(size: Any) -> np.ndarray:
    scalar = np.empty((), object)
    scalar[()] = size
    return scalar


@reads("stablehlo.reshape")
def _reshape(reader: ModuleReader, op: Any, x: Any) -> Any:
    sizes, _ = result_type(op)
    if isinstance(x, np.ndarray):
        return x.reshape(sizes)
    if -1 not in sizes:
        return lax.reshape(x, sizes)
    if sizes.count(-1) == 1:
        return jnp.reshape(x, sizes)
    raise ImportFailed("a reshape to several open sizes that nothing states", found=str(op)[:200])


@reads("stablehlo.dynamic_reshape")
def _dynamic_reshape(reader: ModuleReader, op: Any, x: Any, shape: Any) -> Any:
    return lax.reshape(as_array(x), as_sizes(shape))


@reads("stablehlo.broadcast_in_dim")
def _broadcast(reader: ModuleReader, op: Any, x: Any) -> Any:
    sizes, kind = result_type(op)
    axes = integers(op, "broadcast_dimensions")
    if isinstance(x, np.ndarray) and not sizes:
        return x
    if isinstance(x, np.ndarray) and x.size < 16 and np.prod(sizes) < 16 and is_sizes(x):
        return np.broadcast_to(
            x.reshape([x.shape[axes.index(i)] if i in axes else 1 for i in range(len(sizes))]), sizes
        )
    return lax.broadcast_in_dim(as_array(x, kind), sizes, axes)


@reads("stablehlo.dynamic_broadcast_in_dim")
def _dynamic_broadcast(reader: ModuleReader, op: Any, x: Any, shape: Any) -> Any:
    return lax.broadcast_in_dim(as_array(x, result_type(op)[1]), as_sizes(shape), integers(op, "broadcast_dimensions"))


@reads("stablehlo.transpose")
def _transpose(reader: ModuleReader, op: Any, x: Any) -> Any:
    return lax.transpose(x, integers(op, "permutation"))


@reads("stablehlo.reverse")
def _reverse(reader: ModuleReader, op: Any, x: Any) -> Any:
    return lax.rev(x, integers(op, "dimensions"))


@reads("stablehlo.concatenate")
def _concatenate(reader: ModuleReader, op: Any, *parts: Any) -> Any:
    axis = int(op.attributes["dimension"])
    if are_sizes(parts):
        return np.concatenate([np.asarray(p, object) for p in parts], axis)
    return lax.concatenate([as_array(p, result_type(op)[1]) for p in parts], axis)


@reads("stablehlo.slice")
def _slice(reader: ModuleReader, op: Any, x: Any) -> Any:
    starts, ends, strides = (integers(op, n) for n in ("start_indices", "limit_indices", "strides"))
    if is_sizes(x):
        return x[tuple(map(slice, starts, ends, strides))]
    return lax.slice(x, starts, ends, strides)


@reads("stablehlo.real_dynamic_slice")
def _real_dynamic_slice(reader: ModuleReader, op: Any, x: Any, starts: Any, ends: Any, strides: Any) -> Any:
    if isinstance(starts, np.ndarray):
        return lax.slice(x, as_sizes(starts), as_sizes(ends), as_sizes(strides))
    begin, end = (_made_by(o) for o in op.operands[1:3])  # jax writes a dynamic_slice of open sizes so
    if end is None or end.name != "stablehlo.add" or op.operands[1] not in end.operands:
        raise ImportFailed("a slice of StableHLO whose size is computed from data")
    (size,) = (o for o in end.operands if o != op.operands[1])
    clamped = begin is not None and begin.name == "stablehlo.clamp"
    first = begin.operands[1] if clamped else op.operands[1]
    return lax.dynamic_slice(x, _components(reader, first), as_sizes(reader.value(size)))


def _made_by(value: Any) -> Any:
    """The operation that makes a value; None for an argument."""
    return None if isinstance(value.owner, ir.Block) else value.owner.operation


def _components(reader: ModuleReader, value: Any) -> list[Any]:
    """The scalars of a vector."""
    made = _made_by(value)
    if made is not None and made.name == "stablehlo.concatenate":
        return [as_array(reader.value(part)).reshape(()) for part in made.operands]
    vector = as_array(reader.value(value))
    return [vector[i] for i in range(vector.shape[0])]


@reads("stablehlo.dynamic_slice")
def _dynamic_slice(reader: ModuleReader, op: Any, x: Any, *starts: Any) -> Any:
    return lax.dynamic_slice(x, [as_array(s) for s in starts], integers(op, "slice_sizes"))


@reads("stablehlo.dynamic_update_slice")
def _dynamic_update(reader: ModuleReader, op: Any, x: Any, update: Any, *starts: Any) -> Any:
    return lax.dynamic_update_slice(x, update, [as_array(s) for s in starts])


@reads("stablehlo.pad")
def _pad(reader: ModuleReader, op: Any, x: Any, value: Any) -> Any:
    low, high, inner = (integers(op, n) for n in ("edge_padding_low", "edge_padding_high", "interior_padding"))
    return lax.pad(x, value, list(zip(low, high, inner, strict=True)))


@reads("stablehlo.dynamic_pad")
def _dynamic_pad(reader: ModuleReader, op: Any, x: Any, value: Any, low: Any, high: Any, inner: Any) -> Any:
    return lax.pad(x, value, list(zip(*map(as_sizes, (low, high, inner)), strict=True)))


@reads("stablehlo.iota")
def _iota(reader: ModuleReader, op: Any) -> Any:
    sizes, kind = result_type(op)
    return lax.broadcasted_iota(jax.dtypes.canonicalize_dtype(kind), sizes, int(op.attributes["iota_dimension"]))


@reads("stablehlo.dynamic_iota")
def _dynamic_iota(reader: ModuleReader, op: Any, shape: Any) -> Any:
    return lax.broadcasted_iota(result_type(op)[1], as_sizes(shape), int(op.attributes["iota_dimension"]))


@reads("stablehlo.gather", "stablehlo.dynamic_gather")
def _gather(reader: ModuleReader, op: Any, x: Any, indices: Any, *sizes: Any) -> Any:
    numbers = stablehlo.GatherDimensionNumbers(op.attributes["dimension_numbers"])
    return lax.gather(
        x,
        vectors_last(as_array(indices), numbers.index_vector_dim),
        lax.GatherDimensionNumbers(
            tuple(numbers.offset_dims),
            tuple(numbers.collapsed_slice_dims),
            tuple(numbers.start_index_map),
            tuple(numbers.operand_batching_dims),
            tuple(numbers.start_indices_batching_dims),
        ),
        as_sizes(sizes[0]) if sizes else integers(op, "slice_sizes"),
        mode=lax.GatherScatterMode.CLIP,
    )


def vectors_last(indices: Any, axis: int) -> Any:
    return indices[..., None] if axis == np.ndim(indices) else jnp.moveaxis(indices, axis, -1)
