"""What attention is spelled with: biases of heads, transposed keys, scaled scores, masks of ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.peephole.arithmetic.weighted import Product
from jfuse.lowering.peephole.layout.transpose import permutation
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type

_MOVES = frozenset({ops.reshape, ops.transpose, ops.expand_dims, ops.squeeze})


@peephole(ops.add, ops.sub)
def bias_of_heads(eqn: Eqn, view: View) -> Any:
    """ADD(RESHAPE(FULLY_CONNECTED(x)), b[h,d]) = RESHAPE(ADD(FULLY_CONNECTED(x), b[h*d])); there it becomes a bias."""
    x, bias = eqn.inputs
    if isinstance(x, Const) and eqn.op is ops.add:
        x, bias = bias, x
    before = sole_producer(view, x)
    if before is None or before.op is not ops.reshape or not isinstance(bias, Const):
        return None
    product = Product.of(sole_producer(view, before.inputs[0]))
    if product is None or product.function != "NONE" or not product.may_shift():
        return None
    if not keeps_type(before.outputs[0].type, eqn.outputs[0].type):
        return None
    heads = _last_axis_split(product.channels, before.outputs[0].type.shape)
    if heads is None or any(d != 1 for d in bias.array.shape[: -len(heads)]):
        return None
    flat = np.broadcast_to(bias.array.reshape(bias.array.shape[-len(heads) :]), heads).reshape(-1)
    inputs = (product.eqn.outputs[0], flat)
    return again(before, inputs=(again(eqn, inputs=inputs), *before.inputs[1:]))


def _last_axis_split(size: Any, shape: tuple[Any, ...]) -> tuple[int, ...] | None:
    """The two or more last axes that a RESHAPE makes of a last axis of that size; None where it does not."""
    for count in range(2, len(shape) + 1):
        tail = shape[-count:]
        if not all(map(is_known, tail)) or not is_known(size):
            return None
        if np.prod(tail) == size:
            return tuple(map(int, tail))
    return None


@peephole(ops.mul, ops.div)
def scale_of_scores(eqn: Eqn, view: View) -> Any:
    """MUL(BATCH_MATMUL(q, k), s) = BATCH_MATMUL(q, k) with s in the weights that make q or k, for a scalar s."""
    x, scale = eqn.inputs
    if isinstance(x, Const) and eqn.op is ops.mul:
        x, scale = scale, x
    before = sole_producer(view, x)
    if before is None or before.op is not ops.batch_matmul or not isinstance(scale, Const):
        return None
    if scale.array.size != 1 or not is_plain_float(scale) or eqn.params["fused_activation_function"] != "NONE":
        return None
    if not keeps_type(before.outputs[0].type, eqn.outputs[0].type):
        return None
    with np.errstate(all="ignore"):
        factor = scale.array.reshape(()) if eqn.op is ops.mul else 1 / scale.array.reshape(())
    for i, operand in enumerate(before.inputs):
        scaled = _scaled(operand, factor, view)
        if scaled is not None:
            return again(before, inputs=(*before.inputs[:i], scaled, *before.inputs[i + 1 :]))
    return None


def _scaled(atom: Atom | None, factor: np.ndarray, view: View) -> Any:
    """The tensor times a factor, where that can go into the weights that make it; None elsewhere."""
    before = sole_producer(view, atom)
    if before is None:
        return None
    if before.op in _MOVES:
        inner = _scaled(before.inputs[0], factor, view)
        return None if inner is None else again(before, inputs=(inner, *before.inputs[1:]))
    product = Product.of(before)
    if product is None or product.function != "NONE" or not product.may_scale(view) or not is_known(product.channels):
        return None
    return product.with_result(np.full(product.channels, factor, np.float32), None, "NONE")


@peephole(ops.batch_matmul)
def product_of_transposed(eqn: Eqn, view: View) -> Any:
    """BATCH_MATMUL(x, TRANSPOSE(y)) of the last two axes = BATCH_MATMUL[adj_y](x, y); XNNPACK has no adj_x."""
    x, y = eqn.inputs
    before = sole_producer(view, y)
    if before is None or before.op is not ops.transpose:
        return None
    axes = permutation(before)
    if axes != (*range(len(axes) - 2), len(axes) - 1, len(axes) - 2):
        return None
    return again(eqn, inputs=(x, before.inputs[0]), adj_y=not eqn.params["adj_y"])


@peephole(ops.select_v2)
def choice_by_ones(eqn: Eqn, view: View) -> Any:
    """SELECT_V2(LOGICAL_AND(m, FILL(True)), x, y) = SELECT_V2(m, x, y), as Keras joins a mask with one of ones."""
    condition, x, y = eqn.inputs
    before = view.producer(condition)
    if before is None or before.op is not ops.logical_and:
        return None
    if not any(a is not None and keeps_type(a.type, eqn.outputs[0].type) for a in (x, y)):
        return None  # the ones say which shape the result has
    for mask, ones in (before.inputs, before.inputs[::-1]):
        if _is_true(ones, view):
            return again(eqn, inputs=(mask, x, y))
    return None


@peephole(ops.select_v2)
def choice_of_truths(eqn: Eqn, view: View) -> Any:
    """SELECT_V2(c, True, False) = c, as a band of ones is a mask."""
    condition, x, y = eqn.inputs
    if condition is None or not keeps_type(condition.type, eqn.outputs[0].type):
        return None
    decided = _is_true(x, view) and isinstance(y, Const) and not y.array.any()
    return condition if decided else None


def _is_true(atom: Atom | None, view: View) -> bool:
    if isinstance(atom, Const):
        return atom.type.dtype is DType.bool and bool(atom.array.all())
    eqn = view.producer(atom)
    filled = None if eqn is None or eqn.op is not ops.fill else eqn.inputs[1]
    return isinstance(filled, Const) and filled.type.dtype is DType.bool and bool(filled.array.all())
