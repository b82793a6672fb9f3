"""FULLY_CONNECTED and BATCH_MATMUL on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.lax import Precision

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor, zero_point_of
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.exact_products import in_two_bytes, integer_products
from jfuse.kernels.integer.numbers.fixed_point import (
    Multiplier,
    in_32_bits,
    multiplied,
    multiplied_half_up,
    multiplied_once,
    multiplied_wide,
)
from jfuse.kernels.integer.numbers.rescaling import rescaled, takes_products
from jfuse.kernels.integer.numbers.scaling import CLAMPS, finished, half_away_from_zero, product_scales
from jfuse.kernels.linalg.matmul import batch_matmul, fully_connected


def _takes(types: IntegerTypes, options: Params) -> bool:
    x, *_ = types.inputs
    if (
        not is_per_tensor(x)
        or not is_per_tensor(types.outputs[0])
        or options["fused_activation_function"] not in CLAMPS
    ):
        return False
    if options["quantized_bias_type"] is DType.i32 and x is not None and x.dtype is DType.i16:
        return False  # sums of 32 bits
    of = types.quantization(1)
    if of is None or of.block_size or any(of.zero_point) or 1 not in types.constants:
        return False
    if len(of.scale) > 1 and of.axis != 0:
        return False
    return takes_products(types) and (2 in types.constants or types.inputs[2] is None)


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
    quantized_bias_type: DType,
    **_: Any,
) -> Array:
    """Source: tflite/kernels/internal/reference/integer_ops/fully_connected.h; the optimized one for sums of 32 bits"""
    rows = x if keep_num_dims else x.reshape((-1, weights.shape[1]))
    weights = weights.astype(np.int8)
    by_unit = weights.astype(np.int32).sum(1, dtype=np.int32)
    is_wide = types.dtypes(0) == (DType.i16,)
    if is_wide:
        total = in_two_bytes(rows, lambda part: integer_products(part, weights), by_unit)
    else:
        total = integer_products(rows, weights) - types.zero_point(0) * by_unit
    total = total if bias is None else total + bias
    if is_wide and types.on_default_path and bias is None and quantized_bias_type is not DType.i64:
        by = Multiplier.of(product_scales(types, 0, 1))
        steps = multiplied_once(total, by) if types.rounding == "arm64" else multiplied_half_up(total, by)
    elif types.rounding == "reference" or (is_wide and types.on_default_path):
        steps = half_away_from_zero(total.astype(jnp.float64) * product_scales(types, 0, 1))
    else:
        steps = rescaled(types, total)
    return finished(steps, types.outputs[0], fused_activation_function)


def _takes_batch(types: IntegerTypes, options: Params) -> bool:
    tensors = (*types.inputs, *types.outputs)
    if not all(map(is_per_tensor, tensors)):
        return False
    dtypes = {t.dtype for t in tensors if t is not None}
    return dtypes == {DType.i8} or (
        dtypes == {DType.i16} and not any(zero_point_of(t) for t in tensors if t is not None)
    )


@batch_matmul.quantized(_takes_batch)
def _batch_matmul(types: IntegerTypes, x: Array, y: Array, /, *, adj_x: bool, adj_y: bool, **_: Any) -> Array:
    """Source: tflite/kernels/batch_matmul.cc; ruy/apply_multiplier.cc

    Measured with LiteRT 2.3.0 on AVX-512: the default path rounds as reference kernels do where the second operand's
    zero point is not 0.
    """
    x, y = (jnp.asarray(v).astype(jnp.float64) - types.zero_point(i) for i, v in enumerate((x, y)))  # exact
    left, right = x.swapaxes(-1, -2) if adj_x else x, y.swapaxes(-1, -2) if adj_y else y
    total = jnp.matmul(left, right, precision=Precision.HIGHEST)
    by = Multiplier.of(product_scales(types, 0, 1))
    if types.dtypes(0) == (DType.i16,):
        steps = multiplied_wide(total.astype(np.int64), by)
        return finished(in_32_bits(steps), types.outputs[0])  # as the kernel keeps it: the largest wrap around
    total = total.astype(np.int32)
    once = types.on_default_path and types.zero_point(1) == 0
    steps = multiplied_once(total, by) if once else multiplied(total, by)
    return finished(steps, types.outputs[0])
