"""MEAN and SUM on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied
from jfuse.kernels.integer.numbers.scaling import finished, to_nearest_even
from jfuse.kernels.integer.tables import is_of_bytes, is_of_bytes_or_words
from jfuse.kernels.math.reduce import axis_tuple, mean, sum_


@mean.quantized(is_of_bytes_or_words)
def _mean(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum"""
    return _reduced(types, x, axes, keep_dims, is_mean=True)


def _takes_sum(types: IntegerTypes, options: Params) -> bool:
    return types.rounding != "reference" and is_of_bytes(types, options)  # whose sum of bytes wraps around


@sum_.quantized(_takes_sum)
def _sum(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/reduce.cc, EvalSum"""
    return _reduced(types, x, axes, keep_dims, is_mean=False)


def _reduced(types: IntegerTypes, x: Array, axes: Any, keep_dims: bool, *, is_mean: bool) -> Array:
    axis = axis_tuple(axes)
    x = jnp.asarray(x).astype(np.int32) - types.zero_point(0)
    total = x.sum(axis, keepdims=keep_dims, dtype=np.int32)
    count = int(np.prod([x.shape[a] for a in axis])) if is_mean else 1
    scale = float(types.scale(0)) / float(types.output_scale())
    if types.on_default_path and is_of_bytes(types):
        steps: Array = to_nearest_even(total.astype(np.float32) * np.float32(np.float32(scale) / np.float32(count)))
    else:
        steps = multiplied(total, _over(Multiplier.of(scale), count))
    return finished(steps, types.outputs[0])


def _over(by: Multiplier, count: int) -> Multiplier:
    """A multiplier divided by a number of elements, cut off.

    Source: tflite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum
    """
    left = min(count.bit_length() - 1, 32, 31 + int(by.shift)) if count > 1 else 0
    return Multiplier((by.mantissa << left) // count, by.shift - left)
