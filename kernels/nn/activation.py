"""Activations: the ops, and the ones that other ops apply to their result."""

from __future__ import annotations

import math
from collections.abc import Mapping

import jax
import numpy as np

from jfuse.base.errors import TypeMismatch
from jfuse.kernels.core.op import Array, namespace, tfl

POSITIVELY_LINEAR = frozenset({"NONE", "RELU"})
"""Fused activations f with f(s * x) = s * f(x) for each s > 0."""

LIMITS: Mapping[str, tuple[float, float]] = {
    "NONE": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU6": (0.0, 6.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU_0_TO_1": (0.0, 1.0),
}
"""The numbers that activations let through, as builtins or as options of others."""


def activate(x: Array, name: str) -> Array:
    """x with the activation of that name, as in options.   Source: tflite/schema/schema.fbs, ActivationFunctionType

    name: NONE, RELU, RELU_N1_TO_1, RELU6, TANH or SIGN_BIT (1 where the sign bit is set).
    """
    if name == "NONE":
        return x
    xp = namespace(x)
    if name == "RELU":
        return xp.maximum(x, 0)
    if name == "RELU6":
        return xp.minimum(xp.maximum(x, 0), 6)
    if name == "RELU_N1_TO_1":
        return xp.minimum(xp.maximum(x, -1), 1)
    if name == "TANH":
        return xp.tanh(x)
    if name == "SIGN_BIT":
        return xp.signbit(x).astype(x.dtype)
    raise TypeMismatch(f"no fused activation {name!r}", expected="NONE, RELU, RELU6, RELU_N1_TO_1, TANH or SIGN_BIT")


@tfl("RELU", elementwise=True, switch="clip")
def relu(x: Array, /) -> Array:
    """max(x, 0).   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return activate(x, "RELU")


@tfl("RELU6", elementwise=True, switch="clip")
def relu6(x: Array, /) -> Array:
    """x between 0 and 6.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return activate(x, "RELU6")


@tfl("RELU_N1_TO_1", elementwise=True, switch="clip")
def relu_n1_to_1(x: Array, /) -> Array:
    """x between -1 and 1.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return activate(x, "RELU_N1_TO_1")


@tfl("RELU_0_TO_1", elementwise=True, switch="clip")
def relu_0_to_1(x: Array, /) -> Array:
    """x between 0 and 1.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    xp = namespace(x)
    return xp.minimum(xp.maximum(x, 0), 1)


@tfl("PRELU", elementwise=True, switch="clip")
def prelu(x: Array, alpha: Array, /) -> Array:
    """x where x >= 0, else alpha * x.   x, alpha: f[...], broadcast -> f[...]

    Source: tflite/kernels/activations.cc
    """
    return namespace(x, alpha).where(x >= 0, x, alpha * x)


@tfl("LEAKY_RELU", elementwise=True, switch="clip")
def leaky_relu(x: Array, /, *, alpha: float) -> Array:
    """x where x > 0, else alpha * x.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return namespace(x).where(x > 0, x, x.dtype.type(alpha) * x)


@tfl("ELU", elementwise=True, switch="clip")
def elu(x: Array, /) -> Array:
    """x where x > 0, else exp(x) - 1.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    xp = namespace(x)
    return xp.where(x > 0, x, xp.expm1(x))


@tfl("TANH", elementwise=True)
def tanh(x: Array, /) -> Array:
    """The hyperbolic tangent.   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return namespace(x).tanh(x)


@tfl("LOGISTIC", elementwise=True)
def logistic(x: Array, /) -> Array:
    """1 / (1 + exp(-x)).   x: f[...] -> f[...]   Source: tflite/kernels/activations.cc"""
    return 1 / (1 + namespace(x).exp(-x))


@tfl("HARD_SWISH", elementwise=True, switch="clip")
def hard_swish(x: Array, /) -> Array:
    """x * relu6(x + 3) / 6.   x: f[...] -> f[...]   Source: tflite/kernels/internal/reference/hard_swish.h"""
    return x * activate(x + 3, "RELU6") / 6


@tfl("GELU", elementwise=True)
def gelu(x: Array, /, *, approximate: bool = False) -> Array:
    """x times the normal distribution's P(X < x), or its tanh form.   x: f[...] -> f[...]

    Source: tflite/kernels/internal/reference/gelu.h
    """
    if approximate:
        return 0.5 * x * (1 + namespace(x).tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)))
    return 0.5 * x * jax.scipy.special.erfc(-math.sqrt(0.5) * x)


@tfl("SOFTMAX")
def softmax(x: Array, /, *, beta: float = 1.0) -> Array:
    """exp(beta * x), scaled to sum 1 along the last axis.   x: f[..., n] -> f[..., n]

    Source: tflite/kernels/activations.cc
    """
    xp = namespace(x)
    powers = xp.exp(x.dtype.type(beta) * (x - _greatest(x)))
    return powers / xp.sum(powers, axis=-1, keepdims=True)


def _greatest(x: Array) -> Array:
    """The greatest element along the last axis, which may be of any size: N - 1 is not known to be 1 or more."""
    return namespace(x).max(x, axis=-1, keepdims=True, initial=-np.inf)


@tfl("LOG_SOFTMAX")
def log_softmax(x: Array, /) -> Array:
    """The logarithm of the softmax along the last axis.   x: f[..., n] -> f[..., n]

    Source: tflite/kernels/activations.cc
    """
    xp = namespace(x)
    shifted = x - _greatest(x)
    return shifted - xp.log(xp.sum(xp.exp(shifted), axis=-1, keepdims=True))
