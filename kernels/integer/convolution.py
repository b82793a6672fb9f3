"""CONV_2D and DEPTHWISE_CONV_2D on quantized integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.exact_products import as_float, as_integers, float_of
from jfuse.kernels.integer.fixed_point import Multiplier, multiplied
from jfuse.kernels.integer.scaling import CLAMPS, finished, float_scales, product_scales, to_nearest_even
from jfuse.kernels.nn.conv import conv_2d, convolved, depthwise_conv_2d
from jfuse.kernels.nn.conv_without_xla import convolved_as_product, depthwise_shifted
from jfuse.kernels.nn.windows import same_padding


def _takes(types: IntegerTypes, options: Params, axis: int) -> bool:
    of, bias = types.quantization(1), types.dtypes(2)[0]
    plain = (is_per_tensor(types.inputs[0]), is_per_tensor(types.outputs[0]), of is not None)
    if not all(plain) or of is None or options["fused_activation_function"] not in CLAMPS:
        return False
    kinds = (*types.dtypes(0, 1), types.outputs[0].dtype) == (DType.i8,) * 3 and bias in (DType.i32, None)
    constant = {1} | ({2} if bias else set()) <= types.constants
    scales = len(of.scale) == 1 or of.axis == axis
    return kinds and constant and scales and not of.block_size and not any(of.zero_point)


def _takes_conv(types: IntegerTypes, options: Params) -> bool:
    x, weights = types.inputs[:2]
    assert x is not None, "an image"
    assert weights is not None, "a filter"
    return _takes(types, options, 0) and x.shape[3] == weights.shape[3]


def _takes_depthwise(types: IntegerTypes, options: Params) -> bool:
    return _takes(types, options, 3)


@conv_2d.quantized(_takes_conv)
def _conv_2d(types: IntegerTypes, x: Array, weights: Array, bias: Array | None = None, /, **options: Any) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/conv.h"""
    return _convolved(types, x, weights, bias, 0, "OHWI", options)


@depthwise_conv_2d.quantized(_takes_depthwise)
def _depthwise(types: IntegerTypes, x: Array, weights: Array, bias: Array | None = None, /, **options: Any) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/depthwise_conv.h"""
    return _convolved(types, x, weights, bias, 3, "IHWO", options)


def _convolved(
    types: IntegerTypes, x: Array, weights: Array, bias: Array | None, channels: int, layout: str, options: Any
) -> Array:
    strides = (options["stride_h"], options["stride_w"])
    dilations = (options["dilation_h_factor"], options["dilation_w_factor"])
    padded = _padded(x, weights.shape[1:3], strides, dilations, options["padding"], types.zero_point(0))
    groups = x.shape[3] if layout == "IHWO" else 1
    terms = weights.size // weights.shape[channels]
    dtype = float_of(terms, 128, 128)
    image, filters = as_float(padded, dtype), as_float(weights, dtype)
    spell = depthwise_shifted if layout == "IHWO" else convolved_as_product
    sums = spell(image, filters, "VALID", strides, dilations)
    if sums is None:
        sums = convolved(image, filters, "VALID", strides, dilations, groups, ("NHWC", layout, "NHWC"))
    others = tuple(axis for axis in range(4) if axis != channels)
    total = as_integers(sums) - types.zero_point(0) * weights.astype(np.int32).sum(others, dtype=np.int32)
    total = total if bias is None else total + bias
    if types.rounding == "xnnpack":
        steps: Array = to_nearest_even(total.astype(np.float32) * float_scales(types, 0, 1))
    else:
        steps = multiplied(total, Multiplier.of(product_scales(types, 0, 1)))
    return finished(steps, types.outputs[0], options["fused_activation_function"])


def _padded(
    x: Array, window: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str, zero_point: int
) -> Array:
    """The image with real zeros around it, as "SAME" adds them."""
    x = jnp.asarray(x)
    if padding == "VALID":
        return x
    sizes = zip(x.shape[1:3], window, strides, dilations, strict=True)
    around = [(0, 0), *(same_padding(*axis) for axis in sizes), (0, 0)]
    return jnp.pad(x, around, constant_values=zero_point)
