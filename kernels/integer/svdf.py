"""SVDF on quantized integers: i8, with a memory and time weights of i16.

Source: tflite/kernels/internal/reference/svdf.h, EvalIntegerSVDF; tflite-micro, kernels/svdf_common.cc
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array
from jfuse.kernels.fused.svdf import shifted, svdf
from jfuse.kernels.integer.numbers.exact_products import integer_products
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, in_32_bits, multiplied, wide

_X, _FEATURES, _TIMES, _BIAS, _STATE = range(5)


def _takes(types: IntegerTypes, options: Params) -> bool:
    states = types.dtypes(_X, _FEATURES, _TIMES, _STATE) == (DType.i8, DType.i8, DType.i16, DType.i16)
    is_whole = types.outputs[0].dtype is DType.i8 and types.dtypes(_BIAS) == (DType.i32,)
    scaled = (*(types.inputs[i] for i in (_X, _FEATURES, _TIMES, _STATE)), types.outputs[0])
    known = {_FEATURES, _TIMES, _BIAS} <= types.constants and all(map(is_per_tensor, scaled))
    return states and is_whole and known and options["fused_activation_function"] == "RELU"


@svdf.quantized(_takes)
def _svdf(types: IntegerTypes, *operands: Array, rank: int, **options: Any) -> tuple[Array, Array]:
    """Sums of 32 bits that wrap around; the activation is that integers end at -128, whatever the zero point."""
    x, features, times, bias, state = operands
    filters, memory = times.shape
    offset = types.zero_point(_X) * features.astype(np.int32).sum(1, dtype=np.int32)
    into = Multiplier.of(np.float32(types.scale(_X) * types.scale(_FEATURES)) / types.scale(_STATE))
    newest = jnp.clip(multiplied(integer_products(jnp.asarray(x), features) - offset, into), -32768, 32767)
    steps = shifted(state, newest.astype(np.int16), (x.shape[0], filters, memory))
    total = in_32_bits((wide(steps) * times).reshape(x.shape[0], -1, rank * memory).sum(-1) + bias)
    out_of = Multiplier.of(np.float32(types.scale(_STATE) * types.scale(_TIMES)) / types.output_scale())
    y = multiplied(total, out_of) + types.output_zero_point()
    return jnp.clip(y, -128, 127).astype(np.int8), steps.reshape(state.shape)
