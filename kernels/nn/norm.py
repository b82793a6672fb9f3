"""LOCAL_RESPONSE_NORMALIZATION and L2_NORMALIZATION."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.kernels.core.op import Array, namespace, tfl
from jfuse.kernels.nn.activation import activate
from jfuse.kernels.nn.conv import like


@tfl("LOCAL_RESPONSE_NORMALIZATION")
def local_response_normalization(x: Array, /, *, radius: int, bias: float, alpha: float, beta: float) -> Array:
    """x / (bias + alpha * s)^beta, where s is the sum of squares of the channels at most `radius` away.

    f32[b,h,w,c] -> f32[b,h,w,c]   Source: tflite/kernels/local_response_norm.cc
    """
    padding = [(0, 0)] * (x.ndim - 1) + [(radius, radius)]
    window = (1,) * (x.ndim - 1) + (2 * radius + 1,)
    square = jnp.square(jnp.asarray(x))
    total = lax.reduce_window(square, np.zeros((), x.dtype), lax.add, window, (1,) * x.ndim, padding)
    one = np.ones((), x.dtype)
    return like(jnp.asarray(x) / (bias * one + alpha * one * total) ** (beta * one), x)


@tfl("L2_NORMALIZATION")
def l2_normalization(x: Array, /, *, fused_activation_function: str = "NONE") -> Array:
    """x over its length along the last axis, a length of 1e-6 at least.   f32[..., c] -> f32[..., c]

    Has the option of an activation and refuses it.
    Source: tflite/kernels/l2norm.cc
    """
    xp = namespace(x)
    length = xp.sqrt(xp.sum(xp.square(x), axis=-1, keepdims=True))
    return activate(x / xp.maximum(length, np.asarray(1e-6, x.dtype)), fused_activation_function)
