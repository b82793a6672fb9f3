"""QUANTIZE and DEQUANTIZE on quantized integers."""

from __future__ import annotations

import math

import jax.numpy as jnp
import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied
from jfuse.kernels.integer.numbers.scaling import divided, finished, half_away_from_zero, to_nearest_even
from jfuse.kernels.nn.quantize import dequantize, dequantized, quantize

_LEAST, _GREATEST = 2.0**-8, 2.0**7
"""Scales over those of the result that XNNPACK takes.   Source: XNNPACK/src/operators/unary-elementwise-nc.c"""
_ABREAST = 16
"""Bytes that LiteRT's own kernel takes together, with another rounding.   Source: optimized_ops.h, Requantize"""
_STORED = frozenset({DType.i4, DType.i8, DType.u8, DType.i16})


def _takes_dequantize(types: IntegerTypes, options: Params) -> bool:
    (dtype,) = types.dtypes(0)
    of = types.quantization(0)
    if dtype not in _STORED or types.outputs[0].dtype is not DType.f32 or of is None or of.block_size:
        return False
    of_bytes = len(of.scale) == 1 and dtype is not DType.i16
    return of_bytes or not any(of.zero_point)


@dequantize.quantized(_takes_dequantize)
def _dequantize(types: IntegerTypes, x: Array, /) -> Array:
    of = types.quantization(0)
    assert of is not None, "_takes_dequantize"
    if types.rounding is None or not any(of.zero_point):
        return dequantized(x, of)
    return (x.astype(np.int32) - of.zero_point[0]).astype(np.float32) * np.float32(of.scale[0])


def _takes_quantize(types: IntegerTypes, options: Params) -> bool:
    (dtype_,), wanted = types.dtypes(0), types.outputs[0]
    if not is_per_tensor(wanted) or wanted.dtype not in (DType.i8, DType.u8, DType.i16):
        return False
    if dtype_ is DType.f32:
        return True
    if not is_per_tensor(types.inputs[0]) or dtype_ not in (DType.i8, DType.i16, DType.u8):
        return False
    if dtype_ is wanted.dtype and dtype_ is not DType.i16:
        return _on_xnnpack(types) or types.rounding == "tflm" or _is_small(types)
    return DType.i16 in (dtype_, wanted.dtype) or bool(_ratio(types) == 1)  # other kernels round by place


def _on_xnnpack(types: IntegerTypes) -> bool:
    return bool(_LEAST <= _ratio(types) <= _GREATEST)


def _is_small(types: IntegerTypes) -> bool:
    """Whether no elements are taken together, as of what starts the state of a recurrence: one for each sample."""
    x = types.inputs[0]
    return x is not None and all(map(is_known, x.shape)) and math.prod(map(int, x.shape)) < _ABREAST


@quantize.quantized(_takes_quantize)
def _quantize(types: IntegerTypes, x: Array, /) -> Array:
    """Source: tflite/kernels/quantize.cc; XNNPACK/src/operators/unary-elementwise-nc.c"""
    x = jnp.asarray(x)
    if types.dtypes(0) == (DType.f32,):
        return finished(_steps(types, x), types.outputs[0])
    centred = x.astype(np.int32) - types.zero_point(0)
    is_of_bytes = types.outputs[0].dtype is types.dtypes(0)[0] is not DType.i16
    if types.on_default_path and is_of_bytes and _on_xnnpack(types):
        steps = (centred * int(np.rint(256 * _ratio(types))) + 128) >> 8
    else:
        steps = multiplied(centred, Multiplier.of(float(types.scale(0)) / float(types.output_scale())))
    return finished(steps, types.outputs[0])


def _ratio(types: IntegerTypes) -> np.float32:
    return np.float32(types.scale(0) / types.output_scale())


def _steps(types: IntegerTypes, x: Array) -> Array:
    scale = types.output_scale()
    if not types.on_default_path:
        return half_away_from_zero(divided(x, float(scale)))
    steps = to_nearest_even(x * (np.float32(1) / scale))
    if types.outputs[0].dtype is not DType.i16:
        return steps
    # No type of XNNPACK: LiteRT's own kernel rounds what is left over from vectors of eight in another way.
    place = jnp.arange(x.size).reshape(x.shape)
    left_over = half_away_from_zero(divided(x.astype(np.float64), float(scale)))
    return jnp.where(place < x.size - x.size % 8, steps, left_over)
