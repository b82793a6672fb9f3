"""Functions of one quantized operand of 8 bits, looked up: LOGISTIC, TANH and EXP."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import jax.numpy as jnp
import numpy as np

from jfuse.ir.graph import Params
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import IntegerTypes, is_per_tensor
from jfuse.kernels.core.op import Array, TflOp
from jfuse.kernels.integer.scaling import activation_range
from jfuse.kernels.math.elementwise import exp
from jfuse.kernels.nn.activation import logistic, tanh

Function: TypeAlias = Callable[[np.ndarray], np.ndarray]


def is_of_bytes(types: IntegerTypes, options: Params | None = None) -> bool:
    """Whether the first operand and the result are i8 with one scale each."""
    given = (types.inputs[0], types.outputs[0])
    return all(is_per_tensor(t) and t is not None and t.dtype is DType.i8 for t in given)


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


def _declare(op: TflOp, function: Function) -> None:
    def body(types: IntegerTypes, x: Array, /) -> Array:
        return looked_up(x, of_reals(types, function))

    op.quantized(is_of_bytes)(body)


_declare(logistic, lambda x: 1 / (1 + np.exp(-x)))
_declare(tanh, np.tanh)
_declare(exp, np.exp)
