"""Activations that the source spells out with constants, as the one operator that they are.

Those of one number, as GELU, are found by their values before (lowering/recover/algebra/pointwise.py).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import ops
from jfuse.lowering.peephole.arithmetic.affine import Affine
from jfuse.lowering.peephole.arithmetic.weighted import Product
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type

_CLIPS = {(0.0, np.inf): ops.relu, (0.0, 6.0): ops.relu6, (-1.0, 1.0): ops.relu_n1_to_1, (0.0, 1.0): ops.relu_0_to_1}
_BOUNDS = frozenset({ops.maximum, ops.minimum, ops.relu})
_SIX = np.array(6, np.float32)


@peephole(ops.maximum, ops.minimum)
def clip(eqn: Eqn, view: View) -> Any:
    """MINIMUM(MAXIMUM(x, 0), 6) = RELU6(x), likewise RELU, RELU_N1_TO_1 and RELU_0_TO_1; by one operator or by two."""
    if not is_plain_float(eqn.outputs[0]):
        return None
    x, low, high = _bounded(eqn)
    ranges = [(x, (low, high))]
    inner = sole_producer(view, x)
    if inner is not None and inner.op in _BOUNDS and is_plain_float(inner.outputs[0]):
        source, least, most = _bounded(inner)
        ranges.insert(0, (source, (max(low, least), min(high, most))))
    for clipped, bounds in ranges:
        op = _CLIPS.get(bounds)
        if op is not None and clipped is not None and keeps_type(clipped.type, eqn.outputs[0].type):
            return op(clipped)
    return None


@peephole(ops.minimum)
def least_of_activated(eqn: Eqn, view: View) -> Any:
    """MINIMUM(CONV_2D[RELU](x), 6) = CONV_2D[RELU6](x)."""
    x, _, high = _bounded(eqn)
    inner = sole_producer(view, x)
    if inner is None or high != 6 or not is_plain_float(eqn.outputs[0]) or not getattr(inner.op, "clamps", False):
        return None
    if inner.params["fused_activation_function"] != "RELU" or not keeps_type(
        inner.outputs[0].type, eqn.outputs[0].type
    ):
        return None
    return again(inner, fused_activation_function="RELU6")


def _bounded(eqn: Eqn) -> tuple[Atom | None, float, float]:
    """The operand that one of these operators clips, with the bounds; None where both are computed."""
    if eqn.op is ops.relu:
        return eqn.inputs[0], 0.0, np.inf
    for x, bound in (eqn.inputs, eqn.inputs[::-1]):
        if isinstance(bound, Const) and bound.array.size == 1 and not isinstance(x, Const):
            value = float(bound.array.reshape(()))
            return (x, value, np.inf) if eqn.op is ops.maximum else (x, -np.inf, value)
    return None, -np.inf, np.inf


@peephole(ops.relu_0_to_1)
def unit_clip_of_product(eqn: Eqn, view: View) -> Any:
    """RELU_0_TO_1(CONV_2D(x)) = MUL(CONV_2D[RELU6](6 * x), 1 / 6), as hard sigmoids end.

    The product has that clip and not this one; the factor goes into what reads the gate.
    """
    product = Product.of(sole_producer(view, eqn.inputs[0]))
    if product is None or product.function != "NONE" or not product.may_scale(view):
        return None
    if not isinstance(product.channels, int):
        return None
    scaled = product.with_result(np.broadcast_to(_SIX, product.channels), None, "RELU6")
    return None if scaled is None else ops.mul(scaled, np.array(1 / 6, np.float32))


@peephole(ops.add, ops.sub)
def prelu(eqn: Eqn, view: View) -> Any:
    """RELU(x) - alpha * RELU(-x) = PRELU(x, alpha), as Keras spells it. alpha: a constant."""
    if eqn.params["fused_activation_function"] != "NONE" or not is_plain_float(eqn.outputs[0]):
        return None
    first, second = (sole_producer(view, a) for a in eqn.inputs)
    pairs = ((first, second),) if eqn.op is ops.sub else ((first, second), (second, first))
    for above, below in pairs:
        if above is None or below is None or above.op is not ops.relu:
            continue
        x = above.inputs[0]
        alpha = _slope(below, x, view)
        if alpha is None or x is None or not keeps_type(x.type, eqn.outputs[0].type):
            continue
        alpha = alpha if eqn.op is ops.sub else -alpha
        return ops.leaky_relu(x, alpha=float(alpha.reshape(()))) if alpha.size == 1 else ops.prelu(x, alpha)
    return None


def _slope(eqn: Eqn, x: Atom | None, view: View) -> np.ndarray | None:
    """What a MUL multiplies RELU(-x) with, if it is that; of TFLite's PRELU it has no more axes than x."""
    if eqn.op is not ops.mul or eqn.params["fused_activation_function"] != "NONE" or x is None:
        return None
    for value, factor in (eqn.inputs, eqn.inputs[::-1]):
        if isinstance(factor, Const) and _is_relu_of_negative(sole_producer(view, value), x, view):
            return _within(factor.array, x)
    return None


def _is_relu_of_negative(eqn: Eqn | None, x: Atom, view: View) -> bool:
    if eqn is not None and eqn.op is ops.relu:
        negative, function = Affine.of(sole_producer(view, eqn.inputs[0])), "NONE"
    else:
        negative, function = Affine.of(eqn), "RELU"
    if negative is None or negative.x is not x or negative.function != function or negative.scale is None:
        return False
    return bool((negative.scale == -1).all()) and negative.shift is None


def _within(alpha: np.ndarray, x: Atom) -> np.ndarray | None:
    """alpha with at most as many axes as x."""
    extra = max(alpha.ndim - x.type.rank, 0)
    return alpha.reshape(alpha.shape[extra:]) if alpha.shape[:extra] == (1,) * extra else None


@peephole(ops.tanh)
def tanh_of_softplus(eqn: Eqn, view: View) -> Any:
    """TANH(SUB(RELU(x), LOG(LOGISTIC(ABS(x))))) = TANH(LOG(ADD(EXP(x), 1))), as mish has it: of infinity it is 1."""
    difference = sole_producer(view, eqn.inputs[0])
    if difference is None or difference.op is not ops.sub or difference.params["fused_activation_function"] != "NONE":
        return None
    above, log = (sole_producer(view, a) for a in difference.inputs)
    logistic = sole_producer(view, log.inputs[0]) if log is not None and log.op is ops.log else None
    size = sole_producer(view, logistic.inputs[0]) if logistic is not None and logistic.op is ops.logistic else None
    if above is None or above.op is not ops.relu or size is None or size.op is not ops.abs_:
        return None
    x = above.inputs[0]
    if x is None or size.inputs[0] is not x or not is_plain_float(x):
        return None
    return ops.tanh(ops.log(ops.add(ops.exp(x), np.ones((), np.float32))))
