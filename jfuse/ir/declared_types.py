"""Equations whose result types are the file's word: kernels compute plain numbers, and these are on quantized ones.

Their shapes are still derived, by letting floats stand in for what is quantized.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.types import DType, TensorType

Infer = Callable[[Sequence[Atom | None]], tuple[TensorType, ...]]

_BIAS = 2  # a file may leave the scale of a bias out, as kernels do not read it


def is_stated(eqn: Eqn) -> bool:
    """Whether an operand or a result of the equation is quantized, or of unknown rank."""
    return has_stated((*eqn.inputs, *eqn.outputs))


def has_stated(atoms: Iterable[Atom | None]) -> bool:
    """Whether one of them is quantized, or of unknown rank."""
    return any(a is not None and (a.type.quantization is not None or not a.type.ranked) for a in atoms)


def derived_types(infer: Infer, inputs: Sequence[Atom | None]) -> tuple[TensorType, ...] | None:
    """The result types with floats in place of quantized operands; None where nothing can be told.

    infer: gives the types of the results for operands, or raises TypeMismatch.
    """
    if any(a is not None and not a.type.ranked for a in inputs):
        return None
    for operands in stand_ins(inputs):
        try:
            return infer(operands)
        except TypeMismatch:
            continue
    return None


def stand_ins(inputs: Sequence[Atom | None]) -> Iterator[list[Atom | None]]:
    """List substitute operands for inferring types, the likeliest first: floats, for the bias too, or the integers."""
    quantized = [a is not None and a.type.quantization is not None for a in inputs]
    floats = [_of(a, DType.f32) if q else a for a, q in zip(inputs, quantized, strict=True)]
    yield floats
    biased = [_of(a, DType.f32) if i >= _BIAS and _is_bias(a) else a for i, a in enumerate(floats)]
    if any(b is not f for b, f in zip(biased, floats, strict=True)):
        yield biased
    if any(quantized):
        yield [_of(a, a.type.dtype) if a is not None and q else a for a, q in zip(inputs, quantized, strict=True)]


def fits(stated: TensorType, derived: TensorType) -> bool:
    """Whether a stated type may be that of a tensor for which the other type was derived with stand-ins."""
    if not stated.ranked:
        return True
    number = stated.dtype.is_integer or stated.dtype.is_float
    dtypes = stated.dtype is derived.dtype or (derived.dtype is DType.f32 and number)
    shapes = stated.rank == derived.rank and all(
        same(d, e) is not False for d, e in zip(stated.shape, derived.shape, strict=True)
    )
    return dtypes and shapes


def _is_bias(atom: Atom | None) -> bool:
    return atom is not None and atom.type.dtype in (DType.i32, DType.i64) and atom.type.rank == 1


def _of(atom: Atom | None, dtype: DType) -> Atom | None:
    if atom is None:
        return None
    if isinstance(atom, Const) and dtype is atom.type.dtype:
        return Const(atom.array, atom.name)
    return Var(replace(atom.type, dtype=dtype, quantization=None))
