"""EQUAL, LESS and the other comparisons of quantized integers."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, multiplied
from jfuse.kernels.math.elementwise import equal, greater, greater_equal, less, less_equal, not_equal

_BITS = 8  # that are added before scales are multiplied in


def _takes(types: IntegerTypes, options: Params) -> bool:
    quantized = [t for t in types.inputs if t is not None and is_per_tensor(t) and t.dtype is DType.i8]
    return len(quantized) == 2 and all(types.scale(i) < 1 for i in (0, 1))


def _declare(op: TflOp) -> None:
    def body(types: IntegerTypes, x: Array, y: Array, /) -> Array:
        """Source: tflite/kernels/comparisons.cc, ComparisonQuantized"""
        x, y = (
            multiplied(
                (jnp.asarray(v).astype(np.int32) - types.zero_point(i)) << _BITS, Multiplier.of(float(types.scale(i)))
            )
            for i, v in enumerate((x, y))
        )
        return op.body(x, y)

    op.quantized(_takes)(body)


for _op in (equal, greater, greater_equal, less, less_equal, not_equal):
    _declare(_op)
