"""TensorFlow's activations."""

from __future__ import annotations

from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.elementwise import alike, lost_beside_one
from jfuse.lowering.query import one_like, scalar
from jfuse.lowering.rules import lowers

# tensorflow/core/kernels/relu_op_functor.h, Selu
_SELU_SCALE = 1.0507009873554804934193349852946
_SELU_SCALE_ALPHA = 1.7580993408473768599402175208123

alike("Relu", ops.relu)
alike("Relu6", ops.relu6)
alike("Elu", ops.elu)
alike("Tanh", ops.tanh)
alike("Sigmoid", ops.logistic)
alike("Softmax", ops.softmax)
alike("LogSoftmax", ops.log_softmax)


@lowers("LeakyRelu")
def lower_leaky_relu(features: Array, *, alpha: float = 0.2) -> Array:
    """LEAKY_RELU."""
    return ops.leaky_relu(features, alpha=alpha)


@lowers("Softplus")
def lower_softplus(features: Array) -> Array:
    """log(1 + exp(x)) as max(x, 0) + log1p(exp(-|x|)), which neither overflows nor vanishes.   x: f[...] -> f[...]"""
    power = ops.exp(ops.neg(ops.abs_(features)))
    rest = ops.add(ops.log(ops.add(power, one_like(features))), lost_beside_one(power))
    return ops.add(ops.relu(features), rest)


@lowers("Softsign")
def lower_softsign(features: Array) -> Array:
    """x / (1 + |x|).   x: f[...] -> f[...]"""
    return ops.div(features, ops.add(ops.abs_(features), one_like(features)))


@lowers("Selu")
def lower_selu(features: Array) -> Array:
    """scale * x where x > 0, else scale * alpha * (exp(x) - 1).   x: f[...] -> f[...]"""
    negative = ops.elu(ops.minimum(features, scalar(0, features)))
    return ops.add(
        ops.mul(ops.relu(features), scalar(_SELU_SCALE, features)),
        ops.mul(negative, scalar(_SELU_SCALE_ALPHA, features)),
    )
