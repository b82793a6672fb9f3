"""Convolutions and pooling over images: CONV_2D, DEPTHWISE_CONV_2D, AVERAGE_POOL_2D and MAX_POOL_2D."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.ir.types import DType
from jfuse.kernels.activation import activate
from jfuse.kernels.op import Array, namespace, tfl

_IMAGES = ("NHWC", "OHWI", "NHWC")


@tfl("CONV_2D", linear="each", clamps=True)
def conv_2d(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    fused_activation_function: str = "NONE",
    dilation_w_factor: int = 1,
    dilation_h_factor: int = 1,
    quantized_bias_type: DType = DType.f32,
) -> Array:
    """Each output channel of a group of input channels, plus bias; padded by zeros.

    x: f[b,h,w,i], weights: f[o,kh,kw,i/groups], bias: f[o] -> f[b,h',w',o]. padding: "SAME" or "VALID".
    Source: tflite/kernels/conv.cc
    """
    groups = x.shape[3] // weights.shape[3]
    result = _convolved(
        x, weights, padding, (stride_h, stride_w), (dilation_h_factor, dilation_w_factor), groups, _IMAGES
    )
    return activate(result if bias is None else result + bias, fused_activation_function)


@tfl("DEPTHWISE_CONV_2D", linear="each", clamps=True)
def depthwise_conv_2d(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    depth_multiplier: int,
    fused_activation_function: str = "NONE",
    dilation_w_factor: int = 1,
    dilation_h_factor: int = 1,
) -> Array:
    """Each channel by itself gives depth_multiplier channels that stand together, plus bias; padded by zeros.

    x: f[b,h,w,i], weights: f[1,kh,kw,i*m], bias: f[i*m] -> f[b,h',w',i*m]. padding: "SAME" or "VALID".
    Source: tflite/kernels/depthwise_conv.cc
    """
    result = _convolved(
        x,
        weights,
        padding,
        (stride_h, stride_w),
        (dilation_h_factor, dilation_w_factor),
        x.shape[3],
        ("NHWC", "IHWO", "NHWC"),
    )
    return activate(result if bias is None else result + bias, fused_activation_function)


@tfl("AVERAGE_POOL_2D", clamps=True)
def average_pool_2d(
    x: Array,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    filter_width: int,
    filter_height: int,
    fused_activation_function: str = "NONE",
) -> Array:
    """The mean of each window, of its elements within the image.   f[b,h,w,c] -> f[b,h',w',c]

    Source: tflite/kernels/pooling.cc
    """
    window = (1, filter_height, filter_width, 1), (1, stride_h, stride_w, 1), padding
    zero = np.zeros((), x.dtype)
    total = lax.reduce_window(jnp.asarray(x), zero, lax.add, *window)
    count = lax.reduce_window(jnp.ones((1, *x.shape[1:3], 1), x.dtype), zero, lax.add, *window)
    return activate(_like(x, total / count), fused_activation_function)


@tfl("MAX_POOL_2D", clamps=True, switch="clip")
def max_pool_2d(
    x: Array,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    filter_width: int,
    filter_height: int,
    fused_activation_function: str = "NONE",
) -> Array:
    """The largest element of each window.   f[b,h,w,c] -> f[b,h',w',c]   Source: tflite/kernels/pooling.cc"""
    least = np.array(-np.inf, x.dtype)
    window = (1, filter_height, filter_width, 1), (1, stride_h, stride_w, 1), padding
    return activate(_like(x, lax.reduce_window(jnp.asarray(x), least, lax.max, *window)), fused_activation_function)


def _like(x: Array, result: Array) -> Array:
    return result if namespace(x) is jnp else np.asarray(result)


def _convolved(
    x: Array,
    weights: Array,
    padding: str,
    strides: tuple[int, int],
    dilations: tuple[int, int],
    groups: Any,
    layout: tuple[str, str, str],
) -> Array:
    result = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.asarray(weights),
        strides,
        padding,
        rhs_dilation=dilations,
        dimension_numbers=layout,
        feature_group_count=groups,
        precision=lax.Precision.HIGHEST,  # GPUs multiply f32 in a shorter format unless told otherwise
    )
    return _like(x if namespace(x) is jnp else weights, result)
