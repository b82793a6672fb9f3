"""Removes arithmetic that changes nothing (x * 1, x + 0), and replaces it by cheaper operators (x / 4 = x * 0.25)."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const
from jfuse.kernels import ops
from jfuse.lowering.peephole.pattern import LARGEST_READ, const, is_filled, one_of
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import is_plain_float
from jfuse.lowering.rules import need

_POWERS = ((2, ops.square), (0.5, ops.sqrt), (-0.5, ops.rsqrt))


# x + 0 turns -0 into 0, which only the sign of an infinity could show; TensorFlow's own optimizer drops it too.
@peephole(
    lambda x: ops.add(x, 0),
    lambda x: ops.sub(x, 0),
    lambda x: ops.mul(x, 1),
    lambda x: ops.div(x, 1),
    lambda x: ops.logical_and(x, True),
    lambda x: ops.logical_or(x, False),
)
def neutral_operand(match: Match, x: Atom) -> Any:
    """x + 0 = x - 0 = x * 1 = x / 1 = x; (x and true) = (x or false) = x."""
    need(match.keeps_type(x), "type_of_result")
    return x


@peephole(
    lambda x: one_of(ops.select, ops.select_v2)(True, x, ...),
    lambda x: one_of(ops.select, ops.select_v2)(False, ..., x),
)
def decided_select(match: Match, x: Atom) -> Any:
    """The branch that a constant condition takes everywhere, where that is not broadcast."""
    need(match.keeps_type(x), "type_of_result")
    return x


@peephole(lambda x, divisor, function: ops.div(x, const(divisor), fused_activation_function=function))
def div_by_power_of_two(match: Match, x: Atom, divisor: Const, function: str) -> Any:
    """x / 4 = x * 0.25 exactly, which is faster; other quotients round otherwise, which FLOOR or a comparison shows."""
    need(is_plain_float(match.result), "plain_float")
    need(0 < divisor.array.size <= LARGEST_READ, "few_divisors")
    mantissa, exponent = np.frexp(divisor.array)
    need(np.all(np.abs(mantissa) == 0.5), "powers_of_two")
    # Of the smallest and largest numbers the reciprocal is none of full precision.
    need(np.all(np.abs(exponent) < 100), "precise_reciprocal")
    return ops.mul(x, 1 / divisor.array, fused_activation_function=function)


@peephole(lambda x: ops.div(1, ops.sqrt(x)))
def one_by_root(match: Match, x: Atom) -> Any:
    """1 / SQRT(x) = RSQRT(x)."""
    need(is_plain_float(match.result), "plain_float")
    need(match.keeps_type(x), "type_of_result")
    return ops.rsqrt(x)


@peephole(lambda x, exponent: ops.pow_(x, const(exponent)))
def small_powers(match: Match, x: Atom, exponent: Const) -> Any:
    """POW(x, 2) = SQUARE(x), and roots likewise; only of a negative infinity the root is another one."""
    need(is_plain_float(match.result), "plain_float")
    need(match.keeps_type(x), "type_of_result")
    if is_filled(exponent, 1):
        return x
    op = next((op for value, op in _POWERS if is_filled(exponent, value)), None)
    return given(op, "small_power")(x)


@peephole(lambda x: ops.neg(ops.neg(x).shared()))
def neg_of_neg(match: Match, x: Atom) -> Any:
    """NEG(NEG(x)) = x."""
    return x


@peephole(lambda x, y: ops.neg(ops.sub(x, y)))
def neg_of_difference(match: Match, x: Atom, y: Atom) -> Any:
    """NEG(SUB(x, y)) = SUB(y, x)."""
    need(match.result.type.quantization is None, "not_quantized")
    return ops.sub(y, x)


@peephole(lambda x: one_of(ops.abs_, ops.square)(ops.neg(x).shared()))
def even_of_neg(match: Match, x: Atom) -> Any:
    """ABS(NEG(x)) = ABS(x), of integers too: the least one is its own negative."""
    need(match.result.type.quantization is None, "not_quantized")
    return again(match.eqn, inputs=(x,))


@peephole(lambda x, y, function: ops.sub(y, ops.relu(ops.neg(x)), fused_activation_function=function))
def less_of_relu_of_neg(match: Match, x: Atom, y: Atom, function: str) -> Any:
    """SUB(y, RELU(NEG(x))) = ADD(y, MINIMUM(x, 0)), as the logarithm of a sigmoid ends."""
    need(is_plain_float(match.result), "plain_float")
    below = ops.minimum(x, np.zeros((), np.float32))
    return ops.add(y, below, fused_activation_function=function)
