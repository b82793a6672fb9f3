"""Gradients as TensorFlow's tape records them, for signatures that train."""

from __future__ import annotations

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, product
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.array.scatter import lower_tensor_strided_slice_update
from jfuse.lowering.ops.array.slicing import SliceMasks
from jfuse.lowering.ops.math.segment import segments
from jfuse.lowering.ops.nn.activation import SELU_SCALE, SELU_SCALE_ALPHA
from jfuse.lowering.ops.nn.conv import conv_2d
from jfuse.lowering.ops.nn.pool import lower_max_pool_with_argmax
from jfuse.lowering.rule_tools.image_layout import (
    PoolAttributes,
    WindowAttributes,
    channels_last,
    fixed_sides,
    padded,
)
from jfuse.lowering.rule_tools.query import dtype, one_like, rank, scalar, static, type_of
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor, shaped
from jfuse.lowering.rules import lowers


@lowers("SigmoidGrad")
def lower_sigmoid_grad(y: Array, dy: Array) -> Array:
    """dy * y * (1 - y), where y is the sigmoid."""
    return ops.mul(ops.mul(dy, y), ops.sub(one_like(y), y))


@lowers("TanhGrad")
def lower_tanh_grad(y: Array, dy: Array) -> Array:
    """dy * (1 - y * y), where y is the hyperbolic tangent."""
    return ops.mul(dy, ops.sub(one_like(y), ops.mul(y, y)))


@lowers("ReluGrad")
def lower_relu_grad(gradients: Array, features: Array) -> Array:
    """gradients * (features > 0)."""
    is_let_through = ops.greater(features, scalar(0, features))
    return ops.mul(gradients, ops.cast(is_let_through, out_data_type=dtype(gradients)))


@lowers("Relu6Grad")
def lower_relu6_grad(gradients: Array, features: Array) -> Array:
    """gradients * (0 < features < 6)."""
    is_let_through = ops.logical_and(
        ops.greater(features, scalar(0, features)), ops.less(features, scalar(6, features))
    )
    return ops.mul(gradients, ops.cast(is_let_through, out_data_type=dtype(gradients)))


@lowers("EluGrad")
def lower_elu_grad(gradients: Array, outputs: Array) -> Array:
    """gradients, times outputs + 1 where outputs < 0."""
    below = ops.minimum(outputs, scalar(0, outputs))
    return ops.mul(gradients, ops.add(below, one_like(outputs)))


@lowers("SeluGrad")
def lower_selu_grad(gradients: Array, outputs: Array) -> Array:
    """gradients times the scale, or outputs + scale * alpha where outputs < 0."""
    slope = ops.add(outputs, scalar(SELU_SCALE_ALPHA, outputs))
    is_below = ops.less(outputs, scalar(0, outputs))
    return ops.mul(gradients, ops.select_v2(is_below, slope, scalar(SELU_SCALE, outputs)))


@lowers("SoftplusGrad")
def lower_softplus_grad(gradients: Array, features: Array) -> Array:
    """gradients * sigmoid(features)."""
    return ops.mul(gradients, ops.logistic(features))


@lowers("SoftsignGrad")
def lower_softsign_grad(gradients: Array, features: Array) -> Array:
    """gradients / (1 + |features|)**2."""
    size = ops.add(ops.abs_(features), one_like(features))
    return ops.div(gradients, ops.mul(size, size))


@lowers("LeakyReluGrad")
def lower_leaky_relu_grad(gradients: Array, features: Array, *, alpha: float = 0.2) -> Array:
    """gradients, times alpha where features <= 0."""
    is_above = ops.greater(features, scalar(0, features))
    return ops.select_v2(is_above, gradients, ops.mul(gradients, scalar(alpha, gradients)))


@lowers("SqrtGrad")
def lower_sqrt_grad(y: Array, dy: Array) -> Array:
    """dy / 2 / y, where y is the square root."""
    return ops.div(ops.mul(dy, scalar(0.5, dy)), y)


