"""TRANSPOSE_CONV on quantized integers."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.exact_products import float_of
from jfuse.kernels.integer.numbers.rescaling import rescaled, takes_products
from jfuse.kernels.integer.numbers.scaling import CLAMPS, finished
from jfuse.kernels.nn.conv import transpose_conv, transpose_convolved

_X = 2  # the position of the image


def _takes(types: IntegerTypes, options: Params) -> bool:
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


@transpose_conv.quantized(_takes)
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
