"""DYNAMIC_UPDATE_SLICE by a choice of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands


@instead_of("DYNAMIC_UPDATE_SLICE")
def rows_by_select(eqn: Eqn) -> Sequence[Any] | None:
    """SELECT_V2 between new rows and old ones, where rows along one axis are written.

    Along all other axes the update fills the operand, so that it starts at 0 there whatever is asked for.
    """
    x, update, start = operands(eqn)
    if not all(map(is_known, (*x.shape, *update.shape))):
        return None
    axes = [a for a, (d, e) in enumerate(zip(x.shape, update.shape, strict=True)) if d != e]
    if len(axes) != 1:
        return None
    (axis,) = axes
    size, count = int(x.shape[axis]), int(update.shape[axis])

    def number(value: int) -> np.ndarray:
        return np.asarray(value, start.dtype)

    at = ops.strided_slice(start, [axis], [axis + 1], [1])
    at = ops.minimum(ops.maximum(at, number(0)), number(size - count))
    rows = np.arange(size, dtype=start.dtype)
    if count > 1:  # each row of the result knows which one of the update it would be
        place = ops.minimum(ops.maximum(ops.sub(rows, at), number(0)), number(count - 1))
        update = ops.gather(update, place, axis=axis)
    beside = [size if a == axis else 1 for a in range(len(x.shape))]
    rows = rows.reshape(beside)
    is_new = ops.equal(rows, at)
    if count > 1:
        is_new = ops.logical_and(ops.greater_equal(rows, at), ops.less(rows, ops.add(at, number(count))))
    return (ops.select_v2(is_new, update, x),)
