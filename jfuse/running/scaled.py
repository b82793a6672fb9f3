"""DEQUANTIZE as an op that knows the scale of its operand, which arrays do not carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from jfuse.ir.graph import Atom, Eqn, Graph, Op, Params
from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.nn.quantize import dequantized

_TAKEN = frozenset({DType.i4, DType.i8, DType.u8, DType.i16})


@dataclass(frozen=True)
class Dequantize(Op):
    """DEQUANTIZE of integers with this scale."""

    quantization: Quantization
    name = "dequantize"

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """f32 of the operand's shape."""
        return tuple(replace(a.type, dtype=DType.f32, quantization=None) for a in inputs if a is not None)

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The real numbers."""
        return (dequantized(inputs[0], self.quantization),)


def is_scaled(eqn: Eqn) -> bool:
    """Whether `scaled` takes the equation: DEQUANTIZE to f32, of types and scales as `dequantized` has them."""
    operand = eqn.inputs[0] if eqn.op.scales == "out_of" else None
    if operand is None or operand.type.dtype not in _TAKEN or eqn.outputs[0].type.dtype is not DType.f32:
        return False
    quantization = operand.type.quantization
    if quantization is None or not quantization.scale:
        return False
    of_bytes = len(quantization.scale) == 1 and operand.type.dtype is not DType.i16
    return of_bytes or not any(quantization.zero_point)


def scaled(eqn: Eqn) -> Eqn:
    """The equation with the scale in its op."""
    assert eqn.inputs[0] is not None, "an operand"
    quantization = eqn.inputs[0].type.quantization
    assert quantization is not None, "is_scaled"
    return replace(eqn, op=Dequantize(quantization))
