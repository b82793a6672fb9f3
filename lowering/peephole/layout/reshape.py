"""RESHAPE, EXPAND_DIMS and SQUEEZE only name the dimensions of the same elements.

Chains of them are one RESHAPE, and operators that can give their result either shape, or read it so, need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, Shape, is_known, same
from jfuse.ir.graph import Atom, Eqn
from jfuse.ir.types import TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import builtin_ops, static_value
from jfuse.lowering.peephole.pattern import one_of, var
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import keeps_type
from jfuse.lowering.rules import need

_ACTIVATED: dict[str, Any] = {"fused_activation_function": ...}
RENAMES = (ops.reshape, ops.expand_dims, ops.squeeze)
rename = one_of(*RENAMES)
reduction = one_of(*(op for op in builtin_ops().values() if "keep_dims" in op.options))


@peephole(lambda x: rename(x, ...))
def reshape_chain(match: Match, x: Atom) -> Any:
    """A RESHAPE of a RESHAPE reads the first one's operand, and vanishes where that has the right type already."""
    # Not a pattern of two: where the first one's operand does not help, x itself shall not be asked.
    before = match.view.producer(x)
    origin = before.inputs[0] if before is not None and before.op in RENAMES else x
    if origin is None or match.keeps_type(origin):
        return origin
    need(origin is not x, "reshape_before")
    if constant_shape(match.result.type.shape) is None:
        need(match.eqn.op is ops.reshape, "constant_shape")
        return ops.reshape(origin, *match.eqn.inputs[1:])
    return reshaped(origin, match.result.type)


@peephole(lambda x, shape: ops.reshape(x, var(shape)))
def reshape_to_known_shape(match: Match, x: Atom) -> Any:
    """RESHAPE to a shape with at most one open size takes a constant shape with -1 for that size."""
    return given(reshaped(x, match.result.type), "constant_shape")


@peephole(lambda: rename(reduction(...).named("reduced"), ...))
def reshape_of_reduction(match: Match, reduced: Eqn) -> Any:
    """RESHAPE of what MEAN, SUM, … give, with sizes of 1 for the axes that are gone or without them."""
    result = again(reduced, keep_dims=not reduced.params["keep_dims"])
    need(match.keeps_type(result), "type_of_result")
    return result


@peephole(
    lambda x, axes: one_of(ops.mean, ops.sum_, ops.reduce_max, ops.reduce_min, ops.reduce_prod)(x, axes, keep_dims=True)
)
def reduction_of_ones(match: Match, x: Atom, axes: Atom) -> Any:
    """MEAN along axes of size 1 in front as well is MEAN along the others."""
    need(x.type.quantization is None, "not_quantized")
    whole = axes_from_front(given(static_value(axes), "known_axes"), x.type.rank)
    first = min((a for a in whole if same(x.type.shape[a], 1) is not True), default=x.type.rank)
    left = [a for a in whole if a >= first]
    need(len(left) < len(whole), "ones_in_front")
    return again(match.eqn, inputs=(x, np.array(left, np.int32))) if left else x


@peephole(lambda x: rename(ops.fully_connected(x, ..., keep_num_dims=False, **_ACTIVATED).named("rows"), ...))
def reshape_of_rows(match: Match, x: Atom, rows: Eqn) -> Any:
    """RESHAPE(FULLY_CONNECTED(x)) to the leading sizes of x = FULLY_CONNECTED[keep_num_dims](x)."""
    result = match.result.type
    need(x.type.rank == result.rank and same(x.type.shape[-1], _columns(rows)) is True, "rows_of_last_axis")
    need(keeps_type(x.type, _with_last(result, x.type.shape[-1])), "leading_sizes_of_operand")
    return again(rows, keep_num_dims=True)


@peephole(lambda x: ops.fully_connected(rename(x, ...).shared(), ..., keep_num_dims=False, **_ACTIVATED))
def rows_of_reshape(match: Match, x: Atom) -> Any:
    """FULLY_CONNECTED(RESHAPE(x)) = FULLY_CONNECTED(x), which takes its operand as rows whatever shape that has."""
    need(x.type.rank and _is_multiple(_columns(match.eqn), x.type.shape[-1]), "rows_of_whole_axes")
    result = again(match.eqn, inputs=(x, *match.eqn.inputs[1:]))
    need(match.keeps_type(result), "type_of_result")
    return result


@peephole(
    lambda x, y: ops.batch_matmul(rename(x, ...).shared(), rename(y, ...).named("right"), adj_x=..., adj_y=...),
    lambda x, y: ops.batch_matmul(rename(x, ...), rename(y, ...).shared().named("right"), adj_x=..., adj_y=...),
)
def batch_of_one(match: Match, x: Atom, y: Atom, right: Eqn) -> Any:
    """BATCH_MATMUL(RESHAPE(x), RESHAPE(y)) without leading ones = RESHAPE(BATCH_MATMUL(x, y)): jax drops a batch of 1.

    Where the result gets its ones back, as in attention, no RESHAPE is left.
    """
    dropped = x.type.rank - match.result.type.rank
    pairs = (match.eqn.inputs[0], x), (right.outputs[0], y)
    need(dropped > 0 and all(_drops(atom, origin, dropped) for atom, origin in pairs), "leading_ones")
    return given(reshaped(again(match.eqn, inputs=(x, y)), match.result.type), "constant_shape")


def _drops(atom: Atom | None, origin: Atom, dropped: int) -> bool:
    """Whether a tensor is another one without so many leading sizes, which are 1."""
    assert atom is not None
    ones, rest = origin.type.shape[:dropped], origin.type.shape[dropped:]
    return all(same(d, 1) is True for d in ones) and keeps_type(TensorType(rest, origin.type.dtype), atom.type)


def _columns(eqn: Eqn) -> Dim:
    """How many elements of x a FULLY_CONNECTED takes for a row."""
    assert eqn.inputs[1] is not None
    return eqn.inputs[1].type.shape[1]


def _is_multiple(columns: Dim, last: Dim) -> bool:
    # XNNPACK leaves rows that end within an axis to the slower kernel.
    return is_known(columns) and is_known(last) and last > 0 and columns % last == 0


def _with_last(type_: TensorType, last: Dim) -> TensorType:
    return TensorType((*type_.shape[:-1], last), type_.dtype)


def reshaped(x: Atom, to: TensorType) -> Any:
    """RESHAPE of x to a type by a constant; x itself where it has that type; None where no constant can say it."""
    if keeps_type(x.type, to):
        return x
    shape = constant_shape(to.shape)
    return None if shape is None else ops.reshape(x, shape)


def constant_shape(shape: Shape) -> np.ndarray | None:
    """A shape as RESHAPE's constant operand, -1 for an open size; None where several are open, or -1 beside a 0."""
    sizes = [int(d) if is_known(d) else -1 for d in shape]
    if sizes.count(-1) > 1 or (-1 in sizes and 0 in sizes):
        return None
    return np.array(sizes, np.int32)
