"""Convolutions over images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.image_layout import WindowAttributes, on_images
from jfuse.lowering.rule_tools.query import rank, type_of
from jfuse.lowering.rules import lowers


@lowers("Conv2D")
def lower_conv_2d(x: Array, weights: Array, *, how: WindowAttributes) -> Array:
    """x: f[b,h,w,i] (or f[b,i,h,w]), weights: f[kh,kw,i/groups,o].   -> CONV_2D"""
    filters = ops.transpose(weights, (3, 0, 1, 2))  # of a constant a view

    def convolve(image: Array, padding: str) -> Array:
        return conv_2d(image, filters, padding, how.steps, how.spacing)

    return on_images(x, convolve, weights.shape[:2], how)


def conv_2d(
    image: Array, filters: Array, padding: str, strides: Sequence[int], dilations: Sequence[int] = (1, 1)
) -> Array:
    """CONV_2D with zeros as bias, which TFLite's kernels want.   image: f[b,h,w,i], filters: f[o,kh,kw,i/groups]

    An open number of channels is that of the filters: one group.
    """
    if not is_known(image.shape[3]):
        agreed(image.shape[3], filters.shape[3])
    return ops.conv_2d(
        image,
        filters,
        no_bias(filters, filters.shape[0]),
        padding=padding,
        stride_w=strides[1],
        stride_h=strides[0],
        dilation_w_factor=dilations[1],
        dilation_h_factor=dilations[0],
    )


@lowers("DepthwiseConv2dNative")
def lower_depthwise_conv_2d(x: Array, weights: Array, *, how: WindowAttributes) -> Array:
    """x: f[b,h,w,i] (or f[b,i,h,w]), weights: f[kh,kw,i,m].   -> DEPTHWISE_CONV_2D"""
    steps, spacing = how.steps, how.spacing
    height, width, channels, multiplier = weights.shape
    filters = ops.reshape(weights, (1, height, width, channels * multiplier))

    def convolve(image: Array, padding: str) -> Array:
        return ops.depthwise_conv_2d(
            image,
            filters,
            no_bias(weights, channels * multiplier),
            padding=padding,
            stride_w=steps[1],
            stride_h=steps[0],
            depth_multiplier=multiplier,
            dilation_w_factor=spacing[1],
            dilation_h_factor=spacing[0],
        )

    return on_images(x, convolve, (height, width), how)


@lowers("Conv3D")
def lower_conv_3d(x: Array, weights: Array, *, how: WindowAttributes) -> Array:
    """x: f[b,d,h,w,i] (or f[b,i,d,h,w]), weights: f[kd,kh,kw,i/groups,o].   -> CONV_3D, one for each group"""

    def convolve(volume: Array, padding: str) -> Array:
        return conv_3d(volume, weights, padding, how.steps, how.spacing)

    return on_images(x, convolve, weights.shape[:3], how)


def conv_3d(volume: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """CONV_3D, which knows no groups: so one for each.   volume: f[b,d,h,w,i], weights: f[kd,kh,kw,i/groups,o]"""
    groups = volume.shape[4] // weights.shape[3]
    if same(groups, 1) is False:
        parts = zip(*(ops.split(np.int32(4), v, num_splits=groups) for v in (volume, weights)), strict=True)
        return ops.concatenation(*(conv_3d(x, w, padding, strides, dilations) for x, w in parts), axis=4)
    return ops.conv_3d(
        volume,
        weights,
        no_bias(weights, weights.shape[4]),
        padding=padding,
        **{f"stride_{axis}": step for axis, step in zip("dhw", strides, strict=True)},
        **{f"dilation_{axis}_factor": step for axis, step in zip("dhw", dilations, strict=True)},
    )


@lowers("Conv")
def lower_conv(x: Array, weights: Array, *, how: WindowAttributes, batch_dims: int = 1) -> Array:
    """As Conv2D or Conv3D, which the rank tells: any number of axes with one spelling of layouts."""
    axes = {4: "HW", 5: "DHW"}.get(rank(x))
    if axes is None or batch_dims != 1:
        raise LowerError(
            "a convolution over other than two or three axes",
            expected="x[batch, height, width, channels], or with a depth",
            found=f"{type_of(x)} with {batch_dims} axes for the batch",
            remedy="reshape it to a convolution with one batch axis",
        )
    layout = f"NC{axes}" if how.data_format == "CHANNELS_FIRST" else f"N{axes}C"
    rule = lower_conv_2d if len(axes) == 2 else lower_conv_3d
    return rule.function(x, weights, how=replace(how, data_format=layout))


def no_bias(weights: Array, channels: int) -> np.ndarray:
    """Zeros: TFLite's kernels want a bias."""
    return np.zeros(channels, weights.dtype)
