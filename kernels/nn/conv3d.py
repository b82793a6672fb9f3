"""Convolutions over volumes: CONV_3D and CONV_3D_TRANSPOSE."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import TensorType
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array, Static, tfl
from jfuse.kernels.nn.activation import activate
from jfuse.kernels.nn.conv import check_equal, check_operands, convolved, of_rank, transpose_convolved
from jfuse.kernels.nn.windows import window_counts


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
