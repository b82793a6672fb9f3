"""MEAN and SUM on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.errors import TypeMismatch
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied
from jfuse.kernels.integer.numbers.scaling import finished, to_nearest_even
from jfuse.kernels.integer.tables import is_of_bytes
from jfuse.kernels.math.reduce import axis_tuple, mean, sum_


@mean.quantized(is_of_bytes)
def _mean(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/internal/reference/reduce.h, QuantizedMeanOrSum"""
    return _reduced(types, x, axes, keep_dims, is_mean=True)


@sum_.quantized(is_of_bytes)
def _sum(types: IntegerTypes, x: Array, axes: Any, /, *, keep_dims: bool) -> Array:
    """Source: tflite/kernels/reduce.cc, EvalSum"""
    if types.rounding == "reference":
        raise TypeMismatch("the reference kernel's sum of bytes wraps around", expected="xnnpack or tflm")
    return _reduced(types, x, axes, keep_dims, is_mean=False)


def _reduced(types: IntegerTypes, x: Array, axes: Any, keep_dims: bool, *, is_mean: bool) -> Array:
    axis = axis_tuple(axes)
    x = jnp.asarray(x).astype(np.int32) - types.zero_point(0)
    total = x.sum(axis, keepdims=keep_dims, dtype=np.int32)
    count = int(np.prod([x.shape[a] for a in axis])) if is_mean else 1
    scale = np.float32(types.scale(0) / types.output_scale())
    if types.rounding == "xnnpack":
        steps: Array = to_nearest_even(total.astype(np.float32) * np.float32(scale / np.float32(count)))
    else:
        steps = multiplied(total, Multiplier.of(float(scale) / count))
    return finished(steps, types.outputs[0])
