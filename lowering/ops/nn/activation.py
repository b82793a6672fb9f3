"""TensorFlow's activations."""

from __future__ import annotations

import numpy as np

from jfuse.ir.dims import product
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.elementwise import alike, clipped
from jfuse.lowering.rule_tools.compute_in_f32 import in_f32
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, one_like, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import shaped, size_tensor
from jfuse.lowering.rules import lowers

# tensorflow/core/kernels/relu_op_functor.h, Selu
SELU_SCALE = 1.0507009873554804934193349852946
SELU_SCALE_ALPHA = 1.7580993408473768599402175208123
_SOFTMAX_AXES = 6  # measured on LiteRT 2.3.0

alike("Elu", ops.elu)
alike("Tanh", ops.tanh)
alike("Sigmoid", ops.logistic)
alike("LogSoftmax", ops.log_softmax)


@lowers("Softmax")
def lower_softmax(logits: Array) -> Array:
    """SOFTMAX, on one axis before the last where its kernel would not take them all."""
    if rank(logits) <= _SOFTMAX_AXES:
        return ops.softmax(logits)
    *batch, last = logits.shape
    return shaped(ops.softmax(shaped(logits, (product(tuple(batch)), last))), tuple(logits.shape), logits)


@lowers("SoftmaxCrossEntropyWithLogits")
def lower_softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    """-sum(labels * log_softmax(features)), and its gradient softmax(features) - labels.

    features, labels: f[b,n], broadcast -> f[b], f[b,n]
    """
    shares = ops.mul(labels, ops.neg(ops.log_softmax(features)))
    loss = ops.sum_(shares, np.array([1], np.int32), keep_dims=False)
    return loss, ops.sub(ops.softmax(features), labels)


@lowers("SparseSoftmaxCrossEntropyWithLogits")
def lower_sparse_softmax_cross_entropy(features: Array, labels: Array) -> tuple[Array, Array]:
    """-log_softmax(features) at the labels, and its gradient.   features: f[b,n]; labels: i[b] -> f[b], f[b,n]"""
    classes = size_tensor(features.shape[1], [features])
    hits = ops.one_hot(as_i32(labels), classes, scalar(1, features), scalar(0, features))
    loss, gradient = lower_softmax_cross_entropy(features, hits)
    return loss, gradient


@lowers("Relu")
def lower_relu(features: Array) -> Array:
    """RELU of floats, MAXIMUM with 0 of integers."""
    return ops.relu(features) if dtype(features).is_float else ops.maximum(features, scalar(0, features))


@lowers("Relu6")
def lower_relu6(features: Array) -> Array:
    """RELU6 of floats; integers are clipped."""
    return ops.relu6(features) if dtype(features).is_float else clipped(features, 0, 6)


@lowers("LeakyRelu")
def lower_leaky_relu(features: Array, *, alpha: float = 0.2) -> Array:
    """LEAKY_RELU."""
    return ops.leaky_relu(features, alpha=alpha)


@lowers("Softplus")
@in_f32
def lower_softplus(features: Array) -> Array:
    """log(1 + exp(x)) as max(x, 0) - log(sigmoid(|x|)), which does not overflow.   x: f[...] -> f[...]; error 2e-7

    That is 2e-7 of 1: what is far below it, of x below -15, is 0, as log has the digits of 1 only.
    """
    return ops.sub(ops.relu(features), ops.log(ops.logistic(ops.abs_(features))))


@lowers("Softsign")
@in_f32
def lower_softsign(features: Array) -> Array:
    """x / (1 + |x|).   x: f[...] -> f[...]"""
    return ops.div(features, ops.add(ops.abs_(features), one_like(features)))


@lowers("Selu")
@in_f32
def lower_selu(features: Array) -> Array:
    """scale * x where x > 0, else scale * alpha * (exp(x) - 1).   x: f[...] -> f[...]"""
    negative = ops.elu(ops.minimum(features, scalar(0, features)))
    return ops.add(
        ops.mul(ops.relu(features), scalar(SELU_SCALE, features)),
        ops.mul(negative, scalar(SELU_SCALE_ALPHA, features)),
    )
