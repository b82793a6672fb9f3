"""Slices of everything, splits with empty parts, GATHER of one place that is known, and of rows looked up once each."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import reshaped
from jfuse.lowering.peephole.pattern import const
from jfuse.lowering.peephole.registry import Match, given, peephole, peephole_walk
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rules import need

# What STRIDED_SLICE takes wherever GATHER does.   Source: tflite/kernels/strided_slice.cc
_SLICED = frozenset({DType.f32, DType.i8, DType.u8, DType.i16, DType.i32, DType.i64, DType.bool})
_LARGEST_RANK = 5
PLAIN_SLICE = {"ellipsis_mask": 0, "new_axis_mask": 0, "offset": False}


@peephole(lambda x, strides: ops.strided_slice(x, ..., ..., strides))
def slice_of_everything(match: Match, x: Atom, strides: Atom) -> Any:
    """A STRIDED_SLICE with strides of 1 and as many elements as its operand is a RESHAPE, or nothing at all."""
    need(all(s == 1 for s in given(static_value(strides), "constant_strides")), "strides_of_one")
    need(same(x.type.size, match.result.type.size) is True, "every_element")
    return given(reshaped(x, match.result.type), "constant_shape")


@peephole(lambda x: ops.slice_(x, ...))
def block_of_everything(match: Match, x: Atom) -> Any:
    """A SLICE of the type of its operand is its operand."""
    need(match.keeps_type(x), "type_of_result")
    return x


@peephole(lambda x, strides: ops.strided_slice(x, ..., ..., const(strides)))
def slice_backwards(match: Match, x: Atom, strides: Const) -> Any:
    """x[:, ::-1] is a REVERSE_V2, which other rules know."""
    params, steps = match.eqn.params, strides.array
    turned = np.flatnonzero(steps == -1).astype(np.int32)
    # REVERSE_V2 takes neighbouring axes only, and one is all that recurrences turn round.
    need(turned.size == 1 and np.all(np.abs(steps) == 1), "one_axis_backwards")
    need(x.type.dtype in _SLICED, "dtype_of_slices")
    whole = (1 << steps.size) - 1
    need(all(params[name] & whole == whole for name in ("begin_mask", "end_mask")), "every_element")
    need(not any(params[name] for name in ("ellipsis_mask", "new_axis_mask", "shrink_axis_mask")), "plain_slice")
    return ops.reverse_v2(x, turned)


@peephole(
    lambda x, axes, begin, end, strides: ops.strided_slice(
        ops.reverse_v2(x, axes).shared(), const(begin), const(end), strides, **PLAIN_SLICE
    ),
)
def place_of_reverse(match: Match, x: Atom, axes: Atom, begin: Const, end: Const, strides: Atom) -> Any:
    """One place along the axes that REVERSE_V2 turns round is the place of the operand counted from the other end."""
    params, first, last = match.eqn.params, begin.array.copy(), end.array.copy()
    for axis in axes_from_front(given(static_value(axes), "constant_axes"), x.type.rank):
        is_place = axis < len(first) and params["shrink_axis_mask"] >> axis & 1
        need(is_place and not params["begin_mask"] >> axis & 1, "one_place")
        first[axis] = -1 - first[axis]
        last[axis] = first[axis] + 1
    return again(match.eqn, inputs=(x, first, last, strides))


@peephole(lambda x, sizes, axis: ops.split_v(x, const(sizes), axis))
def split_without_empty_parts(match: Match, x: Atom, sizes: Const, axis: Atom) -> Any:
    """Parts without elements are constants: Keras 2 cuts such off in GRUs that reset before products."""
    parts = match.eqn.outputs
    is_empty = [0 in part.type.shape for part in parts]
    need(any(is_empty), "an_empty_part")
    need(all(is_known(size) for part in parts if 0 in part.type.shape for size in part.type.shape), "known_sizes")
    sizes_left = np.array([size for size, gone in zip(sizes.array.reshape(-1), is_empty, strict=True) if not gone])
    rest: Any = (
        ops.split_v(x, sizes_left.astype(sizes.array.dtype), axis) if len(sizes_left) > 1 else (x,) * len(sizes_left)
    )
    left = iter(rest)
    return tuple(
        np.zeros(part.type.shape, part.type.dtype.numpy) if gone else next(left)
        for part, gone in zip(parts, is_empty, strict=True)
    )


@peephole(lambda x, indices: ops.gather(x, const(indices), batch_dims=0))
def gather_of_one_place(match: Match, x: Atom, indices: Const) -> Any:
    """GATHER of one constant index is a STRIDED_SLICE, which other slices merge with."""
    need(indices.array.size == 1 and indices.array.ndim <= 1, "one_index")
    need(x.type.dtype in _SLICED and x.type.rank <= _LARGEST_RANK, "operand_of_slices")
    axis = from_front(match.eqn.params["axis"], x.type.rank)
    return _place(x, axis, int(indices.array.reshape(())), indices.array.ndim == 0)


@peephole_walk(ops.gather)
def gather_of_distinct_rows(eqn: Eqn, view: GraphView) -> Any:
    """Rows looked up for each distinct id, and from there for every id, are the rows of the ids themselves.

    tf.nn.embedding_lookup_sparse spells it so, to ask a table that is elsewhere only once for each row.
    """
    rows, places = eqn.inputs
    looked_up, distinct = view.producer(rows), view.producer(places)
    if looked_up is None or distinct is None or looked_up.op is not ops.gather or distinct.op is not ops.unique:
        return None
    table, ids = looked_up.inputs
    need(ids is distinct.outputs[0] and places is distinct.outputs[1], "ids_of_one_unique")
    need(all(e.params["axis"] == 0 == e.params["batch_dims"] for e in (eqn, looked_up)), "rows")
    return ops.gather(table, distinct.inputs[0])


def _place(x: Atom, axis: int, index: int, shrink: bool) -> Any:
    begin, end = np.zeros(x.type.rank, np.int32), np.zeros(x.type.rank, np.int32)
    begin[axis], end[axis] = index, index + 1
    others = (1 << x.type.rank) - 1 & ~(1 << axis)
    return ops.strided_slice(
        x,
        begin,
        end,
        np.ones(x.type.rank, np.int32),
        begin_mask=others,
        end_mask=others,
        shrink_axis_mask=1 << axis if shrink else 0,
    )


# Reversals that undo each other.


@peephole(lambda x, first, second: ops.reverse_v2(ops.reverse_v2(x, first).shared(), second))
def reversed_twice(match: Match, x: Atom, first: Atom, second: Atom) -> Any:
    """REVERSE_V2(REVERSE_V2(x)) along the same axes = x."""
    rank = match.result.type.rank
    once, again = ({a % rank for a in given(static_value(axes), "constant_axes")} for axes in (first, second))
    need(once == again, "same_axes")
    return x
