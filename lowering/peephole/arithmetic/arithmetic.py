"""Operands that change nothing, and constants with which an operator is a simpler one."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels.math import elementwise
from jfuse.kernels.nn import activation
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import is_plain_float, keeps_type

# Elements; larger constants are weights, and reading them in every sweep would cost more than it gives.
_LARGEST = 1 << 16
_POWERS = ((2, elementwise.square), (0.5, elementwise.sqrt), (-0.5, elementwise.rsqrt))


# x + 0 turns -0 into 0, which only the sign of an infinity could show; TensorFlow's own optimizer drops it too.
@peephole(elementwise.add)
def add_of_zeros(eqn: Eqn, view: View) -> Any:
    """x + 0 = 0 + x = x."""
    return _neutral(eqn, 0, either=True)


@peephole(elementwise.sub)
def sub_of_zeros(eqn: Eqn, view: View) -> Any:
    """x - 0 = x."""
    return _neutral(eqn, 0)


@peephole(elementwise.mul)
def mul_by_ones(eqn: Eqn, view: View) -> Any:
    """x * 1 = 1 * x = x."""
    return _neutral(eqn, 1, either=True)


@peephole(elementwise.div)
def div_by_ones(eqn: Eqn, view: View) -> Any:
    """x / 1 = x."""
    return _neutral(eqn, 1)


@peephole(elementwise.logical_and)
def and_true(eqn: Eqn, view: View) -> Any:
    """(x and true) = x."""
    return _neutral(eqn, True, either=True)


@peephole(elementwise.logical_or)
def or_false(eqn: Eqn, view: View) -> Any:
    """(x or false) = x."""
    return _neutral(eqn, False, either=True)


@peephole(elementwise.select, elementwise.select_v2)
def decided_select(eqn: Eqn, view: View) -> Any:
    """The branch that a constant condition takes everywhere, where that is not broadcast."""
    condition, x, y = eqn.inputs
    for value, branch in ((True, x), (False, y)):
        if branch is not None and is_filled(condition, value) and keeps_type(branch.type, eqn.outputs[0].type):
            return branch
    return None


def is_filled(atom: Atom | None, value: float) -> bool:
    """Whether a constant has this value in every element, one at least."""
    if not isinstance(atom, Const) or not 0 < atom.array.size <= _LARGEST:
        return False
    # The first element alone decides most cases.
    return bool(atom.array.flat[0] == value) and bool(np.all(atom.array == value))


def _neutral(eqn: Eqn, value: float, *, either: bool = False) -> Any:
    if eqn.params.get("fused_activation_function", "NONE") != "NONE":
        return None
    x, y = eqn.inputs
    pairs = ((x, y), (y, x)) if either else ((x, y),)
    for kept, constant in pairs:
        if kept is not None and is_filled(constant, value) and keeps_type(kept.type, eqn.outputs[0].type):
            return kept
    return None


@peephole(elementwise.div)
def div_by_power_of_two(eqn: Eqn, view: View) -> Any:
    """x / 4 = x * 0.25 exactly, which is faster; other quotients round otherwise, which FLOOR or a comparison shows."""
    x, divisor = eqn.inputs
    if not is_plain_float(eqn.outputs[0]) or not isinstance(divisor, Const) or divisor.array.size > _LARGEST:
        return None
    mantissa, exponent = np.frexp(divisor.array)
    # Of the smallest and largest numbers the reciprocal is none of full precision.
    exact = divisor.array.size > 0 and np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < 100))
    if not exact:
        return None
    return elementwise.mul(x, 1 / divisor.array, fused_activation_function=eqn.params["fused_activation_function"])


@peephole(elementwise.div)
def one_by_root(eqn: Eqn, view: View) -> Any:
    """1 / SQRT(x) = RSQRT(x)."""
    one, root = eqn.inputs
    before = sole_producer(view, root)
    plain = eqn.params["fused_activation_function"] == "NONE" and is_plain_float(eqn.outputs[0])
    if not plain or before is None or before.op is not elementwise.sqrt or not is_filled(one, 1):
        return None
    return elementwise.rsqrt(before.inputs[0]) if keeps_type(before.outputs[0].type, eqn.outputs[0].type) else None


@peephole(elementwise.pow_)
def small_powers(eqn: Eqn, view: View) -> Any:
    """POW(x, 2) = SQUARE(x), and roots likewise; only of a negative infinity the root is another one."""
    x, exponent = eqn.inputs
    if x is None or not is_plain_float(eqn.outputs[0]) or not keeps_type(x.type, eqn.outputs[0].type):
        return None
    if is_filled(exponent, 1):
        return x
    op = next((op for value, op in _POWERS if is_filled(exponent, value)), None)
    return None if op is None else op(x)


@peephole(elementwise.neg)
def neg_of_neg(eqn: Eqn, view: View) -> Any:
    """NEG(NEG(x)) = x."""
    before = view.producer(eqn.inputs[0])
    return before.inputs[0] if before is not None and before.op is elementwise.neg else None


@peephole(elementwise.neg)
def neg_of_difference(eqn: Eqn, view: View) -> Any:
    """NEG(SUB(x, y)) = SUB(y, x)."""
    before = sole_producer(view, eqn.inputs[0])
    if before is None or before.op is not elementwise.sub or eqn.outputs[0].type.quantization is not None:
        return None
    return elementwise.sub(*before.inputs[::-1]) if before.params["fused_activation_function"] == "NONE" else None


@peephole(elementwise.abs_, elementwise.square)
def even_of_neg(eqn: Eqn, view: View) -> Any:
    """ABS(NEG(x)) = ABS(x), of integers too: the least one is its own negative."""
    before = view.producer(eqn.inputs[0])
    negated = before is not None and before.op is elementwise.neg and eqn.outputs[0].type.quantization is None
    return again(eqn, inputs=before.inputs) if before is not None and negated else None


@peephole(elementwise.sub)
def less_of_relu_of_neg(eqn: Eqn, view: View) -> Any:
    """SUB(y, RELU(NEG(x))) = ADD(y, MINIMUM(x, 0)), as the logarithm of a sigmoid ends."""
    y, part = eqn.inputs
    relu = sole_producer(view, part)
    negative = sole_producer(view, relu.inputs[0]) if relu is not None and relu.op is activation.relu else None
    if negative is None or negative.op is not elementwise.neg or not is_plain_float(eqn.outputs[0]):
        return None
    below = elementwise.minimum(negative.inputs[0], np.zeros((), np.float32))
    return elementwise.add(y, below, fused_activation_function=eqn.params["fused_activation_function"])
