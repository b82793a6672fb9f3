"""Functions of one quantized operand, looked up: LOGISTIC, TANH, EXP, LOG, ELU and GELU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor, zero_point_of
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.integer.numbers.scaling import activation_range
from jfuse.kernels.integer.numbers.wide_tables import logistic_of, of_words, tanh_of
from jfuse.kernels.math.elementwise import exp, log
from jfuse.kernels.nn.activation import elu, gelu, logistic, tanh

Function: TypeAlias = Callable[[np.ndarray], np.ndarray]


def is_of_bytes(types: IntegerTypes, options: Params | None = None) -> bool:
    """Whether the first operand and the result are i8 with one scale each."""
    ends = (types.inputs[0], types.outputs[0])
    return all(is_per_tensor(t) and t is not None and t.dtype is DType.i8 for t in ends)


def is_of_bytes_or_words(types: IntegerTypes, options: Params | None = None) -> bool:
    """Whether the first operand and the result are both i8, or both i16 about 0, with one scale each."""
    ends = (types.inputs[0], types.outputs[0])
    words = all(is_per_tensor(t) and t is not None and t.dtype is DType.i16 and not zero_point_of(t) for t in ends)
    return words or is_of_bytes(types)


def looked_up(x: Array, table: np.ndarray) -> Array:
    """The entries of i8[256] for integers from -128 on."""
    return jnp.take(jnp.asarray(table), jnp.asarray(x).astype(np.int32) + 128, mode="clip")


def of_reals(types: IntegerTypes, function: Function) -> np.ndarray:
    """i8[256]: the integers for those of the real numbers that -128, -127, … stand for.

    The function is computed in f64 and rounded to f32, as the C library's of f32 is to half a unit in the last place.
    Source: tflite/kernels/internal/optimized/integer_ops/lut.h; tflite/kernels/activations.cc, LUTPopulate
    """
    steps = np.arange(-128, 128) - types.zero_point(0)
    reals = steps.astype(np.float32) * types.scale(0)
    results = function(reals.astype(np.float64)).astype(np.float32) * (np.float32(1) / types.output_scale())
    rounded = np.trunc(results) + np.where(np.abs(results - np.trunc(results)) >= 0.5, np.sign(results), 0)
    least, greatest = activation_range(types.outputs[0])
    table: np.ndarray = np.clip(rounded + types.output_zero_point(), least, greatest).astype(np.int8)
    return table


def is_of_words(types: IntegerTypes, options: Params | None = None) -> bool:
    """Whether the first operand is i16 and the result has 15 fraction bits."""
    return is_of_bytes_or_words(types) and not is_of_bytes(types) and types.output_scale() == 2.0**-15


def _declare(op: TflOp, function: Function, words: Callable[[IntegerTypes], np.ndarray] | None = None) -> None:
    def body(types: IntegerTypes, x: Array, /) -> Array:
        if words is not None and types.dtypes(0) == (DType.i16,):
            return of_words(x, words(types))
        return looked_up(x, of_reals(types, function))

    def takes(types: IntegerTypes, options: Params) -> bool:
        return is_of_bytes(types) or (words is not None and is_of_words(types))

    op.quantized(takes)(body)


_declare(logistic, lambda x: 1 / (1 + np.exp(-x)), logistic_of)
_declare(tanh, np.tanh, tanh_of)
_declare(exp, np.exp)
_declare(elu, lambda x: np.where(x < 0, np.expm1(x), x))


@log.quantized(is_of_bytes)
def _log(types: IntegerTypes, x: Array, /) -> Array:
    """The least integer for what has no logarithm.   Source: tflite/kernels/elementwise.cc, LogLUTPrepare"""
    least = (-128 - types.output_zero_point()) * types.output_scale()
    return looked_up(x, of_reals(types, lambda x: np.where(x > 0, np.log(np.where(x > 0, x, 1)), least)))


@gelu.quantized(is_of_bytes)
def _gelu(types: IntegerTypes, x: Array, /, *, approximate: bool) -> Array:
    """Source: tflite/kernels/internal/reference/gelu.h"""
    return looked_up(x, of_reals(types, _gelu_by_tanh if approximate else _gelu_by_erfc))


def _gelu_by_tanh(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))))


def _gelu_by_erfc(x: np.ndarray) -> np.ndarray:
    return np.asarray(0.5 * x * np.array([math.erfc(-math.sqrt(0.5) * v) for v in x]))
