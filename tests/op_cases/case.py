"""Rows: one application of a TensorFlow op, with operands drawn from a seed that the row's own text gives."""

from __future__ import annotations

import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from jfuse.ir.types import DType, TensorType

_PRINTED = 8  # elements of a given array that the id shows


@dataclass(frozen=True, eq=False)
class Operand:
    """One operand of a row: values given, or a shape and a range to draw them from.

    constant: the operand is a constant of the model, not an input.
    """

    dtype: DType
    shape: tuple[int, ...]
    low: float = 0
    high: float = 1
    values: np.ndarray | None = None
    constant: bool = False
    usual: bool = True

    def array(self, seed: int) -> np.ndarray:
        """The operand's value."""
        if self.values is not None:
            return self.values
        rng = np.random.default_rng(seed)
        if self.dtype is DType.bool:
            return np.asarray(rng.random(self.shape) < 0.5)
        if self.dtype.is_integer:
            return np.asarray(rng.integers(int(self.low), int(self.high), self.shape), self.dtype.numpy)
        return np.asarray(rng.uniform(self.low, self.high, self.shape), self.dtype.numpy)

    def __str__(self) -> str:
        text = str(TensorType(self.shape, self.dtype))
        if self.values is not None and self.values.size <= _PRINTED:
            text = f"{self.dtype.value}{_list(self.values)}"
        if not self.usual:
            text += f"({self.low:g}..{self.high:g})"
        return f"const:{text}" if self.constant else text


@dataclass(frozen=True, eq=False)
class Case:
    """A row: the TensorFlow op, its operands in TensorFlow's order, and its attributes.

    dynamic: the row also runs with a symbolic axis 0: that of each input which has the first input's rank.
    tolerance: largest relative error, with the reason in a comment where it is not the default.
    litert: why LiteRT cannot run the row; None where it must.
    results: which of the op's results the row is about; the first that many, or all where it is None.
    compiled: TensorFlow runs the row compiled, where it has no kernel for it on CPUs.
    """

    op: str
    operands: tuple[Operand, ...]
    attributes: Mapping[str, Any]
    dynamic: bool
    tolerance: float
    litert: str | None
    results: int | None = None
    compiled: bool = False

    @property
    def id(self) -> str:
        """Readable and unique: `leaky_relu-f32[2,3,4]-alpha=0.2`."""
        name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", self.op).lower()
        attributes = [f"{k}={v!r}" for k, v in self.attributes.items()]
        return "-".join([name, *(str(o) for o in self.operands), *attributes])

    @cached_property
    def arrays(self) -> tuple[np.ndarray, ...]:
        """The operands' values, the same in every run."""
        seed = zlib.crc32(self.id.encode())
        return tuple(o.array(seed + i) for i, o in enumerate(self.operands))

    @property
    def inputs(self) -> tuple[np.ndarray, ...]:
        """The values of the operands that are no constants."""
        return tuple(a for a, o in zip(self.arrays, self.operands, strict=True) if not o.constant)


@dataclass(frozen=True)
class Gap:
    """An op that no row reaches, and why: a builtin of TFLite, or in a file of rows an op of TensorFlow."""

    op: str
    reason: str


# 2e-6: exp, log, tanh and the like differ by a few units in the last place (6e-8) among TensorFlow, XLA and LiteRT.
ROUNDING = 2e-6


def case(
    op: str,
    *,
    args: list[Operand],
    dynamic: bool = False,
    tolerance: float = ROUNDING,
    litert: str | None = None,
    results: int | None = None,
    compiled: bool = False,
    **attributes: Any,
) -> Case:
    """One row."""
    return Case(op, tuple(args), attributes, dynamic, tolerance, litert, results, compiled)


def f32(*shape: int, low: float | None = None, high: float | None = None) -> Operand:
    """Floats between low and high, -2 and 2 where they are not given."""
    return _drawn(DType.f32, shape, low, high, (-2, 2))


def i32(*shape: int, low: float | None = None, high: float | None = None) -> Operand:
    """Integers from low up to high, exclusive; -10 to 10 where they are not given."""
    return _drawn(DType.i32, shape, low, high, (-10, 10))


def i64(*shape: int, low: float | None = None, high: float | None = None) -> Operand:
    """As i32."""
    return _drawn(DType.i64, shape, low, high, (-10, 10))


def of(dtype: DType, *shape: int, low: float | None = None, high: float | None = None) -> Operand:
    """Numbers of a dtype between low and high: -2 and 2 for floats, -10 and 10 for integers, 0 and 10 unsigned."""
    usual = (-2, 2) if dtype.is_float else (0, 10) if dtype.value.startswith("u") else (-10, 10)
    return _drawn(dtype, shape, low, high, usual)


def c64(*shape: int, seed: int = 0) -> Operand:
    """Complex numbers with normal parts."""
    rng = np.random.default_rng(seed)
    return given(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), DType.c64)


def boolean(*shape: int) -> Operand:
    """Coin tosses."""
    return Operand(DType.bool, shape)


def given(values: Any, dtype: DType = DType.f32) -> Operand:
    """An input with these values; bytes make it a tensor of strings."""
    array = np.asarray(values, dtype.numpy if dtype is DType.u64 else None)  # NumPy takes its largest for floats
    array = array.astype(object) if array.dtype.kind in "SO" else array.astype(dtype.numpy)
    return Operand(DType.of(array.dtype), array.shape, values=array)


def const(values: Any, dtype: DType = DType.i32) -> Operand:
    """A constant of the model; a NumPy array keeps its dtype."""
    if isinstance(values, np.ndarray | np.generic):
        dtype = DType.of(values.dtype)
    operand = given(values, dtype)
    return Operand(operand.dtype, operand.shape, values=operand.values, constant=True)


def weights(*shape: int) -> Operand:
    """A constant of the model with drawn values."""
    return Operand(DType.f32, shape, -1, 1, constant=True)


def _drawn(
    dtype: DType, shape: tuple[int, ...], low: float | None, high: float | None, usual: tuple[int, int]
) -> Operand:
    bounds = (usual[0] if low is None else low, usual[1] if high is None else high)
    return Operand(dtype, shape, *bounds, usual=bounds == usual)


def _list(values: np.ndarray) -> str:
    return re.sub(r"[\s']+", "", str(values.tolist()))
