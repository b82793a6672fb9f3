"""Colours of images: between RGB and HSV, and changes of contrast, hue and saturation."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.ops.math.elementwise import clipped
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rules import lowers


@lowers("RGBToHSV")
def lower_rgb_to_hsv(images: Array) -> Array:
    """Red, green, blue along the last axis -> hue, saturation, value.   f[...,3] -> f[...,3]"""
    zero = scalar(0, images)
    hue, value, extent = _hue_value_extent(images)
    saturation = ops.select_v2(ops.greater(value, zero), ops.div(extent, value), zero)
    return ops.concatenation(hue, saturation, value, axis=rank(images) - 1)


@lowers("HSVToRGB")
def lower_hsv_to_rgb(images: Array) -> Array:
    """Hue, saturation, value along the last axis -> red, green, blue.   f[...,3] -> f[...,3]"""
    hue, saturation, value = _channels(images)
    rest = ops.sub(scalar(1, images), saturation)
    colour = ops.mul(saturation, _pure(ops.mul(hue, scalar(6, images))))
    return ops.mul(ops.add(rest, colour), value)


@lowers("AdjustHue")
def lower_adjust_hue(images: Array, delta: Array) -> Array:
    """RGB images with delta (1 is the whole circle) added to the hue.   f[...,3], f32[] -> f[...,3]"""
    hue, value, extent = _hue_value_extent(images)
    six = scalar(6, images)
    turned = ops.floor_mod(ops.mul(ops.add(hue, _like(delta, images)), six), six)
    return ops.add(ops.sub(value, extent), ops.mul(extent, _pure(turned)))


@lowers("AdjustSaturation")
def lower_adjust_saturation(images: Array, scale: Array) -> Array:
    """RGB images with the saturation multiplied, up to 1.   f[...,3], f32[] -> f[...,3]

    Hue and value stay, so that each colour keeps its share of the distance from the value, which grows by one ratio.
    """
    last = np.array([rank(images) - 1], np.int32)
    value = ops.reduce_max(images, last, keep_dims=True)
    extent = ops.sub(value, ops.reduce_min(images, last, keep_dims=True))
    # Grey pixels have no extent: a tiny one, which nothing is multiplied with.
    most = ops.div(value, ops.maximum(extent, np.asarray(np.finfo(dtype(images).numpy).tiny, dtype(images).numpy)))
    ratio = ops.maximum(ops.minimum(most, _like(scale, images)), scalar(0, images))
    return ops.sub(value, ops.mul(ops.sub(value, images), ratio))


@lowers("AdjustContrastv2")
def lower_adjust_contrast(images: Array, contrast_factor: Array) -> Array:
    """The distance from each channel's mean over the image, multiplied.   f[...,h,w,c], f32[] -> f[...,h,w,c]"""
    axes = np.array([rank(images) - 3, rank(images) - 2], np.int32)
    mean = ops.mean(images, axes, keep_dims=True)
    return ops.add(ops.mul(ops.sub(images, mean), _like(contrast_factor, images)), mean)


def _like(x: Array, images: Array) -> Array:
    """A factor, which TensorFlow has in f32, in the dtype of the images."""
    return x if dtype(images) is DType.f32 else ops.cast(x, out_data_type=dtype(images))


def _channels(images: Array) -> Any:
    """Each channel by itself.   f[...,3] -> three f[...,1]"""
    return ops.split(np.asarray(rank(images) - 1, np.int32), images, num_splits=3)


def _hue_value_extent(images: Array) -> tuple[Array, Array, Array]:
    """Of RGB images the hue in [0, 1), the greatest colour, and how far that is from the smallest.   f[...,1] each"""
    red, green, blue = _channels(images)
    zero, one = scalar(0, images), scalar(1, images)
    value = ops.maximum(red, ops.maximum(green, blue))
    extent = ops.sub(value, ops.minimum(red, ops.minimum(green, blue)))
    unit = ops.div(scalar(1 / 6, images), extent)
    from_red = ops.mul(unit, ops.sub(green, blue))
    from_green = ops.add(ops.mul(unit, ops.sub(blue, red)), scalar(2 / 6, images))
    from_blue = ops.add(ops.mul(unit, ops.sub(red, green)), scalar(4 / 6, images))
    others = ops.select_v2(ops.equal(green, value), from_green, from_blue)
    hue = ops.select_v2(ops.equal(red, value), from_red, others)
    hue = ops.select_v2(ops.greater(extent, zero), hue, zero)
    return ops.select_v2(ops.less(hue, zero), ops.add(hue, one), hue), value, extent


def _pure(sixths: Array) -> Array:
    """The pure colour of a hue in sixths of the circle.   f[...,1] -> f[...,3]

    Green and blue are full for a third of the circle around their hue and fade over a sixth; red is missing so.
    """
    centre, sign, start = (np.array(v, dtype(sixths).numpy) for v in ([3, 2, 4], [-1, 1, 1], [1, 0, 0]))
    near = clipped(ops.sub(scalar(2, sixths), ops.abs_(ops.sub(sixths, centre))), 0, 1)
    return ops.add(ops.mul(near, sign), start)
