"""Writing by index: scatter and its kin, by TensorFlow's rules for rows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, product, same
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_jax.indexing import IndexWindows, row_numbers, rows
from jfuse.lowering.from_jax.shapes import as_dtype, broadcast, lower_pad
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import rank, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import shaped, size_tensor
from jfuse.lowering.rules import DEFAULT, lowers_jax

_SCATTERS = {
    "scatter": "TensorScatterUpdate",
    "scatter-add": "TensorScatterAdd",
    "scatter-sub": "TensorScatterSub",
    "scatter-min": "TensorScatterMin",
    "scatter-max": "TensorScatterMax",
}


Write = Callable[[Array, Array, Array], Array]


def _scatter(primitive: str, write: Write, doc: str) -> None:
    def lower(
        x: Array, indices: Array, updates: Array, *, dimension_numbers: Any, mode: Any, update_jaxpr: Any = None
    ) -> Array:
        if primitive == "scatter" and update_jaxpr is not None:  # of constants: others are spelled before
            raise LowerError("a scatter by a function of its own", remedy="x.at[i].set(f(x[i])) for x.at[i].apply(f)")
        return _scattered(write, x, as_dtype(indices, DType.i32), updates, dimension_numbers, str(mode))

    lower.__doc__ = f"{doc}, over windows; updates out of bounds are dropped, or moved into x."
    lowers_jax(*dict.fromkeys((primitive, primitive.replace("-", "_"))))(lower)  # jax has had both spellings


def _times(table: Array, places: Array, updates: Array) -> Array:
    """Each row times the product of its updates, which is 1 where there is none."""
    rows_of = shaped(places, (places.shape[0],), places, *sources())
    count = size_tensor(table.shape[0], [table, *sources()])
    return ops.mul(table, DEFAULT.lowers["UnsortedSegmentProd"](updates, rows_of, count))


for _primitive, _tensorflow in _SCATTERS.items():
    _scatter(_primitive, lambda *rows, name=_tensorflow: DEFAULT.lowers[name](*rows), f"As TensorFlow's {_tensorflow}")
_scatter("scatter-mul", _times, "Rows times updates")


def _scattered(write: Write, x: Array, indices: Array, updates: Array, numbers: Any, mode: str) -> Array:
    """The updates written to the windows that the index vectors name."""
    batching = tuple(zip(numbers.operand_batching_dims, numbers.scatter_indices_batching_dims, strict=True))
    gone = {*numbers.inserted_window_dims, *numbers.operand_batching_dims}
    window_axes = iter(numbers.update_window_dims)
    axis_of = {a: next(window_axes) for a in range(rank(x)) if a not in gone}
    sizes: list[Dim] = [updates.shape[axis_of[a]] if a in axis_of else 1 for a in range(rank(x))]
    windows = IndexWindows(tuple(x.shape), tuple(sizes), tuple(numbers.scatter_dims_to_operand_dims), batching)
    _refuse_partial(windows, x)
    if rank(indices) == 1:  # one vector is a list of one
        indices = shaped(indices, (1, *indices.shape), indices, *sources())
        updates = shaped(updates, (1, *updates.shape), updates, *sources())
        axis_of = {a: i + 1 for a, i in axis_of.items()}
    batches = [i for i in range(rank(updates)) if i not in axis_of.values()]
    order = [*batches, *(axis_of[a] for a in windows.wide), *(axis_of[a] for a in windows.rest)]
    singles = [i for i in range(rank(updates)) if i not in order]  # indexed axes of windows with one element
    moved = ops.transpose(updates, (*order, *singles)) if [*order, *singles] != list(range(rank(updates))) else updates
    rest = tuple(x.shape[a] for a in windows.rest)
    count = product(tuple(updates.shape[i] for i in batches)) * product(tuple(sizes[a] for a in windows.wide))
    news = shaped(moved, (count, *rest), updates, x, *sources())
    table = rows(x, windows)
    is_within = windows.are_within(indices) or "PROMISE" in mode
    places = row_numbers(indices if is_within else windows.clamped(indices), windows)
    full = (*indices.shape[:-1], *(sizes[a] for a in windows.wide))
    drops = not is_within and "CLIP" not in mode
    if drops:  # into a row of its own
        inside = shaped(windows.within(indices), (*indices.shape[:-1], *[1] * len(windows.wide)), indices, *sources())
        places = ops.select_v2(inside, places, size_tensor(table.shape[0], [table, *sources()]))
        table = _with_rows(table, 1)
    places = shaped(broadcast(places, full), (count, 1), indices, updates, *sources())
    written = write(table, places, news)
    written = _with_rows(written, -1) if drops else written
    return _unmerged(written, windows)


def _with_rows(table: Array, more: int) -> Array:
    """The table with so many more rows of zeros; less of them where negative."""
    config = [(0, more, 0), *((0, 0, 0) for _ in table.shape[1:])]
    return lower_pad(table, scalar(0, table), padding_config=config)


def _refuse_partial(windows: IndexWindows, x: Array) -> None:
    if any(same(windows.sizes[a], windows.operand[a]) is not True for a in windows.rest):
        raise LowerError(
            "a scatter of windows smaller than the axes that they do not index",
            found=str(type_of(x)),
            remedy="write with jax.lax.dynamic_update_slice",
        )


def _unmerged(table: Array, windows: IndexWindows) -> Array:
    """The rows as the operand's axes again."""
    order = (*windows.indexed, *windows.rest)
    shape = tuple(windows.operand[a] for a in order)
    unflattened = shaped(table, shape, table, *sources())
    back = tuple(int(i) for i in np.argsort(order))
    return unflattened if list(back) == list(range(len(order))) else ops.transpose(unflattened, back)
