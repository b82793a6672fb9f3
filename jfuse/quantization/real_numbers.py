"""Quantizes real numbers and dequantizes integers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Const
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace


def as_integers(array: Any, wanted: TensorType) -> Any:
    """Real numbers in a type: rounded to its steps and cut off at its ends, where it has one scale; else as they are.

    array: f[...], of NumPy or jax.
    """
    if not is_quantized(wanted):
        return array
    assert wanted.quantization is not None, "is_quantized"
    xp, info = namespace(array), np.iinfo(wanted.dtype.numpy)
    steps = xp.rint(array.astype(np.float64) / wanted.quantization.scale[0]) + wanted.quantization.zero_point[0]
    return xp.clip(steps, info.min, info.max).astype(wanted.dtype.numpy)


def as_real(array: Any, quantization: Quantization | None) -> Any:
    """Dequantize integers if they are quantized: f32[...], of NumPy or jax."""
    if quantization is None or array.dtype.kind == "f" or not (quantization.scale or quantization.block_size):
        return array
    numbers = array.astype(np.float32)
    if quantization.block_size:
        blocks = numbers.reshape(-1, quantization.block_size)
        return (blocks * np.array(quantization.block_scale, np.float32)[:, None]).reshape(array.shape)
    shape = [-1 if i == quantization.axis else 1 for i in range(array.ndim)] if len(quantization.scale) > 1 else []
    scale, zero = (np.array(v, np.float32) for v in (quantization.scale, quantization.zero_point))
    return (numbers - (zero.reshape(shape) if zero.size == scale.size else zero[0])) * scale.reshape(shape)


def real_const(const: Const) -> Const:
    """Dequantize a constant; itself if it is not quantized."""
    if const.quantization is None or const.type.dtype.is_float:
        return const
    return Const(np.asarray(as_real(const.array, const.quantization), np.float32), const.name)


def real_type(stored: TensorType) -> TensorType:
    """The dequantized type of a type."""
    return replace(stored, dtype=DType.f32, quantization=None) if is_quantized(stored) else stored
