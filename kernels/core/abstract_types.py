"""The types of a body's results, by abstract evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Params
from jfuse.ir.types import DType, TensorType

_STRING_STAND_IN = np.dtype(ml_dtypes.float8_e4m3b11fnuz)  # no TFLite type; lets jax type-check ops on strings


def abstract_types(body: Callable[..., Any], facts: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
    """The result types of a body. facts: each operand's type, or its value where it is Static; None where omitted."""
    data = [i for i, fact in enumerate(facts) if isinstance(fact, TensorType)]

    def call(*arrays: Any) -> Any:
        arguments = list(facts)
        for i, array in zip(data, arrays, strict=True):
            arguments[i] = array
        return body(*arguments, **params)

    with jax.enable_x64(True):
        results = jax.eval_shape(call, *(_aval(facts[i]) for i in data))
    return tuple(_type_of_aval(r) for r in (results if isinstance(results, tuple) else (results,)))


def _aval(tensor_type: TensorType) -> jax.ShapeDtypeStruct:
    dtype = _STRING_STAND_IN if tensor_type.dtype is DType.string else tensor_type.dtype.numpy
    return jax.ShapeDtypeStruct(tensor_type.shape, dtype)


def _type_of_aval(aval: Any) -> TensorType:
    dtype = DType.string if aval.dtype == _STRING_STAND_IN else DType.of(aval.dtype)
    return TensorType(tuple(int(d) if is_known(d) else d for d in aval.shape), dtype)
