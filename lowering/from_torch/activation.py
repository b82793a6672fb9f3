"""Activations."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type
from jfuse.lowering.from_torch.shapes import from_front, to_last
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rules import DEFAULT, lowers_torch

_SAME = {"relu": "Relu", "relu6": "Relu6", "selu": "Selu"}


def _alike(name: str, tensorflow: str) -> None:
    def lower(x: Array) -> Array:
        return DEFAULT.lowers[tensorflow](x)

    lower.__doc__ = f"As TensorFlow's {tensorflow}."
    lowers_torch(f"aten.{name}")(lower)


for _name, _tensorflow in _SAME.items():
    _alike(_name, _tensorflow)


@lowers_torch("aten.gelu")
def lower_gelu(x: Array, *, approximate: str = "none") -> Array:
    """GELU, by the error function or by tanh."""
    return ops.gelu(x, approximate=approximate == "tanh")


@lowers_torch("aten.silu")
def lower_silu(x: Array) -> Array:
    """x * sigmoid(x)"""
    return ops.mul(x, ops.logistic(x))


@lowers_torch("aten.mish")
def lower_mish(x: Array) -> Array:
    """x * tanh(softplus(x))"""
    return ops.mul(x, ops.tanh(DEFAULT.lowers["Softplus"](x)))


@lowers_torch("aten.hardtanh")
def lower_hardtanh(x: Array, low: float = -1.0, high: float = 1.0) -> Array:
    """min(max(x, low), high): RELU6, RELU_N1_TO_1 where it is that."""
    if dtype(x) is DType.f32 and (low, high) in _LIMITED:
        return _LIMITED[low, high](x)
    return ops.minimum(ops.maximum(x, scalar(low, x)), scalar(high, x))


_LIMITED = {(0.0, 6.0): ops.relu6, (-1.0, 1.0): ops.relu_n1_to_1}


@lowers_torch("aten.hardsigmoid")
def lower_hardsigmoid(x: Array) -> Array:
    """relu6(x + 3) / 6"""
    return ops.mul(ops.relu6(ops.add(x, scalar(3, x))), scalar(1 / 6, x))


@lowers_torch("aten.hardswish")
def lower_hardswish(x: Array) -> Array:
    """HARD_SWISH"""
    return ops.hard_swish(x)


@lowers_torch("aten.leaky_relu")
def lower_leaky_relu(x: Array, slope: float = 0.01) -> Array:
    """LEAKY_RELU"""
    return ops.leaky_relu(x, alpha=slope)


@lowers_torch("aten.rrelu")
def lower_rrelu(x: Array, lower: float = 1 / 8, upper: float = 1 / 3, training: bool = False) -> Array:
    """LEAKY_RELU with the mean of the slopes that training draws."""
    if training:
        raise LowerError("slopes that are drawn at each call", remedy="module.eval(), or training=False")
    return ops.leaky_relu(x, alpha=(lower + upper) / 2)


@lowers_torch("aten.prelu", "aten._prelu_kernel")
def lower_prelu(x: Array, weight: Array) -> Array:
    """PRELU, a slope for all or one for each channel, which is axis 1."""
    slopes = weight
    if rank(weight) == 1 and rank(x) > 1:
        slopes = ops.reshape(weight, (weight.shape[0], *[1] * (rank(x) - 2)))
    positive = ops.relu(x)
    return ops.add(positive, ops.mul(slopes, ops.minimum(x, scalar(0, x))))


@lowers_torch("aten.elu")
def lower_elu(x: Array, alpha: float = 1.0, scale: float = 1.0, input_scale: float = 1.0) -> Array:
    """scale * (x where x > 0, else alpha * (exp(input_scale * x) - 1))"""
    if (alpha, scale, input_scale) == (1.0, 1.0, 1.0):
        return ops.elu(x)
    zero = scalar(0, x)
    negative = ops.elu(ops.mul(ops.minimum(x, zero), scalar(input_scale, x)))
    activated = ops.add(ops.maximum(x, zero), ops.mul(negative, scalar(alpha, x)))
    return activated if scale == 1.0 else ops.mul(activated, scalar(scale, x))


@lowers_torch("aten.celu")
def lower_celu(x: Array, alpha: float = 1.0) -> Array:
    """max(0, x) + min(0, alpha * (exp(x / alpha) - 1))"""
    return lower_elu(x, alpha, 1.0, 1.0 / alpha)


@lowers_torch("aten.softplus")
def lower_softplus(x: Array, beta: float = 1.0, threshold: float = 20.0) -> Array:
    """log(1 + exp(beta * x)) / beta; x itself where beta * x is above the threshold, which is nearly the same."""
    if beta == 1.0:
        return DEFAULT.lowers["Softplus"](x)
    return ops.div(DEFAULT.lowers["Softplus"](ops.mul(x, scalar(beta, x))), scalar(beta, x))


@lowers_torch("aten.log_sigmoid")
def lower_log_sigmoid(x: Array) -> Array:
    """-softplus(-x)"""
    return ops.neg(DEFAULT.lowers["Softplus"](ops.neg(x)))


@lowers_torch("aten.softshrink")
def lower_softshrink(x: Array, limit: float = 0.5) -> Array:
    """x moved towards 0 by the limit, 0 within it."""
    bound = scalar(limit, x)
    return ops.sub(x, ops.minimum(ops.maximum(x, ops.neg(bound)), bound))


@lowers_torch("aten.hardshrink")
def lower_hardshrink(x: Array, limit: float = 0.5) -> Array:
    """x, 0 within the limit."""
    return ops.select_v2(ops.less_equal(ops.abs_(x), scalar(limit, x)), scalar(0, x), x)


@lowers_torch("aten.threshold")
def lower_threshold(x: Array, threshold: float, value: float) -> Array:
    """x above the threshold, else a value."""
    return ops.select_v2(ops.greater(x, scalar(threshold, x)), x, scalar(value, x))


@lowers_torch("aten.glu")
def lower_glu(x: Array, dim: int = -1) -> Array:
    """The first half times the sigmoid of the second."""
    first, second = ops.split(np.int32(from_front(dim, x)), x, num_splits=2)
    return ops.mul(first, ops.logistic(second))


@lowers_torch("aten.softmax", "aten._softmax")
def lower_softmax(x: Array, dim: int, dtype: DType | bool | None = None) -> Array:
    """SOFTMAX over an axis."""
    return to_last(_cast(x, dtype), dim, DEFAULT.lowers["Softmax"])


@lowers_torch("aten.log_softmax", "aten._log_softmax")
def lower_log_softmax(x: Array, dim: int, dtype: DType | bool | None = None) -> Array:
    """LOG_SOFTMAX over an axis."""
    return to_last(_cast(x, dtype), dim, DEFAULT.lowers["LogSoftmax"])


def _cast(x: Array, type_: DType | bool | None) -> Array:
    if type_ is True:
        raise LowerError("a softmax of f16 to f32", remedy="cast before it")
    return x if type_ is None or type_ is False else as_type(x, type_)
