"""Convolutions and pooling over images."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from jfuse.errors import LowerError
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.rules import lowers

_TO_NHWC = (0, 2, 3, 1)
_TO_NCHW = (0, 3, 1, 2)


@lowers("Conv2D")
def lower_conv_2d(
    x: Array,
    weights: Array,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
    use_cudnn_on_gpu: bool = True,
) -> Array:
    """x: f[b,h,w,i] (or f[b,i,h,w]), weights: f[kh,kw,i/groups,o].   -> CONV_2D"""
    (stride_h, stride_w), (dilation_h, dilation_w) = (_spatial(v, data_format) for v in (strides, dilations))

    def convolve(image: Array, padding: str) -> Array:
        return ops.conv_2d(
            image,
            ops.transpose(weights, (3, 0, 1, 2)),  # of a constant a view
            _no_bias(weights, weights.shape[3]),
            padding=padding,
            stride_w=stride_w,
            stride_h=stride_h,
            dilation_w_factor=dilation_w,
            dilation_h_factor=dilation_h,
        )

    return _on_images(x, convolve, padding, explicit_paddings, data_format)


@lowers("DepthwiseConv2dNative")
def lower_depthwise_conv_2d(
    x: Array,
    weights: Array,
    *,
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
    dilations: Sequence[int] = (1, 1, 1, 1),
) -> Array:
    """x: f[b,h,w,i] (or f[b,i,h,w]), weights: f[kh,kw,i,m].   -> DEPTHWISE_CONV_2D"""
    (stride_h, stride_w), (dilation_h, dilation_w) = (_spatial(v, data_format) for v in (strides, dilations))
    height, width, channels, multiplier = weights.shape
    shape = (1, height, width, channels * multiplier)

    def convolve(image: Array, padding: str) -> Array:
        return ops.depthwise_conv_2d(
            image,
            ops.reshape(weights, shape),
            _no_bias(weights, channels * multiplier),
            padding=padding,
            stride_w=stride_w,
            stride_h=stride_h,
            depth_multiplier=multiplier,
            dilation_w_factor=dilation_w,
            dilation_h_factor=dilation_h,
        )

    return _on_images(x, convolve, padding, explicit_paddings, data_format)


@lowers("MaxPool")
def lower_max_pool(
    x: Array,
    *,
    ksize: Sequence[int],
    strides: Sequence[int],
    padding: str,
    explicit_paddings: Sequence[int] = (),
    data_format: str = "NHWC",
) -> Array:
    """The largest element of each window.   f[b,h,w,c] (or f[b,c,h,w])"""
    window = _window(ksize, strides, data_format)

    def pool(image: Array, padding: str) -> Array:
        return ops.max_pool_2d(image, padding=padding, **window)

    return _on_images(x, pool, padding, explicit_paddings, data_format, fill=-np.inf)


@lowers("AvgPool")
def lower_avg_pool(
    value: Array, *, ksize: Sequence[int], strides: Sequence[int], padding: str, data_format: str = "NHWC"
) -> Array:
    """The mean of each window, of its elements within the image.   f[b,h,w,c] (or f[b,c,h,w])"""
    window = _window(ksize, strides, data_format)

    def pool(image: Array, padding: str) -> Array:
        return ops.average_pool_2d(image, padding=padding, **window)

    return _on_images(value, pool, padding, (), data_format)


def _no_bias(weights: Array, channels: int) -> np.ndarray:
    """Zeros: TFLite's kernels want a bias."""
    return np.zeros(channels, weights.dtype)


def _window(ksize: Sequence[int], strides: Sequence[int], data_format: str) -> dict[str, int]:
    (height, width), (stride_h, stride_w) = (_spatial(v, data_format) for v in (ksize, strides))
    if np.prod(ksize) != height * width:
        raise LowerError(
            "pooling over the batch or the channels",
            expected="windows over height and width",
            found=f"ksize {tuple(ksize)}",
            remedy="use tf.reduce_max or tf.reduce_mean over these axes",
        )
    return {"filter_height": height, "filter_width": width, "stride_h": stride_h, "stride_w": stride_w}


def _spatial(values: Sequence[int], data_format: str) -> tuple[int, int]:
    """Those of height and width."""
    place = data_format.index("H")
    return values[place], values[place + 1]


def _on_images(
    x: Array,
    apply: Callable[[Array, str], Array],
    padding: str,
    explicit: Sequence[int],
    data_format: str,
    fill: float = 0.0,
) -> Array:
    """`apply` on f[b,h,w,c] with a padding that TFLite knows."""
    images = x if data_format == "NHWC" else ops.transpose(x, _TO_NHWC)
    if padding == "EXPLICIT":
        place = 2 * data_format.index("H")
        sides = np.array([(0, 0), explicit[place : place + 2], explicit[place + 2 : place + 4], (0, 0)], np.int32)
        images = ops.padv2(images, sides, np.array(fill, images.dtype)) if fill else ops.pad(images, sides)
        padding = "VALID"
    result = apply(images, padding)
    return result if data_format == "NHWC" else ops.transpose(result, _TO_NCHW)
