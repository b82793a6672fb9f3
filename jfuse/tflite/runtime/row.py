"""The form of a row: what is known of one builtin, and what a runtime does with it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.tflite.runtime.quantized import FLOAT_ONLY, Integers, Quantized

Need = Callable[[Eqn], bool]
"""Whether an equation needs a version: one condition of a row."""

ALL_BUT_STRINGS = "f32 f16 bf16 f64 i8 i16 i32 i64 u8 u16 u32 u64 bool c64"
MOST_AXES = 8
"""The largest rank at which LiteRT's elementwise kernels broadcast, where they do; beyond it most end the process."""


class Values(Enum):
    """How results depend on operands' values: it decides in which other types the kernel may compute the same.

    A value may be held by value in a wider type (CAST), or bit by bit in another type of its width (BITCAST).
    """

    MOVED = "results are operands, or a constant: any bits will do"
    CHOSEN = "results are operands, or 0, chosen by their values"
    WRAPPED = "integers overflow alike whatever their sign: their bits will do"
    BITWISE = "each bit of an integer by itself, or whether all are equal: their bits will do"
    COMPUTED = "by value only"
    # LiteRT's power saturates where TensorFlow's wraps, and TensorFlow sums for a mean in the narrow type.
    TYPED = "integers are computed as their type says; only floats may be held in a wider type"


@dataclass(frozen=True)
class Versions:
    """The oldest runtime of each version of a builtin from 1 on ("-" for none), and what calls for which.

    The first rule that holds gives the version.
    """

    runtimes: tuple[str, ...]
    rules: tuple[tuple[int, Need], ...]
    default: int


@dataclass(frozen=True)
class KernelLimits:
    """The tensors without quantization that a runtime's kernel takes. None means every type.

    operand, result: the element types of the first operand and the first result. broadcasts: the largest rank at which
    the kernel of an elementwise op broadcasts, 0 for not at all; None for an op that has nothing to broadcast.
    string_rank: the rank that operands of strings must have; None for any.
    """

    operand: frozenset[DType] | None
    result: frozenset[DType] | None
    broadcasts: int | None
    values: Values
    string_rank: int | None


@dataclass(frozen=True)
class InPlace:
    """The memory of operands that a kernel gives its result, where nothing else reads them.

    operands: so many, from the first on, may be taken. changes: whether the kernel writes to it; a RESHAPE does not.
    """

    operands: int
    changes: bool


SHARED = InPlace(1, changes=False)
OVERWRITTEN = InPlace(1, changes=True)
EITHER_OVERWRITTEN = InPlace(2, changes=True)


@dataclass(frozen=True)
class Runtime:
    """One runtime's kernel of a builtin.

    limits: None where nobody measured them, because jfuse has no kernel. quantized: without it the op stays float.
    in_place: None where the result has memory of its own.
    """

    versions: Versions
    limits: KernelLimits | None
    quantized: Quantized = FLOAT_ONLY
    in_place: InPlace | None = None


@dataclass(frozen=True)
class Row:
    """One builtin of the schema. A further runtime (tflite-micro, a GPU delegate, an NPU) is a further field.

    litert: what LiteRT does with it; None where it has no kernel. gap: why jfuse has no kernel; None where it has one.
    """

    builtin: str
    litert: Runtime | None
    gap: str | None = None


def versions(runtimes: str, *rules: tuple[int, Need], default: int = 1) -> Versions:
    """The oldest runtime of each version, separated by blanks, and the rules.   default: where no rule holds"""
    return Versions(tuple(runtimes.split()), rules, default)


def kernel(
    builtin: str,
    runtimes: str,
    *rules: tuple[int, Need],
    values: Values,
    default: int = 1,
    quantized: Quantized | Integers = FLOAT_ONLY,
    in_place: InPlace | None = None,
    **limits: Any,
) -> Row:
    """The row of a builtin that jfuse has a kernel for.

    runtimes, rules, default: as `versions` takes them. limits: `operand`, `result`, `broadcasts` and `string_rank` of
    `KernelLimits`, with types by name, separated by blanks. Without them the kernel takes every type there, and the op
    has nothing to broadcast.
    """
    as_integers = Quantized(quantized) if isinstance(quantized, Integers) else quantized
    taken = _limits(values, **limits)
    return Row(builtin, Runtime(versions(runtimes, *rules, default=default), taken, as_integers, in_place))


def _limits(
    values: Values,
    operand: str | None = None,
    result: str | None = None,
    broadcasts: int | None = None,
    string_rank: int | None = None,
) -> KernelLimits:
    return KernelLimits(_types(operand), _types(result), broadcasts, values, string_rank)


def without_op(builtin: str, runtimes: str, gap: str) -> Row:
    """The row of a builtin that LiteRT has a kernel for, and jfuse none.   gap: why"""
    return Row(builtin, Runtime(versions(runtimes), limits=None), gap)


def _types(names: str | None) -> frozenset[DType] | None:
    return None if names is None else frozenset(map(DType, names.split()))
