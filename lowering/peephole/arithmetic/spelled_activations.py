"""Activations that the source spells out with constants, as the one operator that they are.

Those of one number, as GELU, are found by their values before (lowering/recover/algebra/pointwise.py).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import ops
from jfuse.lowering.peephole.arithmetic.activation import clamping
from jfuse.lowering.peephole.arithmetic.affine import Affine, affine
from jfuse.lowering.peephole.arithmetic.weighted import WeightedEqn, product
from jfuse.lowering.peephole.pattern import const, form, one_of
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need

_CLIPS = {(0.0, np.inf): ops.relu, (0.0, 6.0): ops.relu6, (-1.0, 1.0): ops.relu_n1_to_1, (0.0, 1.0): ops.relu_0_to_1}
_SIX = np.array(6, np.float32)


@dataclass(frozen=True)
class Clip:
    """x, no less than `low` and no more than `high`."""

    x: Atom
    low: float
    high: float

    @classmethod
    def of(cls, eqn: Eqn) -> Clip | None:
        """Read RELU, or MAXIMUM or MINIMUM with one number, of floats as a clip; None for other equations."""
        if not is_plain_float(eqn.outputs[0]):
            return None
        if eqn.op is ops.relu:
            return cls(eqn.inputs[0], 0.0, np.inf) if eqn.inputs[0] is not None else None
        for x, bound in (eqn.inputs, eqn.inputs[::-1]):
            if isinstance(bound, Const) and bound.array.size == 1 and x is not None and not isinstance(x, Const):
                value = float(bound.array.reshape(()))
                return cls(x, value, np.inf) if eqn.op is ops.maximum else cls(x, -np.inf, value)
        return None


clip = form(Clip.of, ops.maximum, ops.minimum)
inner_clip = form(Clip.of, ops.maximum, ops.minimum, ops.relu)


@peephole(lambda: clip(inner_clip().named("first")).named("then"), lambda: clip().named("then"))
def clip_by_one_op(match: Match, then: Clip, first: Clip | None = None) -> Any:
    """MINIMUM(MAXIMUM(x, 0), 6) = RELU6(x), likewise RELU, RELU_N1_TO_1 and RELU_0_TO_1; by one operator or by two."""
    x, low, high = then.x, then.low, then.high
    if first is not None:
        x, low, high = first.x, max(low, first.low), min(high, first.high)
    op = given(_CLIPS.get((low, high)), "bounds_of_activation")
    need(match.keeps_type(x), "type_of_result")
    return op(x)


@peephole(lambda six: ops.minimum(clamping(..., fused_activation_function="RELU").named("inner"), const(six)))
def least_of_activated(match: Match, inner: Eqn, six: Const) -> Any:
    """MINIMUM(CONV_2D[RELU](x), 6) = CONV_2D[RELU6](x)."""
    need(is_plain_float(match.result), "plain_float")
    need(six.array.size == 1 and six.array.reshape(()) == 6, "bounds_of_activation")
    need(match.keeps_type(inner.outputs[0]), "type_of_result")
    return again(inner, fused_activation_function="RELU6")


@peephole(lambda: ops.relu_0_to_1(product().named("gate")))
def unit_clip_of_product(match: Match, gate: WeightedEqn) -> Any:
    """RELU_0_TO_1(CONV_2D(x)) = MUL(CONV_2D[RELU6](6 * x), 1 / 6), as hard sigmoids end.

    The product has that clip and not this one; the factor goes into what reads the gate.
    """
    need(gate.function == "NONE", "no_activation_between")
    need(gate.may_scale(match.view), "own_weights")
    need(isinstance(gate.channels, int), "known_channels")
    scaled = given(gate.with_result(np.broadcast_to(_SIX, gate.channels), None, "RELU6"), "finite_weights")
    return ops.mul(scaled, np.array(1 / 6, np.float32))


@peephole(
    lambda x, a: one_of(ops.add, ops.sub)(
        ops.relu(x), ops.mul(ops.relu(affine(x).named("minus")).named("relu"), const(a))
    ),
    lambda x, a: one_of(ops.add, ops.sub)(ops.relu(x), ops.mul(affine(x).named("minus"), const(a))),
)
def prelu(match: Match, x: Atom, a: Const, minus: Affine, relu: Eqn | None = None) -> Any:
    """RELU(x) - a * RELU(-x) = PRELU(x, a), as Keras spells it. a: a constant."""
    need(is_plain_float(match.result), "plain_float")
    need(minus.function == ("RELU" if relu is None else "NONE"), "relu_of_negative")
    need(minus.scale is not None and (minus.scale == -1).all() and minus.shift is None, "relu_of_negative")
    need(match.keeps_type(x), "type_of_result")
    alpha = given(_within(a.array, x), "axes_of_operand")
    alpha = alpha if match.eqn.op is ops.sub else -alpha
    return ops.leaky_relu(x, alpha=float(alpha.reshape(()))) if alpha.size == 1 else ops.prelu(x, alpha)


def _within(alpha: np.ndarray, x: Atom) -> np.ndarray | None:
    """alpha with at most as many axes as x, as TFLite's PRELU takes it."""
    extra = max(alpha.ndim - x.type.rank, 0)
    return alpha.reshape(alpha.shape[extra:]) if alpha.shape[:extra] == (1,) * extra else None


@peephole(lambda x: ops.tanh(ops.sub(ops.relu(x), ops.log(ops.logistic(ops.abs_(x))))))
def tanh_of_softplus(match: Match, x: Atom) -> Any:
    """TANH(SUB(RELU(x), LOG(LOGISTIC(ABS(x))))) = TANH(LOG(ADD(EXP(x), 1))), as mish has it: of infinity it is 1."""
    need(is_plain_float(x), "plain_float")
    return ops.tanh(ops.log(ops.add(ops.exp(x), np.ones((), np.float32))))
