"""Sums of products in steps of the result: what FULLY_CONNECTED and convolutions have in common."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied, multiplied_wide
from jfuse.kernels.integer.numbers.scaling import float_scales, product_scales, to_nearest_even

_WEIGHTS = frozenset({DType.i4, DType.i8})


def takes_products(types: IntegerTypes, x: int = 0, bias: int = 2) -> bool:
    """Whether x, weights (the second operand), bias and result have types that kernels multiply.

    i8 with a bias of i32, or i16 with one of i64.
    """
    image, of_bias = types.dtypes(x, bias)
    if image is not types.outputs[0].dtype or types.dtypes(1)[0] not in _WEIGHTS:
        return False
    if image is DType.i16:
        plain = not types.zero_point(x) and not types.output_zero_point()
        return plain and types.dtypes(1) == (DType.i8,) and of_bias in (DType.i64, None)
    return image is DType.i8 and of_bias in (DType.i32, None)


def rescaled(types: IntegerTypes, total: Array, x: int = 0) -> Array:
    """Sums of products in steps of the result, without its zero point.   total: i32[...,n], of i16 i64[...,n]

    x: the position of what is multiplied by the weights.
    Source: tflite/kernels/internal/reference/integer_ops/conv.h; XNNPACK/src/operators/convolution-nhwc.c
    """
    if types.dtypes(x) == (DType.i16,):
        return multiplied_wide(total, Multiplier.of(product_scales(types, x, 1)))
    if types.on_default_path:
        steps: Array = to_nearest_even(total.astype(np.float32) * float_scales(types, x, 1))
        return steps
    return multiplied(total, Multiplier.of(product_scales(types, x, 1)))
