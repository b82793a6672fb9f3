"""Records ops on quantized integers, for states that are kept quantized."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from jfuse.ir.graph import Atom, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType
from jfuse.kernels import ops


def typed(result: Var, like: Atom) -> Var:
    """The result of the equation recorded last, where that moves numbers of `like`: it has their scale."""
    if like.type.quantization is None:
        return result
    return _with_type(result, replace(result.type, dtype=like.type.dtype, quantization=like.type.quantization))


def _with_type(result: Var, type_: TensorType) -> Var:
    trace, made = active_trace(), Var(type_)
    (last,) = trace.take_back(len(trace.eqns) - 1)
    trace.record(replace(last, outputs=(made,)))
    return made


def stands_for_zero(array: np.ndarray, of: TensorType) -> bool:
    """Whether all elements are a real 0 in a type."""
    return bool((array == (0 if of.quantization is None else of.quantization.zero_point[0])).all())


def zeros_like(x: Var) -> Var:
    """Zeros of the type of a tensor, NaN or not. Of integers with a scale x - x, as the runtime has no ZEROS_LIKE."""
    if x.type.quantization is None:
        zeros: Var = ops.zeros_like(x)
        return zeros
    return typed(ops.sub(x, x), x)


def in_type_of(like: Atom, x: Var) -> Var:
    """The numbers of a tensor in the integers that another one has."""
    same = x.type.dtype is like.type.dtype and x.type.quantization == like.type.quantization
    if same or like.type.quantization is None:
        return x
    made = Var(replace(x.type, dtype=like.type.dtype, quantization=like.type.quantization))
    return active_trace().append(ops.quantize, (x,), (made.type,), {})[0]
