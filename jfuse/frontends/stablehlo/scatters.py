"""Scatters of StableHLO, and those by any function of an old and a new element, in jax's own terms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
from jax import lax
from jaxlib.mlir.dialects import stablehlo

from jfuse.base.errors import ImportFailed
from jfuse.frontends.stablehlo.regions import operator_of_two
from jfuse.frontends.stablehlo.rules import DIRECT, ModuleReader, reads
from jfuse.frontends.stablehlo.shapes import vectors_last
from jfuse.frontends.stablehlo.values import as_array

Combine = Callable[[Any, Any], Any]

_SCATTERS = {
    "add": lax.scatter_add,
    "subtract": lax.scatter_sub,
    "multiply": lax.scatter_mul,
    "minimum": lax.scatter_min,
    "maximum": lax.scatter_max,
}


@reads("stablehlo.scatter")
def _scatter(reader: ModuleReader, op: Any, x: Any, indices: Any, updates: Any, *others: Any) -> Any:
    if others:
        raise ImportFailed("a scatter of StableHLO into several arrays at once", remedy=DIRECT)
    (region,) = op.regions
    (block,) = region.blocks
    first, *_ = block.operations
    is_new = first.operation.name == "stablehlo.return" and list(first.operands) == [block.arguments[-1]]
    numbers = stablehlo.ScatterDimensionNumbers(op.attributes["scatter_dimension_numbers"])
    indices = vectors_last(as_array(indices), numbers.index_vector_dim)
    dimensions = lax.ScatterDimensionNumbers(
        tuple(numbers.update_window_dims),
        tuple(numbers.inserted_window_dims),
        tuple(numbers.scattered_dims_to_operand_dims),
        tuple(numbers.input_batching_dims),
        tuple(numbers.scatter_indices_batching_dims),
    )
    # A region of one known operator is a scatter of jax; any other is combined element by element.
    scatter = lax.scatter if is_new else _SCATTERS.get(operator_of_two(region))
    if scatter is not None:
        return scatter(x, indices, updates, dimensions, mode=lax.GatherScatterMode.FILL_OR_DROP)

    def combine(old: Any, new: Any) -> Any:
        return as_array(reader.region(region, [old, new])[0])

    is_unique = "unique_indices" in op.attributes and bool(op.attributes["unique_indices"].value)
    return scattered_by(
        combine, x, indices, updates, dimensions, mode=lax.GatherScatterMode.FILL_OR_DROP, is_unique=is_unique
    )


def scattered_by(
    combine: Combine, x: Any, indices: Any, updates: Any, numbers: Any, *, mode: Any, is_unique: bool
) -> Any:
    """x with combine(old, new) where updates are written: all at once, or one after the other where places may repeat.

    combine: a function of two scalars. numbers: lax.ScatterDimensionNumbers. is_unique: whether no place is named twice
    """
    indices, numbers = _without_batching(jnp.asarray(indices), numbers)
    if is_unique:
        return _written(combine, x, indices, updates, numbers, mode)
    window = numbers.update_window_dims
    batches = [a for a in range(updates.ndim) if a not in window]
    updates = jnp.transpose(updates, (*batches, *window))
    rows = updates.reshape(-1, *updates.shape[len(batches) :])
    vectors = indices.reshape(-1, indices.shape[-1])
    one = lax.ScatterDimensionNumbers(
        tuple(range(len(window))), numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims
    )

    def step(array: Any, row: tuple[Any, Any]) -> Any:
        vector, update = row
        return _written(combine, array, vector, update, one, mode), None

    return lax.scan(step, x, (vectors, rows))[0]


def _without_batching(indices: Any, numbers: Any) -> tuple[Any, Any]:
    """Batches as indices of their own before the others."""
    if not numbers.operand_batching_dims:
        return indices, numbers
    shape = (*indices.shape[:-1], 1)
    batch_indices = [lax.broadcasted_iota(indices.dtype, shape, a) for a in numbers.scatter_indices_batching_dims]
    return lax.concatenate([*batch_indices, indices], indices.ndim - 1), lax.ScatterDimensionNumbers(
        numbers.update_window_dims,
        tuple(sorted({*numbers.inserted_window_dims, *numbers.operand_batching_dims})),
        (*numbers.operand_batching_dims, *numbers.scatter_dims_to_operand_dims),
    )


def _written(combine: Combine, x: Any, indices: Any, updates: Any, numbers: Any, mode: Any) -> Any:
    """All rows read, changed and written."""
    window = iter(numbers.update_window_dims)
    sizes = [1 if a in numbers.inserted_window_dims else updates.shape[next(window)] for a in range(x.ndim)]
    old = lax.gather(
        x,
        indices,
        lax.GatherDimensionNumbers(
            numbers.update_window_dims, numbers.inserted_window_dims, numbers.scatter_dims_to_operand_dims
        ),
        sizes,
        mode=mode,
        fill_value=0,
    )
    for _ in range(updates.ndim):
        combine = jax.vmap(combine)
    return lax.scatter(x, indices, combine(old, updates), numbers, mode=mode, unique_indices=True)