@lowers("RsqrtGrad")
def lower_rsqrt_grad(y: Array, dy: Array) -> Array:
    """-dy / 2 * y**3, where y is the reciprocal of the square root."""
    return ops.mul(ops.mul(dy, scalar(-0.5, dy)), ops.mul(ops.mul(y, y), y))


@lowers("InvGrad", "ReciprocalGrad")
def lower_reciprocal_grad(y: Array, dy: Array) -> Array:
    """-dy * y * y, where y is the reciprocal."""
    return ops.neg(ops.mul(ops.mul(dy, y), y))


@lowers("BiasAddGrad")
def lower_bias_add_grad(out_backprop: Array, *, data_format: str = "NHWC") -> Array:
    """The sum over all axes but that of the channels.   f[..., c] (or f[b, c, ...]) -> f[c]"""
    channels = 1 if data_format.startswith("NC") else rank(out_backprop) - 1
    return ops.sum_(out_backprop, np.array([i for i in range(rank(out_backprop)) if i != channels], np.int32))


@lowers("StridedSliceGrad")
def lower_strided_slice_grad(
    shape: Array, begin: Array, end: Array, strides: Array, dy: Array, *, masks: SliceMasks
) -> Array:
    """The gradient among zeros, where the slice was taken."""
    sizes = static(shape, "shape")
    if not all(map(is_known, sizes)):
        raise LowerError("the gradient of a slice of a tensor with open dimensions", found=str(sizes))
    zeros = np.zeros(tuple(map(int, sizes)), dtype(dy).numpy)
    return lower_tensor_strided_slice_update.function(zeros, begin, end, strides, dy, masks=masks)


@lowers("Conv2DBackpropFilter")
def lower_conv_2d_backprop_filter(x: Array, filter_sizes: Array, dy: Array, *, how: WindowAttributes) -> Array:
    """A convolution of the image by the gradient, with batch and channels exchanged and steps and spacing as well.

    x: f[b,h,w,i], dy: f[b,h',w',o] (or channels first) -> f[kh,kw,i,o]
    """
    image, gradient = (channels_last(v, how.layout) for v in (x, dy))
    height, width, inputs, _ = (int(v) for v in static(filter_sizes, "filter_sizes"))
    if inputs != image.shape[3]:
        raise LowerError("the gradient of a grouped convolution in its weights", found=str(type_of(x)))
    if how.padding == "EXPLICIT":
        sides = how.explicit_sides
    else:
        same = how.padding == "SAME"
        sides = fixed_sides(image, (height, width), how.steps, how.spacing) if same else ()
    if any(map(any, sides)):
        image = padded(image, sides)
    rows = conv_2d(  # f[i,kh+,kw+,o]: what the steps leave over at the end makes more rows than the window has
        ops.transpose(image, (3, 1, 2, 0)), ops.transpose(gradient, (3, 1, 2, 0)), "VALID", how.spacing, how.steps
    )
    if rows.shape[1:3] != (height, width):
        begin, step = np.zeros(4, np.int32), np.ones(4, np.int32)
        end = np.array([0, height, width, 0], np.int32)
        rows = ops.strided_slice(rows, begin, end, step, begin_mask=9, end_mask=9)
    return ops.transpose(rows, (1, 2, 0, 3))


@lowers("MaxPoolGrad")
def lower_max_pool_grad(x: Array, y: Array, dy: Array, *, how: PoolAttributes) -> Array:
    """Each gradient where its window has the first of its largest elements.   x: f[b,h,w,c]; y, dy: f[b,h',w',c]"""
    if how.layout[-1] != "C" or how.padding == "EXPLICIT":
        raise LowerError(
            "the gradient of a pool of channels-first images or with explicit paddings",
            found=f"{how.layout}, {how.padding}",
            remedy='use data_format="NHWC" with padding "SAME" or "VALID"',
        )
    _, places = lower_max_pool_with_argmax.function(x, how=how, Targmax=DType.i32, include_batch_in_index=True)
    size = product(tuple(x.shape))
    count = shape_tensor((size,), [x])
    total = segments(ops.unsorted_segment_sum, dy, places, ops.reshape(count, np.zeros(0, np.int32)))
    return shaped(total, tuple(x.shape), x)
