"""Error sums of one tensor over all calls and loop turns, and the metrics that are made of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.integer_types import is_quantized
from jfuse.kernels.core.operand import namespace
from jfuse.quantization.real_numbers.numbers import Computed, as_real

SUMS = ("signal", "noise", "own_signal", "own_noise", "power", "product", "clipped", "count")
"""Powers of the float value and of the difference from it, propagated and by the equation alone; the power of the
quantized value and its product with the float one; how many numbers lie beyond the type's ends; how many there are."""
MOST = ("worst", "largest", "highest", "lowest")
"""Greatest absolute difference and float value; the greatest integer, and the least one negated."""
TALLY = TensorType((len(SUMS) + len(MOST),), DType.f64)


def beginning() -> Computed:
    """No operands -> a tally of nothing."""
    return Computed("noise.begin", (TALLY,), _empty)


def looking(stored: TensorType) -> Computed:
    """A tally; a value as it is stored, and the float one; the result of the equation alone, and what it should be."""
    return Computed("noise.look", (TALLY,), partial(_look, stored))


def _empty() -> np.ndarray:
    return np.concatenate([np.zeros(len(SUMS)), np.full(len(MOST), -np.inf)])


def _look(stored: TensorType, kept: Any, found: Any, wanted: Any, own: Any, own_wanted: Any) -> Any:
    xp = namespace(kept, found, wanted, own, own_wanted)
    real = partial(_wide, xp, stored)
    (a, b), (c, d) = (real(found), xp.asarray(wanted, np.float64)), (real(own), xp.asarray(own_wanted, np.float64))
    finite, own_finite = xp.isfinite(b), xp.isfinite(d)
    a, b = xp.where(finite, a, 0.0), xp.where(finite, b, 0.0)
    c, d = xp.where(own_finite, c, 0.0), xp.where(own_finite, d, 0.0)
    clipped, highest, lowest = _reach(xp, stored, found, b)
    sums = [(b * b).sum(), ((a - b) ** 2).sum(), (d * d).sum(), ((c - d) ** 2).sum(), (a * a).sum(), (a * b).sum()]
    sums += [clipped, xp.asarray(float(np.prod(np.shape(found))))]
    most = [_greatest(xp, abs(a - b)), _greatest(xp, abs(b)), highest, lowest]
    new = xp.stack([xp.asarray(v, np.float64) for v in (*sums, *most)])
    return xp.where(np.arange(len(_empty())) < len(SUMS), kept + new, xp.maximum(kept, new))


def _wide(xp: Any, stored: TensorType, array: Any) -> Any:
    return xp.asarray(as_real(array, stored.quantization), np.float64)


def _reach(xp: Any, stored: TensorType, found: Any, wanted: Any) -> tuple[Any, Any, Any]:
    """How many float values lie more than half a step beyond the ends of a type, and its greatest and least integer."""
    if not is_quantized(stored) or stored.quantization is None:
        return 0.0, -np.inf, -np.inf
    info, zero = np.iinfo(stored.dtype.numpy), stored.quantization.zero_point[0]
    steps = wanted / np.float64(stored.quantization.scale[0]) + zero
    clipped = ((steps > info.max + 0.5) | (steps < info.min - 0.5)).sum()
    integers = xp.asarray(found, np.float64)
    return clipped, _greatest(xp, integers), _greatest(xp, -integers)


def _greatest(xp: Any, array: Any) -> Any:
    return xp.max(array, initial=-np.inf)


def added(tallies: Sequence[np.ndarray]) -> np.ndarray:
    """The tallies of several calls as one.   tallies: f64[rows, 12] each"""
    whole = np.stack(tallies)
    return np.concatenate([whole[..., : len(SUMS)].sum(0), whole[..., len(SUMS) :].max(0)], -1)


def decibels(signal: float, noise: float) -> float:
    """10 log10 of the power of a signal over that of noise: inf without noise, -inf without a signal."""
    if not noise:
        return float("inf")
    return float(10 * np.log10(signal / noise)) if signal else float("-inf")
