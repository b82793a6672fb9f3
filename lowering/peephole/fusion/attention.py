"""Simplifies attention as Keras and Hugging Face spell it: biases of heads, transposed keys, scaled scores, masks."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn, product
from jfuse.lowering.peephole.layout.transpose import permutation
from jfuse.lowering.peephole.pattern import const, one_of
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.peephole.view import GraphView, sole_producer
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need

_MOVES = frozenset({ops.reshape, ops.transpose, ops.expand_dims, ops.squeeze})


@peephole(
    lambda bias: one_of(ops.add, ops.sub)(
        one_of(ops.reshape)(product().named("dense"), ...).named("reshape"),
        const(bias),
        fused_activation_function=...,
    ),
)
def bias_of_heads(match: Match, dense: WeightedEqn, reshape: Eqn, bias: Const) -> Any:
    """ADD(RESHAPE(FULLY_CONNECTED(x)), b[h,d]) = RESHAPE(ADD(FULLY_CONNECTED(x), b[h*d])); there it becomes a bias."""
    need(dense.function == "NONE", "no_activation_between")
    need(dense.may_shift(), "constant_bias")
    split = reshape.outputs[0]
    need(match.keeps_type(split), "type_of_result")
    heads = given(_last_axis_split(dense.channels, split.type.shape), "heads")
    need(all(d == 1 for d in bias.array.shape[: -len(heads)]), "bias_of_heads")
    flat = np.broadcast_to(bias.array.reshape(bias.array.shape[-len(heads) :]), heads).reshape(-1)
    biased = again(match.eqn, inputs=(dense.eqn.outputs[0], flat))
    return again(reshape, inputs=(biased, *reshape.inputs[1:]))


def _last_axis_split(size: Any, shape: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The two or more last axes that a RESHAPE makes of a last axis of that size; None where it does not."""
    for count in range(2, len(shape) + 1):
        tail = shape[-count:]
        if not all(map(is_known, tail)) or not is_known(size):
            return None
        if np.prod(tail) == size:
            return tuple(map(int, tail))
    return None


@peephole(lambda q, k, scale: one_of(ops.mul, ops.div)(ops.batch_matmul(q, k).named("scores"), const(scale)))
def scale_of_scores(match: Match, scores: Eqn, scale: Const) -> Any:
    """MUL(BATCH_MATMUL(q, k), s) = BATCH_MATMUL(q, k) with s in the weights that make q or k, for a scalar s."""
    need(scale.array.size == 1 and is_plain_float(scale), "scalar_float")
    need(match.keeps_type(scores.outputs[0]), "type_of_result")
    with np.errstate(all="ignore"):
        factor = scale.array.reshape(()) if match.eqn.op is ops.mul else 1 / scale.array.reshape(())
    made = ((i, _scaled(operand, factor, match.view)) for i, operand in enumerate(scores.inputs))
    i, scaled = given(next(((i, s) for i, s in made if s is not None), None), "weights_of_operand")
    return again(scores, inputs=(*scores.inputs[:i], scaled, *scores.inputs[i + 1 :]))


# Any number of moves between the product and its weights is no pattern.
def _scaled(atom: Atom | None, factor: np.ndarray, view: GraphView) -> Any:
    """The tensor times a factor, where that can go into the weights that make it; None elsewhere."""
    before = sole_producer(view, atom)
    if before is None:
        return None
    if before.op in _MOVES:
        inner = _scaled(before.inputs[0], factor, view)
        return None if inner is None else again(before, inputs=(inner, *before.inputs[1:]))
    made = WeightedEqn.of(before)
    if made is None or made.function != "NONE" or not made.may_scale(view) or not is_known(made.channels):
        return None
    return made.with_result(np.full(made.channels, factor, np.float32), None, "NONE")


@peephole(lambda x, y, adj_y: ops.batch_matmul(x, ops.transpose(y, ...).named("turned"), adj_y=adj_y))
def product_of_transposed(match: Match, x: Atom, y: Atom, turned: Eqn, adj_y: bool) -> Any:
    """BATCH_MATMUL(x, TRANSPOSE(y)) of the last two axes = BATCH_MATMUL[adj_y](x, y); XNNPACK has no adj_x."""
    axes = permutation(turned)
    need(axes == (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2), "last_two_axes")
    return again(match.eqn, inputs=(x, y), adj_y=not adj_y)


def _filled(ones: Any) -> Any:
    """A FILL of a constant, which others may read."""
    return one_of(ops.fill)(..., const(ones)).shared()


@peephole(
    lambda mask, ones, x, y: ops.select_v2(ops.logical_and(mask, const(ones)).shared(), x, y),
    lambda mask, ones, x, y: ops.select_v2(ops.logical_and(mask, _filled(ones)).shared(), x, y),
)
def choice_by_ones(match: Match, mask: Atom, ones: Const, x: Atom, y: Atom) -> Any:
    """SELECT_V2(LOGICAL_AND(m, FILL(True)), x, y) = SELECT_V2(m, x, y), as Keras joins a mask with one of ones."""
    # Elsewhere the ones say which shape the result has.
    need(match.keeps_type(x) or match.keeps_type(y), "type_of_result")
    need(_is_true(ones), "true_everywhere")
    return again(match.eqn, inputs=(mask, x, y))


@peephole(
    lambda condition, ones, zeros: ops.select_v2(condition, const(ones), const(zeros)),
    lambda condition, ones, zeros: ops.select_v2(condition, _filled(ones), const(zeros)),
)
def choice_of_truths(match: Match, condition: Atom, ones: Const, zeros: Const) -> Any:
    """SELECT_V2(c, True, False) = c, as a band of ones is a mask."""
    need(match.keeps_type(condition), "type_of_result")
    need(_is_true(ones) and not zeros.array.any(), "true_and_false")
    return condition


def _is_true(ones: Const) -> bool:
    return ones.type.dtype is DType.bool and bool(ones.array.all())
