"""Elementwise ops in simpler ones."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.fake_quant import in_arithmetic
from jfuse.lowering.ops.math.special import rational_erf
from jfuse.lowering.spellings.registry import spelling_of

_END_OF_GELU = 4.0  # 4 * Phi(-4) is 1.3e-4, less than the polynomial errs


@spelling_of(ops.select)
def select_of_all_shapes(eqn: Eqn, condition: Array, x: Array, y: Array) -> Array | None:
    """SELECT_V2, where the condition has the shape of both choices: SELECT takes rows as well."""
    same = tuple(condition.shape) == tuple(x.shape) == tuple(y.shape)
    return ops.select_v2(condition, x, y) if same else None


@spelling_of(ops.select_v2)
def select_by_product(eqn: Eqn, condition: Array, x: Array, y: Array) -> Array | None:
    """y + c * (x - y) of 32-bit integers, which wrap, so that it is exact."""
    if x.dtype != np.int32:
        return None
    return ops.add(y, ops.mul(ops.cast(condition, out_data_type=DType.i32), ops.sub(x, y)))


def within(x: Array, low: float, high: float) -> Array:
    """x, cut off at both ends."""
    return ops.minimum(ops.maximum(x, np.asarray(low, x.dtype)), np.asarray(high, x.dtype))


@spelling_of(ops.relu_n1_to_1, when=("target", "integers"))
def relu_n1_to_1(eqn: Eqn, x: Array) -> Array:
    """MINIMUM and MAXIMUM with -1 and 1."""
    return within(x, -1, 1)


@spelling_of(ops.relu_0_to_1, when=("target", "integers"))
def relu_0_to_1(eqn: Eqn, x: Array) -> Array:
    """MINIMUM and MAXIMUM with 0 and 1."""
    return within(x, 0, 1)


@spelling_of(ops.relu6, when=("integers",))
def relu6(eqn: Eqn, x: Array) -> Array:
    """MINIMUM and MAXIMUM with 0 and 6."""
    return within(x, 0, 6)


@spelling_of(ops.fake_quant)
def fake_quant_by_floor(eqn: Eqn, x: Array) -> Array:
    """The arithmetic of its steps, which quantization reads as a trained range again."""
    result: Array = in_arithmetic(x, **eqn.params)
    return result


@spelling_of(ops.gelu)
def gelu_by_tanh(eqn: Eqn, x: Array) -> Array | None:
    """The tanh form spelled out."""
    if not eqn.params["approximate"]:
        return None
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(
        ops.add(x, ops.mul(cube, np.asarray(0.044715, x.dtype))), np.asarray(math.sqrt(2 / math.pi), x.dtype)
    )
    half = ops.mul(x, np.asarray(0.5, x.dtype))
    return ops.mul(half, ops.add(ops.tanh(inner), np.asarray(1, x.dtype)))


@spelling_of(ops.gelu)
def gelu_by_erf(eqn: Eqn, x: Array) -> Array | None:
    """The exact form by the error function, a quotient of polynomials."""
    if eqn.params["approximate"] or x.dtype != np.float32:
        return None
    part = ops.add(rational_erf(ops.mul(x, np.float32(math.sqrt(0.5)))), np.float32(1))
    return ops.mul(ops.mul(x, np.float32(0.5)), part)


@spelling_of(ops.gelu, when=("integers",))
def gelu_by_logistic(eqn: Eqn, x: Array) -> Array:
    """relu(x) - |x| * Phi(-|x|), with the normal distribution as LOGISTIC of an odd polynomial.

    What is taken off is 0.17 at most, so that its steps are finer than those of the result: in 8 bits the error is less
    than one of these. The polynomial is the tanh form's own, or that which errs least against the exact form: 2.7e-4.
    """
    first, third = (2 * math.sqrt(2 / math.pi), 2 * math.sqrt(2 / math.pi) * 0.044715)
    if not eqn.params["approximate"]:
        first, third = 1.60031416, 0.06940179
    size = ops.minimum(ops.maximum(x, ops.mul(x, np.float32(-1))), np.float32(_END_OF_GELU))
    slope = ops.add(ops.mul(ops.mul(size, size), np.float32(-third)), np.float32(-first))
    taken_off = ops.mul(size, ops.logistic(ops.mul(size, slope)))
    return ops.sub(ops.relu(x), taken_off)


@spelling_of(ops.elu, when=("integers",))
def elu(eqn: Eqn, x: Array) -> Array:
    """relu(x) + exp(min(x, 0)) - 1"""
    return ops.add(ops.relu(x), ops.sub(ops.exp(ops.minimum(x, np.float32(0))), np.float32(1)))


@spelling_of(ops.relu, when=("faster",))
def relu(eqn: Eqn, x: Array) -> Array:
    """MAXIMUM with 0."""
    return ops.maximum(x, np.float32(0))


@spelling_of(ops.abs_, when=("faster",))
def size(eqn: Eqn, x: Array) -> Array:
    """max(x, -x)"""
    return ops.maximum(x, ops.mul(x, np.float32(-1)))


@spelling_of(ops.prelu, when=("integers", "faster"))
def prelu(eqn: Eqn, x: Array, alpha: Array) -> Array:
    """relu(x) - alpha * relu(-x)"""
    return ops.sub(ops.relu(x), ops.mul(ops.relu(ops.mul(x, np.float32(-1))), alpha))


@spelling_of(ops.hard_swish, when=("integers", "faster"))
def hard_swish(eqn: Eqn, x: Array) -> Array:
    """x * (1 + g) / 2, where g is x / 3, cut off at -1 and 1.

    LiteRT's kernel of 16 bits adds a constant much more slowly than another tensor, and multiplies both alike.
    """
    gate = ops.mul(x, np.float32(1 / 3), fused_activation_function="RELU_N1_TO_1")
    return ops.mul(ops.add(x, ops.mul(x, gate)), np.float32(0.5))


@spelling_of(ops.square, when=("integers",))
def square(eqn: Eqn, x: Array) -> Array:
    """x * x"""
    return ops.mul(x, x)


@spelling_of(ops.squared_difference, when=("integers",))
def squared_difference(eqn: Eqn, x: Array, y: Array) -> Array:
    """The product of the difference with itself."""
    difference = ops.sub(x, y)
    return ops.mul(difference, difference)


@spelling_of(ops.neg, when=("integers",))
def negated(eqn: Eqn, x: Array) -> Array:
    """x * -1"""
    return ops.mul(x, np.float32(-1))


@spelling_of(ops.cast, when=("integers",))
def ones_where(eqn: Eqn, x: Array) -> Array | None:
    """A choice between 1 and 0, of truth values that become floats."""
    if x.dtype != np.bool_ or eqn.params["out_data_type"] is not DType.f32:
        return None
    return ops.select_v2(x, np.float32(1), np.float32(0))


@spelling_of(ops.div, when=("integers",))
def times_reciprocal(eqn: Eqn, x: Array, y: Array) -> Array | None:
    """A product with the reciprocal of a constant divisor."""
    if not isinstance(y, np.ndarray) or not np.all(y):
        return None
    reciprocal = np.reciprocal(y.astype(np.float64)).astype(y.dtype)
    return ops.mul(x, reciprocal, **_activation(eqn)) if np.isfinite(reciprocal).all() else None


@spelling_of(ops.div, when=("coarse",))
def times_roots(eqn: Eqn, x: Array, y: Array) -> Array:
    """x * RSQRT(y)^2, of positive y: the root spreads the divisors of a wide range over more steps."""
    root = ops.rsqrt(y)
    return ops.mul(ops.mul(x, root), root, **_activation(eqn))


def _activation(eqn: Eqn) -> dict[str, Any]:
    return {"fused_activation_function": eqn.params["fused_activation_function"]}


@spelling_of(ops.sqrt, when=("coarse",))
def root_by_rsqrt(eqn: Eqn, x: Array) -> Array:
    """x * RSQRT(x)"""
    return ops.mul(x, ops.rsqrt(x))


@spelling_of(ops.rsqrt, when=("refined",))
def refined_rsqrt(eqn: Eqn, x: Array) -> Array:
    """RSQRT in fewer bits, and two steps of Newton's method, of which each leaves 1.5 e^2 of a relative error e.

    8 bits know x to half a step, which is a fifth of what is 1/100 of the greatest x: an e of 0.1, then 0.015 and 3e-4.
    Calibration in floats sees no such errors: x * y^2 is 1 there, and needs room.
    """
    y = ops.rsqrt(x)
    for _ in range(2):
        square = _with_room(ops.mul(ops.mul(x, y), y), 2.0)
        y = ops.mul(ops.mul(y, _with_room(ops.sub(np.float32(3), square), 4.0)), np.float32(0.5))
    return y


def _with_room(x: Array, end: float) -> Array:
    """x, whose integers of 16 bits reach so far on either side of 0."""
    return ops.fake_quant(x, min=-end, max=end, num_bits=16, narrow_range=True)


@spelling_of(ops.zeros_like)
def never_less(eqn: Eqn, x: Array) -> Array:
    """CAST of LESS of a value and itself, which no NaN is either."""
    return ops.cast(ops.less(x, x), out_data_type=DType.of(x.dtype))


@spelling_of(ops.zeros_like, when=("integers",))
def less_itself(eqn: Eqn, x: Array) -> Array:
    """x - x"""
    return ops.sub(x, x)


def spells_zeros(eqn: Eqn) -> bool:
    """Whether an equation is the spelling of ZEROS_LIKE in integers, which reads the shape of its operand alone."""
    return eqn.op is ops.sub and eqn.inputs[0] is eqn.inputs[1]
