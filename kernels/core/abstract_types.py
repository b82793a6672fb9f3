"""The types of a body's results, by abstract evaluation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import jax
import ml_dtypes
import numpy as np
from jax.errors import InconclusiveDimensionOperation

from jfuse.ir.dims import Dim, is_known, same, symbol, symbols_of
from jfuse.ir.graph import Params
from jfuse.ir.types import DType, TensorType

_STRING_STAND_IN = np.dtype(ml_dtypes.float8_e4m3b11fnuz)  # no TFLite type; lets jax type-check ops on strings


def abstract_types(body: Callable[..., Any], facts: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
    """The result types of a body. facts: each operand's type, or its value where it is Static; None where omitted.

    jax must know of every size that it is not below 0, and does not of B*N - B: such sizes get names of their own.
    """
    try:
        return _evaluated(body, facts, params)
    except InconclusiveDimensionOperation:
        named = _NamedSizes()
        facts = [named.fact(fact) for fact in facts]
        if not named.sizes:
            raise
        return tuple(t.substitute(named.sizes) for t in _evaluated(body, facts, params))


class _NamedSizes:
    """Names for open sizes that are more than a symbol: `sizes` by name."""

    def __init__(self) -> None:
        self.sizes: dict[str, Dim] = {}

    def fact(self, fact: Any) -> Any:
        """A type, or the value of a Static operand, with its sizes by name."""
        if isinstance(fact, TensorType):
            return replace(fact, shape=tuple(map(self._dim, fact.shape)))
        if isinstance(fact, tuple | list):
            return type(fact)(map(self._dim, fact))
        if not isinstance(fact, np.ndarray) or fact.dtype != object:
            return fact
        named = np.empty(fact.shape, object)
        named.ravel()[:] = [self._dim(d) for d in fact.ravel()]
        return named

    def _dim(self, dim: Any) -> Any:
        if not isinstance(dim, bytes | str) and not is_known(dim) and symbols_of(dim) != {str(dim)}:
            known = next((name for name, size in self.sizes.items() if same(size, dim)), f"size_{len(self.sizes)}")
            self.sizes[known] = dim
            return symbol(known)
        return dim


def _evaluated(body: Callable[..., Any], facts: Sequence[Any], params: Params) -> tuple[TensorType, ...]:
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
