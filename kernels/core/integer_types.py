"""`IntegerTypes`: the types that an integer body gets beside the arrays, which carry no scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from jfuse.ir.graph import Const, Eqn, Params, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType

Rounding: TypeAlias = Literal["xnnpack", "reference", "tflm", "arm64"]
"""Whose integers: LiteRT's on its default path, its reference kernels' (BUILTIN_REF), tflite-micro's.

The first are those of x86-64, the last those of the same path on arm64: what XNNPACK does not take, kernels compute
that round otherwise there.
"""
ROUNDINGS: tuple[Rounding, ...] = get_args(Rounding)

IntegerBody: TypeAlias = Callable[..., Any]
Takes: TypeAlias = Callable[["IntegerTypes", Params], bool]


@dataclass(frozen=True)
class IntegerTypes:
    """The types of an equation's operands and results.

    constants: the positions of operands that are constants: XNNPACK takes some operators with constant weights alone.
    rounding: None for LiteRT's own kernels, which compute the rest of the program: DEQUANTIZE alone has that.
    """

    inputs: tuple[TensorType | None, ...]
    outputs: tuple[TensorType, ...]
    intermediates: tuple[TensorType | None, ...] = ()
    constants: frozenset[int] = frozenset()
    rounding: Rounding | None = "reference"

    @classmethod
    def of(cls, eqn: Eqn, rounding: Rounding | None = "reference") -> IntegerTypes:
        """The types of an equation's operands and results, and how its products are rounded."""
        return cls(
            tuple(None if a is None else a.type for a in eqn.inputs),
            tuple(a.type for a in eqn.outputs),
            tuple(None if a is None else a.type for a in eqn.intermediates),
            frozenset(i for i, a in enumerate(eqn.inputs) if isinstance(a, Const)),
            rounding,
        )

    @property
    def on_default_path(self) -> bool:
        """Whether XNNPACK computes what it takes, on whatever processor."""
        return self.rounding in ("xnnpack", "arm64")

    def quantization(self, operand: int) -> Quantization | None:
        """Of an operand; None where there is none, or it has no scale."""
        operand_type = self.inputs[operand]
        return operand_type.quantization if operand_type is not None and is_quantized(operand_type) else None

    def dtypes(self, *operands: int) -> tuple[DType | None, ...]:
        """Of operands; None for one that is left out."""
        return tuple(None if (t := self.inputs[i]) is None else t.dtype for i in operands)

    def scale(self, operand: int) -> np.float32:
        """The one scale of an operand."""
        return scale_of(self.inputs[operand])

    def zero_point(self, operand: int) -> int:
        """The one zero point of an operand."""
        return zero_point_of(self.inputs[operand])

    def output_scale(self, result: int = 0) -> np.float32:
        """The one scale of a result."""
        return scale_of(self.outputs[result])

    def output_zero_point(self, result: int = 0) -> int:
        """The one zero point of a result."""
        return zero_point_of(self.outputs[result])


def is_quantized(t: TensorType) -> bool:
    """Whether integers represent real numbers."""
    return t.quantization is not None and bool(t.quantization.scale) and not t.dtype.is_float


def quantizes_as_it_runs(eqn: Eqn) -> bool:
    """Whether a kernel takes floats beside constant integer weights, and so quantizes the floats."""
    first, *others = eqn.inputs or (None,)
    if not isinstance(first, Var) or first.type.dtype is not DType.f32 or eqn.op.scales:
        return False
    return any(isinstance(a, Const) and is_quantized(a.type) for a in others)


def is_per_tensor(t: TensorType | None) -> bool:
    """Whether a type has one scale for all elements, which is positive, and no blocks."""
    if t is None or not is_quantized(t):
        return False
    assert t.quantization is not None, "is_quantized"
    return len(t.quantization.scale) == 1 and not t.quantization.block_size and t.quantization.scale[0] > 0


def scale_of(t: TensorType | None) -> np.float32:
    """The first scale of a type that has one."""
    assert t is not None, "a type"
    assert t.quantization is not None, "a quantized one"
    return np.float32(t.quantization.scale[0])


def zero_point_of(t: TensorType | None) -> int:
    """The first zero point of a type; 0 where none is stated."""
    assert t is not None, "a type"
    assert t.quantization is not None, "a quantized one"
    return (*t.quantization.zero_point, 0)[0]
