"""CONV_2D and DEPTHWISE_CONV_2D on quantized integers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array, namespace
from jfuse.kernels.integer.numbers.exact_products import byte_products, float_of, in_bytes_or_floats, in_two_bytes
from jfuse.kernels.integer.numbers.rescaling import rescaled, takes_products
from jfuse.kernels.integer.numbers.scaling import CLAMPS, activation_range, finished
from jfuse.kernels.integer.tables import is_of_bytes_or_words
from jfuse.kernels.nn.conv import conv_2d, convolved, depthwise_conv_2d, transpose_conv, transpose_convolved
from jfuse.kernels.nn.conv_without_xla import convolved_as_product, depthwise_shifted, padded, places
from jfuse.kernels.nn.pool import average_pool_2d, max_pool_2d
from jfuse.kernels.nn.windows import same_padding, window_count, window_counts

_IMAGES = ("NHWC", "OHWI", "NHWC")
_CHANNELS = 4  # XLA on x86 has a kernel for images of a multiple of so many channels; others take ten times as long
_FEW = 3  # input channels, below which a window's elements in a row become the channels


def _takes(types: IntegerTypes, options: Params, axis: int) -> bool:
    of, bias = types.quantization(1), types.dtypes(2)[0]
    plain = (is_per_tensor(types.inputs[0]), is_per_tensor(types.outputs[0]), of is not None)
    if not all(plain) or of is None or options["fused_activation_function"] not in CLAMPS:
        return False
    if options.get("quantized_bias_type") is DType.i32 and types.dtypes(0) == (DType.i16,):
        return False  # sums of 32 bits
    # Of weights of i4, LiteRT's own kernels round otherwise: in CONV_2D by 1 in 2 of 150 results.
    kinds = takes_products(types) and types.dtypes(1) == (DType.i8,)
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
    padding = options["padding"]
    ones = weights.astype(np.int32).sum(3 if layout == "OHWI" else (), dtype=np.int32)
    by_place = ones if layout == "OHWI" else np.transpose(ones[0], (2, 0, 1))
    inside = _under_windows(by_place, x.shape[1:3], strides, dilations, padding)
    sums = _depthwise_sums if layout == "IHWO" else _sums
    shape = (weights.astype(np.int8), padding, strides, dilations)
    if types.dtypes(0) == (DType.i8,):
        total = sums(x, *shape) - types.zero_point(0) * inside
    else:
        total = in_two_bytes(x, lambda part: sums(part, *shape), inside)
    total = total if bias is None else total + bias
    return finished(rescaled(types, total), types.outputs[0], options["fused_activation_function"])


def _sums(x: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """x: i8[b,h,w,i], weights: i8[o,kh,kw,i] -> i32[b,h',w',o]"""
    outputs, *window, inputs = weights.shape
    shape = (padding, strides, dilations)

    def in_bytes(x: Array) -> Array:
        if window == [1, 1]:
            return byte_products(lax.slice(x, (0,) * 4, x.shape, (1, *strides, 1)), weights.reshape(outputs, inputs))
        return _convolved_bytes(x, weights, *shape)

    def in_floats(x: Array, dtype: Any) -> Array:
        filters = weights.astype(dtype)
        sums = convolved_as_product(x, filters, *shape)
        return convolved(x, filters, *shape, 1, _IMAGES) if sums is None else sums

    return in_bytes_or_floats(x, in_bytes, in_floats, weights.size // outputs)


def _convolved_bytes(x: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """As `_sums`, in bytes."""
    outputs, *window, inputs = weights.shape
    filters, around = weights, [(0, 0), (0, 0)]
    if padding == "SAME":
        around = [same_padding(*axis) for axis in zip(x.shape[1:3], window, strides, dilations, strict=True)]
    if inputs < _FEW:
        counts = window_counts(x.shape[1:3], window, strides, dilations, padding)
        across = ((1, strides[1]), (1, dilations[1]), (x.shape[1], counts[1]))
        wide = jnp.pad(x, ((0, 0), (0, 0), around.pop(), (0, 0)))
        x = jnp.concatenate([place for _, place in places(wide, (1, window[1]), *across)], 3)
        around.append((0, 0))
        filters = filters.reshape(outputs, window[0], 1, window[1] * inputs)
        strides, dilations = (strides[0], 1), (dilations[0], 1)
    more = ((0, 0), (0, 0), (0, 0), (0, -filters.shape[3] % _CHANNELS))
    sums: Array = lax.conv_general_dilated(
        jnp.pad(x, more),
        jnp.asarray(np.transpose(np.pad(filters, more), (1, 2, 3, 0))),
        strides,
        around,
        rhs_dilation=dilations,
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
        preferred_element_type=jnp.int32,
    )
    return sums


def _depthwise_sums(x: Array, weights: Array, padding: str, strides: Sequence[int], dilations: Sequence[int]) -> Array:
    """x: i8[b,h,w,i], weights: i8[1,kh,kw,i*m] -> i32[b,h',w',i*m]"""
    window = weights.shape[1:3]
    around = padded(jnp.asarray(x), window, strides, dilations, padding)  # in bytes, before they get wide
    sums = depthwise_shifted(around.astype(np.int32), weights.astype(np.int32), "VALID", strides, dilations)
    if sums is not None:
        return sums
    image, filters = (v.astype(float_of(weights.size // weights.shape[3], 128, 128)) for v in (around, weights))
    layout = ("NHWC", "IHWO", "NHWC")
    return convolved(image, filters, "VALID", strides, dilations, x.shape[3], layout).astype(np.int32)


def _under_windows(
    weights: Array, sizes: Sequence[Any], strides: Sequence[int], dilations: Sequence[int], padding: str
) -> Array:
    """Sum each window's weights that lie on the image: the padding around it holds no real zeros.

    weights: i32[o,kh,kw], sizes: of the image. -> i32[o] without padding, else i32[h',w',o]
    """
    if padding == "VALID":
        return weights.sum((1, 2))
    axes = list(zip(sizes, weights.shape[1:], strides, dilations, strict=True))
    inside = [_is_inside(*axis) for axis in axes]
    return namespace(*inside).einsum("hi,wj,oij->hwo", *inside, weights)


def _is_inside(size: Any, window: int, stride: int, dilation: int) -> Array:
    """Whether a place in a window lies on the image.   -> i32[windows,places] of 0 and 1"""
    count = window_count(size, window, stride, dilation, "SAME")
    xp = np if is_known(size) else jnp
    starts = stride * xp.arange(count) - same_padding(size, window, stride, dilation)[0]
    places = starts[:, None] + dilation * np.arange(window)
    return ((places >= 0) & (places < size)).astype(np.int32)


# AVERAGE_POOL_2D and MAX_POOL_2D on quantized integers.


def _takes_pool(types: IntegerTypes, options: Params) -> bool:
    same = (types.scale(0), types.zero_point(0)) if is_of_bytes_or_words(types) else None
    return options["fused_activation_function"] in CLAMPS and same == (types.output_scale(), types.output_zero_point())


@average_pool_2d.quantized(_takes_pool)
def _average_pool(types: IntegerTypes, x: Array, /, **options: Any) -> Array:
    """Rounded to nearest, halves away from zero.   Source: tflite/kernels/internal/reference/integer_ops/pooling.h"""
    x = jnp.asarray(x).astype(np.int32)
    total, count = (_over_windows(v, np.int32(0), lax.add, options) for v in (x, jnp.ones_like(x)))
    size = (jnp.abs(total) + count // 2) // count
    return _within(jnp.sign(total) * size, types, options)


@max_pool_2d.quantized(_takes_pool)
def _max_pool(types: IntegerTypes, x: Array, /, **options: Any) -> Array:
    x = jnp.asarray(x)
    return _within(_over_windows(x, np.array(np.iinfo(x.dtype).min, x.dtype), lax.max, options), types, options)


def _over_windows(x: Array, first: Any, combine: Any, options: Params) -> Array:
    window = (1, options["filter_height"], options["filter_width"], 1)
    strides = (1, options["stride_h"], options["stride_w"], 1)
    return lax.reduce_window(x, first, combine, window, strides, options["padding"])


def _within(x: Array, types: IntegerTypes, options: Params) -> Array:
    least, greatest = activation_range(types.outputs[0], options["fused_activation_function"])
    return jnp.clip(x, least, greatest).astype(types.outputs[0].dtype.numpy)


# TRANSPOSE_CONV on quantized integers.

_X = 2  # the position of the image


def _takes_transposed(types: IntegerTypes, options: Params) -> bool:
    of, bias = types.quantization(1), types.inputs[3]
    if of is None or not is_per_tensor(types.inputs[_X]) or not is_per_tensor(types.outputs[0]):
        return False
    if options["fused_activation_function"] not in CLAMPS or options["quantized_bias_type"] is DType.i32:
        return False
    if types.on_default_path and _has_gaps(types, options):
        return False  # where no weight reaches, LiteRT 2.3.0 rounds in another way
    constant = {0, 1} | ({3} if bias else set()) <= types.constants
    scales = (len(of.scale) == 1 or of.axis == 0) and not of.block_size and not any(of.zero_point)
    return constant and scales and takes_products(types, _X, 3)


def _has_gaps(types: IntegerTypes, options: Params) -> bool:
    """Whether weights span less than the strides, so that parts of the result are the bias alone, or may be."""
    image, weights, result = (
        t.shape if t is not None else () for t in (types.inputs[_X], types.inputs[1], types.outputs[0])
    )
    for axis, stride in ((1, options["stride_h"]), (2, options["stride_w"])):
        known = is_known(image[axis]) and is_known(result[axis])
        missing = result[axis] - stride * (image[axis] - 1) if known else stride
        if weights[axis] < missing:
            return True
    return False


@transpose_conv.quantized(_takes_transposed)
def _transpose_conv(
    types: IntegerTypes, output_shape: Any, weights: Array, x: Array, bias: Array | None = None, /, **options: Any
) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/transpose_conv.h"""
    is_wide = types.dtypes(_X) == (DType.i16,)
    dtype = float_of(weights.size // weights.shape[0], 1 << 15 if is_wide else 1 << 8, 1 << 7)
    image = jnp.asarray(x).astype(dtype) - dtype(types.zero_point(_X))
    strides = (options["stride_h"], options["stride_w"])
    layout = ("NHWC", "OHWI", "NHWC")
    convolved = transpose_convolved(
        image, weights.astype(dtype), output_shape, options["padding"], strides, (1, 1), layout
    )
    total = convolved.astype(np.int64 if is_wide else np.int32)
    total = total if bias is None else total + bias
    return finished(rescaled(types, total, _X), types.outputs[0], options["fused_activation_function"])
