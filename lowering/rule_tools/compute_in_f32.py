"""16-bit floats in functions that take several operators: these compute in f32 and round once, as TensorFlow's do."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.query import dtype

NARROW = frozenset({DType.f16, DType.bf16})


def in_f32(function: Callable[..., Array]) -> Callable[..., Array]:
    """The function, on operands of one dtype, which is f32 where theirs is a 16-bit float."""

    @wraps(function)
    def call(*operands: Array, **options: Any) -> Array:
        own = dtype(operands[0])
        if own not in NARROW:
            return function(*operands, **options)
        wide = function(*(ops.cast(x, out_data_type=DType.f32) for x in operands), **options)
        return ops.cast(wide, out_data_type=own)

    return call
