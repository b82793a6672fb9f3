"""Quantizes real numbers and dequantizes integers, as functions and as ops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Graph, Op, Params
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace

_HYBRID = 127
"""Steps on either side of 0 that kernels have for floats which they quantize as they run. XNNPACK has twice as many."""


def as_integers(array: Any, wanted: TensorType) -> Any:
    """Round real numbers to the steps of a type with one scale, and cut them off at its ends; else leave them.

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


def ends_of(stored: TensorType) -> tuple[float, float]:
    """The least and the greatest real number that the integers of a type with one scale stand for."""
    quantization = stored.quantization
    assert quantization is not None, "is_per_tensor"
    info, scale, zero = np.iinfo(stored.dtype.numpy), quantization.scale[0], quantization.zero_point[0]
    return scale * (int(info.min) - zero), scale * (int(info.max) - zero)


def rounded_rows(array: Any) -> Any:
    """Floats in as many steps as a byte has, with a scale for each row."""
    xp = namespace(array)
    axes = tuple(range(1, array.ndim)) or None
    scale = xp.max(xp.abs(array), axis=axes, keepdims=True, initial=0.0) / _HYBRID
    whole = xp.where(scale > 0, scale, 1.0)
    return xp.rint(array / whole) * whole


@dataclass(frozen=True)
class Computed(Op):
    """An op that no file has.   types: of its results; compute: of its operands"""

    name: str = field()
    types: tuple[TensorType, ...]
    compute: Callable[..., Any]

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results."""
        return (self.compute(*inputs),)


def quantized_as(stored: TensorType) -> Computed:
    """Real numbers -> those in a type."""
    return Computed("computed.stored", (stored,), partial(as_integers, wanted=stored))


def dequantized_from(stored: TensorType) -> Computed:
    """Quantized numbers -> real numbers."""
    return Computed("computed.real", (real_type(stored),), partial(as_real, quantization=stored.quantization))
