"""Ops whose results have the scale of their operands: on integers they do what they do on floats."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Params
from jfuse.kernels.array.array import pad
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor, is_quantized
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.image.resize import resize_nearest_neighbor
from jfuse.kernels.math.elementwise import maximum, minimum, select, select_v2
from jfuse.kernels.math.reduce import reduce_max, reduce_min


def takes_same_scale(types: IntegerTypes, options: Params) -> bool:
    """Whether all quantized operands and results have one scale and zero point."""
    quantized = [t for t in (*types.inputs, *types.outputs) if t is not None and is_quantized(t)]
    scales = {
        (t.dtype, t.quantization.scale, t.quantization.zero_point) for t in quantized if t.quantization is not None
    }
    return len(scales) == 1 and all(map(is_per_tensor, quantized)) and all(map(is_quantized, types.outputs))


def _declare(op: TflOp) -> None:
    def body(types: IntegerTypes, *operands: Array, **options: Any) -> Any:
        return op.body(*operands, **options)

    op.quantized(takes_same_scale)(body)


for _op in (maximum, minimum, select, select_v2, reduce_max, reduce_min, resize_nearest_neighbor):
    _declare(_op)


@pad.quantized(takes_same_scale)
def _pad(types: IntegerTypes, x: Array, paddings: Any, /) -> Array:
    """Real zeros around."""
    zero = types.zero_point(0)
    return (pad.body(x.astype(np.int32) - zero, paddings) + zero).astype(types.outputs[0].dtype.numpy)
