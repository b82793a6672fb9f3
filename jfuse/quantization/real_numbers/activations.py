"""Runs one graph with exact activations, with activations cut off at their ranges, or with rounded ones."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from enum import Enum
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Signature
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.operand import namespace
from jfuse.quantization.real_numbers.numbers import Computed, as_integers, as_real, ends_of, real_type, rounded_rows
from jfuse.quantization.real_numbers.walker import Exact, RealGraph, in_real_numbers


class Activations(Enum):
    """The form of activations: exact floats, cut off at the ends of their types, or rounded to their steps.

    The values are those of `RealSignature.chosen`.
    """

    EXACT = 0
    CUT_OFF = 1
    ROUNDED = 2


@dataclass(frozen=True)
class Weight:
    """A constant that is rounded in the file: its real numbers, f32[...], and the width of their steps, as many."""

    array: np.ndarray
    step: np.ndarray


@dataclass(frozen=True)
class RealSignature:
    """A signature with real numbers throughout.

    weights: the constants that were rounded. chosen: a constant, f32[1], with the value of an `Activations`: one
    program, which takes it as an argument, computes all of them.
    """

    signature: Signature
    weights: tuple[Weight, ...]
    chosen: np.ndarray


def real_signature(signature: Signature) -> RealSignature:
    """Rewrite a signature in floats, bodies included.

    Ranges that end at 0 stay in any case: these are the RELU of many files.
    """
    policy = _Chosen()
    return RealSignature(in_real_numbers(signature, policy), tuple(policy.weights.values()), policy.chosen.array)


@dataclass
class _Chosen(Exact):
    chosen: Const = field(default_factory=lambda: Const(np.zeros(1, np.float32)))
    weights: dict[Const, Weight] = field(default_factory=dict)

    def weight(self, real: RealGraph, const: Const) -> Atom:
        exact = real.weight(const)
        if exact is not const and const not in self.weights:
            self.weights[const] = Weight(exact.array, _steps(const))
        return exact

    def stored(self, real: RealGraph, value: Atom, stored: TensorType) -> Atom:
        op = Computed("computed.as_stored", (real_type(stored),), partial(_as_chosen, stored))
        return real.apply(op, value, self.chosen)

    def rows(self, real: RealGraph, value: Atom) -> Atom:
        return real.apply(Computed("computed.rounded_rows", (value.type,), _rounded_rows), value, self.chosen)


def _steps(const: Const) -> np.ndarray:
    """The distance between neighbours at each number of a rounded constant: f32 of its shape."""
    if const.type.dtype is DType.f16:
        return np.asarray(np.spacing(np.abs(const.array)), np.float32)
    quantization = const.quantization
    assert quantization is not None, "is_quantized"
    zero = replace(quantization, zero_point=(0,) * len(quantization.scale))
    steps = as_real(np.ones(const.array.shape, np.int32), zero)
    return np.broadcast_to(np.asarray(steps, np.float32), const.array.shape)


def _rounded_rows(array: Any, chosen: Any) -> Any:
    xp = namespace(array, chosen)
    return xp.where(chosen[0] == Activations.ROUNDED.value, rounded_rows(array), array).astype(array.dtype)


def _as_chosen(stored: TensorType, array: Any, chosen: Any) -> Any:
    xp = namespace(array, chosen)
    low, high = ends_of(stored)
    rounded = as_real(as_integers(array, stored), stored.quantization)
    cut_off = xp.clip(array, np.float32(low), np.float32(high))
    at_zero = xp.clip(array, np.float32(low if low == 0 else -np.inf), np.float32(high if high == 0 else np.inf))
    unrounded = xp.where(chosen[0] == Activations.CUT_OFF.value, cut_off, at_zero)
    return xp.where(chosen[0] == Activations.ROUNDED.value, rounded, unrounded).astype(np.float32)
