"""FULLY_CONNECTED on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.exact_products import integer_products
from jfuse.kernels.integer.fixed_point import Multiplier, multiplied
from jfuse.kernels.integer.scaling import (
    CLAMPS,
    finished,
    float_scales,
    half_away_from_zero,
    product_scales,
    to_nearest_even,
)
from jfuse.kernels.linalg.matmul import fully_connected


def _takes(types: IntegerTypes, options: Params) -> bool:
    x, *_ = types.inputs
    if (
        not is_per_tensor(x)
        or not is_per_tensor(types.outputs[0])
        or options["fused_activation_function"] not in CLAMPS
    ):
        return False
    of = types.quantization(1)
    if of is None or of.block_size or any(of.zero_point) or 1 not in types.constants:
        return False
    if len(of.scale) > 1 and of.axis != 0:
        return False
    kinds = (*types.dtypes(0, 1, 2), types.outputs[0].dtype)
    if kinds[:2] == (DType.i8, DType.i8):
        return kinds[2] in (DType.i32, None) and kinds[3] is DType.i8 and (2 in types.constants or kinds[2] is None)
    return False


@fully_connected.quantized(_takes)
def _fully_connected(
    types: IntegerTypes,
    x: Array,
    weights: Array,
    bias: Array | None = None,
    /,
    *,
    fused_activation_function: str,
    keep_num_dims: bool,
    **_: Any,
) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/fully_connected.h"""
    rows = x if keep_num_dims else x.reshape((-1, weights.shape[1]))
    total = product_sums(rows, weights, types.zero_point(0))
    total = total if bias is None else total + bias
    scales = product_scales(types, 0, 1)
    if types.rounding == "xnnpack":
        steps: Array = to_nearest_even(total.astype(jnp.float32) * float_scales(types, 0, 1))
    elif types.rounding == "reference":
        steps = half_away_from_zero(total.astype(jnp.float64) * scales)
    else:
        steps = multiplied(total, Multiplier.of(scales))
    return finished(steps, types.outputs[0], fused_activation_function)


def product_sums(rows: Array, weights: Array, zero_point: int) -> Array:
    """(rows - zero_point) times the transposed weights.   rows: i8[...,k], weights: i8[n,k] -> i32[...,n]"""
    return integer_products(rows, weights) - zero_point * weights.astype(np.int32).sum(1, dtype=np.int32)
