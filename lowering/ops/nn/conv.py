"""Convolutions over images and volumes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known, same
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.kernels.nn.windows import same_padding, window_counts
from jfuse.lowering.rule_tools.image_layout import WindowAttributes, on_images, padded
from jfuse.lowering.rule_tools.query import rank, type_of
from jfuse.lowering.rule_tools.rows import unpacked
from jfuse.lowering.rule_tools.shape_tensors import shaped
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

    def convolve(image: Array, padding: str) -> Array:
        return _depthwise_2d(image, weights, padding, how.steps, how.spacing)

    return on_images(x, convolve, weights.shape[:2], how)


def _depthwise_2d(
    image: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]
) -> Array:
    height, width, channels, multiplier = weights.shape
    return ops.depthwise_conv_2d(
        image,
        ops.reshape(weights, (1, height, width, channels * multiplier)),
        no_bias(weights, channels * multiplier),
        padding=padding,
        stride_w=strides[1],
        stride_h=strides[0],
        depth_multiplier=multiplier,
        dilation_w_factor=dilations[1],
        dilation_h_factor=dilations[0],
    )


@lowers("Conv3D")
def lower_conv_3d(x: Array, weights: Array, *, how: WindowAttributes) -> Array:
    """x: f[b,d,h,w,i] (or f[b,i,d,h,w]), weights: f[kd,kh,kw,i/groups,o].   -> CONV_3D, one for each group

    A filter for each channel becomes DEPTHWISE_CONV_2D, one for each of its slices.
    """

    def convolve(volume: Array, padding: str) -> Array:
        return conv_3d(volume, weights, padding, how.steps, how.spacing)

    return on_images(x, convolve, weights.shape[:3], how)


def conv_3d(volume: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """CONV_3D, which knows no groups: so one for each.   volume: f[b,d,h,w,i], weights: f[kd,kh,kw,i/groups,o]"""
    groups = volume.shape[4] // weights.shape[3]
    if same(groups, 1) is False:
        if same(groups, volume.shape[4]) and is_known(volume.shape[1]):
            return _depthwise_3d(volume, weights, padding, strides, dilations)
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


def _depthwise_3d(
    volume: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]
) -> Array:
    """For each slice of the filters the slices of the volume that it meets, as images; the sum of what they give.

    volume: f[b,d,h,w,c], weights: f[kd,kh,kw,1,c*m]
    """
    if padding == "SAME":
        before, after = same_padding(volume.shape[1], weights.shape[0], strides[0], dilations[0])
        volume = padded(volume, ((before, after), (0, 0), (0, 0))) if before or after else volume
    batch, depth, *image = volume.shape
    (count,) = window_counts((depth,), weights.shape[:1], strides[:1], dilations[:1], "VALID")
    depthwise = partial(_depthwise_2d, padding=padding, strides=strides[1:], dilations=dilations[1:])
    terms = []
    for k, slice_ in enumerate(unpacked(weights)):
        begin, end = np.zeros(5, np.int32), np.zeros(5, np.int32)
        begin[1] = k * dilations[0]
        end[1] = begin[1] + (count - 1) * strides[0] + 1
        steps = np.array([1, strides[0], 1, 1, 1], np.int32)
        whole = count == depth and strides[0] == 1
        met = volume if whole else ops.strided_slice(volume, begin, end, steps, begin_mask=29, end_mask=29)
        filters = ops.reshape(slice_, (*weights.shape[1:3], volume.shape[4], -1))
        terms.append(depthwise(shaped(met, (batch * count, *image), met), filters))
    total = reduce(ops.add, terms)
    return shaped(total, (batch, count, *total.shape[1:]), volume)


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
