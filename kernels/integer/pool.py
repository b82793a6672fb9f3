"""AVERAGE_POOL_2D and MAX_POOL_2D on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax import lax

from jfuse.ir.graph import Params
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.scaling import CLAMPS, activation_range
from jfuse.kernels.integer.tables import is_of_bytes_or_words
from jfuse.kernels.nn.pool import average_pool_2d, max_pool_2d


def _takes(types: IntegerTypes, options: Params) -> bool:
    same = (types.scale(0), types.zero_point(0)) if is_of_bytes_or_words(types) else None
    return options["fused_activation_function"] in CLAMPS and same == (types.output_scale(), types.output_zero_point())


@average_pool_2d.quantized(_takes)
def _average_pool(types: IntegerTypes, x: Array, /, **options: Any) -> Array:
    """Rounded to nearest, halves away from zero.   Source: tflite/kernels/internal/reference/integer_ops/pooling.h"""
    x = jnp.asarray(x).astype(np.int32)
    total, count = (_over_windows(v, np.int32(0), lax.add, options) for v in (x, jnp.ones_like(x)))
    size = (jnp.abs(total) + count // 2) // count
    return _within(jnp.sign(total) * size, types, options)


@max_pool_2d.quantized(_takes)
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
