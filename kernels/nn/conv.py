"""Convolutions over images and volumes: CONV_2D, DEPTHWISE_CONV_2D, TRANSPOSE_CONV, CONV_3D and its transpose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import Dim, Shape, same
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, Static, namespace, tfl
from jfuse.kernels.nn.activation import activate
from jfuse.kernels.nn.conv_without_xla import convolved_as_product, depthwise_shifted
from jfuse.kernels.nn.windows import extent, same_padding, window_counts

_IMAGES = ("NHWC", "OHWI", "NHWC")


@tfl("CONV_2D", linear="each", clamps=True, product="windows")
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
    strides, dilations = (stride_h, stride_w), (dilation_h_factor, dilation_w_factor)
    result = convolved_as_product(x, weights, padding, strides, dilations)
    if result is None:
        result = convolved(x, weights, padding, strides, dilations, groups, _IMAGES)
    return activate(result if bias is None else result + bias, fused_activation_function)


@conv_2d.types
def _conv_2d_type(x: TensorType, weights: TensorType, bias: TensorType | None, **options: Any) -> TensorType:
    outputs, *window, inputs = of_rank(weights, 4)
    check_groups(of_rank(x, 4)[3], inputs, outputs)
    check_operands(x, outputs, weights, bias)
    return _convolved_type(x, window, outputs, options)


@tfl("DEPTHWISE_CONV_2D", linear="each", clamps=True, product="windows")
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
    strides, dilations = (stride_h, stride_w), (dilation_h_factor, dilation_w_factor)
    result = depthwise_shifted(x, weights, padding, strides, dilations)
    if result is None:
        result = convolved(x, weights, padding, strides, dilations, x.shape[3], ("NHWC", "IHWO", "NHWC"))
    return activate(result if bias is None else result + bias, fused_activation_function)


@depthwise_conv_2d.types
def _depthwise_conv_2d_type(x: TensorType, weights: TensorType, bias: TensorType | None, **options: Any) -> TensorType:
    one, *window, outputs = of_rank(weights, 4)
    check_groups(of_rank(x, 4)[3], one, outputs)
    if same(one, 1) is False:
        raise TypeMismatch("the weights of a depthwise convolution are f[1,kh,kw,i*m]", found=str(weights))
    check_operands(x, outputs, weights, bias)
    return _convolved_type(x, window, outputs, options)


@tfl("TRANSPOSE_CONV", sized_by_data=True, linear="each", clamps=True, product="windows")
def transpose_conv(
    output_shape: Static,
    weights: Array,
    x: Array,
    bias: Array | None = None,
    /,
    *,
    padding: str,
    stride_w: int,
    stride_h: int,
    fused_activation_function: str = "NONE",
    quantized_bias_type: DType = DType.f32,
) -> Array:
    """The gradient of a convolution in its image: each element of x spreads the window, plus bias.

    output_shape: i32[4], weights: f[o,kh,kw,i], x: f[b,h,w,i], bias: f[o] -> f[output_shape]. What falls outside of
    the result is dropped. padding: "SAME" or "VALID", of the convolution from the result to x.
    Source: tflite/kernels/transpose_conv.cc
    """
    result = transpose_convolved(
        x, weights, output_shape, padding, (stride_h, stride_w), (1, 1), ("NHWC", "OHWI", "NHWC")
    )
    return activate(result if bias is None else result + bias, fused_activation_function)


@transpose_conv.types
def _transpose_conv_type(
    output_shape: Any, weights: TensorType, x: TensorType, bias: TensorType | None, **options: Any
) -> TensorType:
    outputs, _, _, inputs = of_rank(weights, 4)
    batch, *_, channels = of_rank(x, 4)
    agreed(batch, output_shape[0])
    check_equal("channels of the image and of the weights", channels, inputs)
    check_equal("channels of the result and of the weights", output_shape[3], outputs)
    check_operands(x, outputs, weights, bias)
    return TensorType(tuple(output_shape), x.dtype)


def _convolved_type(x: TensorType, window: Sequence[int], outputs: Dim, options: Any) -> TensorType:
    strides = (options["stride_h"], options["stride_w"])
    dilations = (options["dilation_h_factor"], options["dilation_w_factor"])
    sizes = window_counts(x.shape[1:3], window, strides, dilations, options["padding"])
    return TensorType((x.shape[0], *sizes, outputs), x.dtype)


def of_rank(tensor: TensorType, rank: int) -> Shape:
    """The shape of a tensor that must have so many dimensions; raises TypeMismatch."""
    if tensor.rank != rank:
        raise TypeMismatch(f"a tensor of rank {rank} is needed", found=str(tensor))
    return tensor.shape


def check_groups(channels: Dim, inputs: Dim, outputs: Dim) -> None:
    """Weights for `inputs` channels serve an image of several times as many, each group giving an equal part."""
    if same(channels % inputs, 0) is False or same(outputs % (channels // inputs), 0) is False:
        raise TypeMismatch("the image's channels are no multiple of the weights'", expected=inputs, found=channels)


def check_equal(what: str, one: Dim, other: Dim) -> None:
    """Raise TypeMismatch where two sizes are known to differ.   what: their names, for the message"""
    if same(one, other) is False:
        raise TypeMismatch(f"the {what} differ", expected=other, found=one)


def check_operands(x: TensorType, outputs: Dim, weights: TensorType, bias: TensorType | None) -> None:
    """Raise TypeMismatch where dtypes differ, or where the bias is not f[outputs]."""
    operands = [x, weights] if bias is None else [x, weights, bias]
    if len({o.dtype for o in operands}) > 1:
        raise TypeMismatch("operands of different dtypes", found=", ".join(map(str, operands)))
    if bias is not None and (bias.rank != 1 or same(bias.shape[0], outputs) is False):
        raise TypeMismatch("a bias is a number for each channel", expected=f"[{outputs}]", found=str(bias))


def convolved(
    x: Array,
    weights: Array,
    padding: str,
    strides: Sequence[int],
    dilations: Sequence[int],
    groups: Any,
    layout: tuple[str, str, str],
) -> Array:
    """A convolution over any number of spatial axes, NumPy for NumPy operands."""
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
    return like(result, x, weights)


def transpose_convolved(
    x: Array,
    weights: Array,
    output_shape: Sequence[Dim],
    padding: str,
    strides: Sequence[int],
    dilations: Sequence[int],
    layout: tuple[str, str, str],
) -> Array:
    """The gradient of a convolution in its image, cut or filled with zeros to the shape of the result."""
    axes = [layout[1].index(a) for a in layout[1] if a not in "OI"]
    window = [weights.shape[a] for a in axes]
    spatial = zip(x.shape[1:-1], output_shape[1:-1], window, strides, dilations, strict=True)
    result = lax.conv_general_dilated(
        jnp.asarray(x),
        jnp.flip(jnp.asarray(weights), axes),
        (1,) * len(axes),
        [_spread(*axis, padding) for axis in spatial],
        lhs_dilation=strides,
        rhs_dilation=dilations,
        dimension_numbers=layout,
        precision=lax.Precision.HIGHEST,
    )
    return like(result, x, weights)


def _spread(size: Dim, result: Dim, window: int, stride: int, dilation: int, padding: str) -> tuple[Dim, Dim]:
    """Paddings of the convolution over zero-stuffed x; negative ones cut."""
    before = same_padding(result, window, stride, dilation)[0] if padding == "SAME" else 0
    return extent(window, dilation) - 1 - before, result + before - ((size - 1) * stride + 1)


def like(result: Array, *operands: Array) -> Array:
    """A result as NumPy array where all operands are, if it is no tracer, as even constants are in a jitted program."""
    return result if namespace(*operands) is jnp or isinstance(result, jax.core.Tracer) else np.asarray(result)


# Convolutions over volumes: CONV_3D and CONV_3D_TRANSPOSE.


@tfl("CONV_3D", linear="each", clamps=True, product="windows")
def conv_3d(
    x: Array,
    weights: Array,
    bias: Array | None = None,
    /,
    *,
    padding: str,
    stride_d: int,
    stride_w: int,
    stride_h: int,
    fused_activation_function: str = "NONE",
    dilation_d_factor: int = 1,
    dilation_w_factor: int = 1,
    dilation_h_factor: int = 1,
) -> Array:
    """Each output channel of all input channels, plus bias; padded by zeros.

    x: f32[b,d,h,w,i], weights: f32[kd,kh,kw,i,o], bias: f32[o] -> f32[b,d',h',w',o]. padding: "SAME" or "VALID".
    Source: tflite/kernels/conv3d.cc
    """
    strides, dilations = (stride_d, stride_h, stride_w), (dilation_d_factor, dilation_h_factor, dilation_w_factor)
    result = convolved(x, weights, padding, strides, dilations, 1, ("NDHWC", "DHWIO", "NDHWC"))
    return activate(result if bias is None else result + bias, fused_activation_function)


@conv_3d.types
def _conv_3d_type(x: TensorType, weights: TensorType, bias: TensorType | None, **options: Any) -> TensorType:
    *window, inputs, outputs = of_rank(weights, 5)
    check_equal("channels of the volume and of the weights", of_rank(x, 5)[4], inputs)
    check_operands(x, outputs, weights, bias)
    strides = [options[f"stride_{axis}"] for axis in "dhw"]
    dilations = [options[f"dilation_{axis}_factor"] for axis in "dhw"]
    sizes = window_counts(x.shape[1:4], window, strides, dilations, options["padding"])
    return TensorType((x.shape[0], *sizes, outputs), x.dtype)


@tfl("CONV_3D_TRANSPOSE", sized_by_data=True, linear="each", clamps=True, product="windows")
def conv_3d_transpose(
    output_shape: Static,
    weights: Array,
    x: Array,
    bias: Array | None = None,
    /,
    *,
    padding: str,
    stride_d: int,
    stride_w: int,
    stride_h: int,
    fused_activation_function: str = "NONE",
    dilation_d_factor: int = 1,
    dilation_w_factor: int = 1,
    dilation_h_factor: int = 1,
) -> Array:
    """The gradient of a convolution in its volume: each element of x spreads the window, plus bias.

    output_shape: i32[5], weights: f32[kd,kh,kw,o,i], x: f32[b,d,h,w,i], bias: f32[o] -> f32[output_shape].
    padding: "SAME" or "VALID", of the convolution from the result to x.
    Source: tflite/kernels/conv3d_transpose.cc
    """
    strides, dilations = (stride_d, stride_h, stride_w), (dilation_d_factor, dilation_h_factor, dilation_w_factor)
    layout = ("NDHWC", "DHWOI", "NDHWC")
    result = transpose_convolved(x, weights, output_shape, padding, strides, dilations, layout)
    return activate(result if bias is None else result + bias, fused_activation_function)


@conv_3d_transpose.types
def _conv_3d_transpose_type(
    output_shape: Any, weights: TensorType, x: TensorType, bias: TensorType | None, **options: Any
) -> TensorType:
    *_, outputs, inputs = of_rank(weights, 5)
    batch, *_, channels = of_rank(x, 5)
    agreed(batch, output_shape[0])
    check_equal("channels of the volume and of the weights", channels, inputs)
    check_equal("channels of the result and of the weights", output_shape[4], outputs)
    check_operands(x, outputs, weights, bias)
    return TensorType(tuple(output_shape), x.dtype)
