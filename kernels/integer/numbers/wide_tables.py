"""LOGISTIC, TANH and SOFTMAX on quantized integers of 16 bits."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from jfuse.kernels.core.integer_types import IntegerTypes
from jfuse.kernels.core.op import Array
from jfuse.kernels.integer.numbers.fixed_point import Multiplier, half_away, multiplied, wide
from jfuse.kernels.integer.numbers.gemmlowp import table_of

_WHOLE = 3  # integer bits of what enters gemmlowp's functions


def of_words(x: Array, table: np.ndarray) -> Array:
    """The entries of i16[65536] for integers from -32768 on."""
    return jnp.take(jnp.asarray(table), jnp.asarray(x).astype(np.int32) + 32768, mode="clip")


def logistic_of(types: IntegerTypes) -> np.ndarray:
    """i16[65536]: 1 / (1 + exp(-x)).   Source: tflite/kernels/internal/reference/integer_ops/logistic.h"""
    if power_near(types.scale(0)) == -12 and types.on_default_path:
        return table_of("logistic", _WHOLE)
    return interpolated_logistic(types.scale(0))


def interpolated_logistic(scale: np.float32) -> np.ndarray:
    """i16[65536]: 1 / (1 + exp(-x)) of steps of a scale, between entries of a table."""
    size, negative = _scaled(scale, -12)
    place = np.minimum(size >> 9, 254)
    between = (_sigmoid()[place] << 9) + (size & 511) * (_sigmoid()[place + 1] - _sigmoid()[place])
    between = np.where(size >> 9 >= 255, 0x7FFF << 10, between)
    values: np.ndarray = np.where(negative, (1 << 25) - between + 511, between + 512) >> 10
    return values.astype(np.int16)


def tanh_of(types: IntegerTypes) -> np.ndarray:
    """i16[65536]: tanh(x).   Source: tflite/kernels/internal/reference/integer_ops/tanh.h"""
    steps = power_near(types.scale(0))
    if steps is not None and -12 <= steps <= -11 and types.on_default_path:
        entering = np.clip(np.arange(-32768, 32768) << (steps + 12), -32768, 32767)
        exact: np.ndarray = table_of("tanh", _WHOLE)[entering + 32768]
        return exact
    return interpolated_tanh(types.scale(0))


def interpolated_tanh(scale: np.float32) -> np.ndarray:
    """i16[65536]: tanh(x) of steps of a scale, between entries of a table."""
    size, negative = _scaled(scale, -12, -11)
    place = np.minimum(size >> 8, 254)
    between = (_sigmoid()[place] << 8) + (size & 255) * (_sigmoid()[place + 1] - _sigmoid()[place])
    between = np.where(size >> 8 >= 255, 0xFFFF << 8, between)
    values: np.ndarray = np.where(negative, (1 << 23) - between + 127, between - (1 << 23) + 128) >> 8
    return values.astype(np.int16)


@cache
def _sigmoid() -> np.ndarray:
    """i64[256]: 65536 / (1 + exp(-i / 24)), raised by half of what the chord to the next entry lies below the curve.

    Source: tflite/kernels/internal/common.h, sigmoid_table_uint16, whose entries these are; the last one is its own.
    """
    y = 1 / (1 + np.exp(-np.arange(256) / 24))
    below = y * (1 - y) * (2 * y - 1) / 24**2 / 8
    table: np.ndarray = np.floor(65536 * (y + below / 2) + 0.5).astype(np.int64)
    table[-1] = 65535
    return table


def power_near(scale: np.float32) -> int | None:
    """The power of two that kernels take a scale for; None where it is none.   Source: CheckedLog2"""
    steps = np.log(np.float32(scale)) * (np.float32(1) / np.log(np.float32(2)))
    whole = np.rint(steps)
    return int(whole) if abs(steps - whole) < np.float32(1e-3) else None


def _scaled(scale: np.float32, *powers: int) -> tuple[np.ndarray, np.ndarray]:
    """Sizes in steps of the table, 2^-9 or 2^-8 of its places, and which numbers are negative.

    powers: of two, near which a scale is taken for one.
    """
    near, shift = power_near(scale), 0
    if near is not None and near in powers:
        by = 3 << (12 + near)
    else:
        real = float(scale) * 4096 * 3
        while real <= 32767 / 2 and shift <= 30:
            real, shift = real * 2, shift + 1
        by = int(real)
    products = np.arange(-32768, 32768) * by
    entering = (products + ((1 << shift) >> 1)) >> shift
    return np.abs(entering), entering < 0


def softmax_of_words(types: IntegerTypes, x: Array, beta: float) -> Array:
    """Exponentials and the reciprocal of their sum, both from tables.

    Source: tflite/kernels/internal/reference/softmax.h, SoftmaxInt16
    """
    x = wide(jnp.asarray(x))
    scale = Multiplier.of(float(types.scale(0)) * float(np.float32(beta)) / (10.0 / 65535.0))
    below = multiplied(x - x.max(-1, keepdims=True), scale) + 32767
    real = np.float32 if types.rounding == "tflm" else np.float64
    exponentials = _interpolated(_coarse(np.exp, -10.0, 0.0, real), jnp.clip(below, -32768, 32767))
    total = exponentials.sum(-1, keepdims=True)
    head = wide(jax.lax.clz(total.astype(np.int32)))
    sum_ = ((total << (head - 1)) + (1 << 13)) >> 14
    table = _coarse(_over_one_plus, 0.0, 1.0, real)
    reciprocal = _interpolated(table, jnp.clip(sum_ - (1 << 16) - (1 << 15), -32768, 32767))
    right = 31 - head
    return jnp.clip((exponentials * reciprocal + ((1 << right) >> 1)) >> right, 0, 32767).astype(np.int16)


def _over_one_plus(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + x)


@cache
def _coarse(
    function: Callable[[np.ndarray], np.ndarray], least: float, greatest: float, real: type[np.floating[Any]]
) -> np.ndarray:
    """i32[513]: a function of evenly spaced numbers, as 1 is 32767.5.   Source: common.h, LUTPopulate of int16_t

    real: the type in which the runtime computes them: f64, of tflite-micro f32.
    """
    inverse, step = real(65536.0 / 2.0), (real(greatest) - real(least)) / real(512)
    at = real(least) + np.arange(512).astype(real) * step
    round_ = np.vectorize(half_away)

    def scaled(x: np.ndarray) -> np.ndarray:
        return np.asarray(function(x.astype(np.float64)).astype(real) * inverse)

    samples = round_(scaled(at))
    middle = round_(scaled(at + step / 2))
    error = round_((scaled(at + step) + samples.astype(real)) / real(2)) - middle
    entries = np.append(samples - round_(error / 2), half_away(float(scaled(np.array(greatest)))))
    clipped: np.ndarray = np.clip(entries, -32768, 32767)
    return clipped.astype(np.int32)


def _interpolated(table: np.ndarray, x: Array) -> Array:
    """Interpolate between the entries of a coarse table, of 16-bit numbers.   x: i64[...] -> i64[...]"""
    place = 256 + (x >> 7)
    low, high = (wide(jnp.take(jnp.asarray(table), place + i, mode="clip")) for i in (0, 1))
    return low + (((high - low) * (x & 127) + 64) >> 7)
