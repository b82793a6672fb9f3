"""Types in which an operator gives the same results, for operators whose own type has no kernel.

A value of a narrow type is cast to a type that holds all of them, and the result is cast back, which for integers cuts
the upper bits off, as overflow does. What only moves values, and arithmetic that wraps, may read the bits as another
type of the same width as well. Nothing is ever computed in a narrower type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

from jfuse.ir.graph import Atom, Eqn, Var
from jfuse.ir.types import DType
from jfuse.tflite.runtime.dtypes import refused
from jfuse.tflite.runtime.row import Values
from jfuse.tflite.runtime.table import limits_of


@dataclass(frozen=True)
class Encoding:
    """How values of `narrow` are held in `wide`: by value (CAST), or bit by bit (BITCAST)."""

    narrow: DType
    wide: DType
    bits: bool = False

    def applies(self, eqn: Eqn, index: int) -> bool:
        """Whether an operand is to be encoded; not those that say sizes or axes."""
        atom, op = eqn.inputs[index], eqn.op
        static = op.operand_at(index).static or op.operand_at(index).shape_only
        return atom is not None and atom.type.dtype is self.narrow and not static


_BY_VALUE = {
    DType.f16: (DType.f32,),
    DType.bf16: (DType.f32,),
    DType.i8: (DType.i32, DType.i64),
    DType.u8: (DType.i32, DType.i64),
    DType.i16: (DType.i32, DType.i64),
    DType.u16: (DType.i32, DType.i64),
    DType.u32: (DType.i64,),
    DType.bool: (DType.i32,),
}
_BY_BITS = {DType.u32: DType.i32, DType.u64: DType.i64, DType.f64: DType.i64}


def wider(eqn: Eqn) -> Encoding | None:
    """An encoding of the operands and results that the kernel refuses, in which it takes them; None where none does."""
    atom = refused(eqn)
    if atom is None or not eqn.op.is_kernel or eqn.op.updates:
        return None
    return next((e for e in _encodings(eqn.op.builtin, atom.type.dtype) if refused(encoded(eqn, e)) is None), None)


def _encodings(builtin: str | None, dtype: DType) -> Iterator[Encoding]:
    values = _values_of(builtin)
    if dtype.is_float or values is not Values.TYPED:
        yield from (Encoding(dtype, wide) for wide in _BY_VALUE.get(dtype, ()))
    same_bits = values is Values.MOVED or (dtype.is_integer and values in (Values.WRAPPED, Values.BITWISE))
    if same_bits and dtype in _BY_BITS:
        yield Encoding(dtype, _BY_BITS[dtype], bits=True)


def keeps_values(eqn: Eqn, encoding: Encoding) -> bool:
    """Whether decoding the results of the encoded equation and encoding them again changes nothing."""
    moves = eqn.op.is_kernel and _values_of(eqn.op.builtin) in (Values.MOVED, Values.CHOSEN)
    return encoding.bits or moves


def _values_of(builtin: str | None) -> Values | None:
    limits = limits_of(builtin)
    return None if limits is None else limits.values


def encoded(eqn: Eqn, encoding: Encoding) -> Eqn:
    """The equation on the encoded types."""

    def retyped(atom: Atom) -> Var:
        return Var(replace(atom.type, dtype=encoding.wide))

    inputs = tuple(retyped(a) if a is not None and encoding.applies(eqn, i) else a for i, a in enumerate(eqn.inputs))
    outputs = tuple(retyped(v) if v.type.dtype is encoding.narrow else v for v in eqn.outputs)
    return replace(eqn, inputs=inputs, outputs=outputs)
