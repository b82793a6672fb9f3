"""Conditions on an equation that a version of its operator needs, which rows are made of."""

from __future__ import annotations

from typing import Any

from jfuse.ir.dims import same
from jfuse.ir.graph import Eqn
from jfuse.ir.sparse import SparseConst
from jfuse.ir.types import DType, TensorType
from jfuse.tflite.runtime.row import Need


def _type(eqn: Eqn, index: int) -> TensorType | None:
    atom = eqn.inputs[index] if index < len(eqn.inputs) else None
    return None if atom is None else atom.type


def _dtype(eqn: Eqn, index: int) -> DType | None:
    type_ = _type(eqn, index)
    return None if type_ is None else type_.dtype


def _types(names: str) -> frozenset[DType]:
    return frozenset(t for name in names.split() for t in _FLOAT8 if name == "f8") | {
        DType(name) for name in names.split() if name != "f8"
    }


_FLOAT8 = (DType.f8e4m3fn, DType.f8e5m2)


def at(index: int, names: str) -> Need:
    """The operand at `index` has one of the dtypes ("f8": either 8-bit float)."""
    dtypes = _types(names)
    return lambda eqn: _dtype(eqn, index) in dtypes


def first(names: str) -> Need:
    """The first operand has one of the dtypes."""
    return at(0, names)


def anywhere(names: str) -> Need:
    """An operand or a result has one of the dtypes."""
    dtypes = _types(names)
    return lambda eqn: any(a is not None and a.type.dtype in dtypes for a in (*eqn.inputs, *eqn.outputs))


def result(names: str) -> Need:
    """The first result has one of the dtypes."""
    dtypes = _types(names)
    return lambda eqn: eqn.outputs[0].type.dtype in dtypes


def option(name: str) -> Need:
    """An option is set (true, or not 0)."""
    return lambda eqn: bool(eqn.params.get(name))


def cleared(name: str) -> Need:
    """An option that is on by default is off."""
    return lambda eqn: eqn.params.get(name, True) is False


def option_not(name: str, value: Any) -> Need:
    """An option is there and has another value."""
    return lambda eqn: eqn.params.get(name, value) != value


def rank_above(rank: int, index: int = 0) -> Need:
    """An operand has more dimensions than `rank`."""
    return lambda eqn: (t := _type(eqn, index)) is not None and t.rank > rank


def quantized(index: int) -> Need:
    """The operand at `index` has a scale."""
    return lambda eqn: (t := _type(eqn, index)) is not None and t.quantization is not None


def per_channel(index: int) -> Need:
    """The operand at `index` has a scale for each channel."""
    return lambda eqn: (
        (t := _type(eqn, index)) is not None and t.quantization is not None and len(t.quantization.scale) > 1
    )


def sparse(index: int) -> Need:
    """The operand at `index` is a sparse constant."""
    return lambda eqn: index < len(eqn.inputs) and isinstance(eqn.inputs[index], SparseConst)


def both(*needs: Need) -> Need:
    """Every one of the conditions holds."""
    return lambda eqn: all(need(eqn) for need in needs)


def either(*needs: Need) -> Need:
    """At least one of the conditions holds."""
    return lambda eqn: any(need(eqn) for need in needs)


def never(need: Need) -> Need:
    """A condition that holds where the given one does not."""
    return lambda eqn: not need(eqn)


def hybrid(weights: int) -> Need:
    """f32 operand 0 and result with i8 weights, the operand at that index: the hybrid kernels."""
    return both(first("f32"), at(weights, "i8"), result("f32"))


def product_of(x: str, weights: str) -> Need:
    """Input 0 and weights 1 have these dtypes."""
    return both(first(x), at(1, weights))


def asymmetric(weights: int) -> Need:
    """Float activations, quantized with a zero point while running, with int8 weights."""
    return both(hybrid(weights), option("asymmetric_quantize_inputs"))


def broadcasts_above_rank_4(eqn: Eqn) -> bool:
    """The first two operands have different shapes, one of them of more than 4 axes."""
    x, y = (a.type for a in eqn.inputs[:2] if a is not None)
    equal = x.rank == y.rank and all(same(d, e) for d, e in zip(x.shape, y.shape, strict=True))
    return max(x.rank, y.rank) > 4 and not equal


def is_grouped(eqn: Eqn) -> bool:
    """A convolution whose filters read some of the channels."""
    x, filters = (a.type for a in eqn.inputs[:2] if a is not None)
    return same(x.shape[-1], filters.shape[-1]) is False


def columns(eqn: Eqn) -> int:
    """The axis of the second factor of a product of matrices that gives the columns of the result."""
    return -2 if eqn.params.get("adj_y") else -1


def scales_up(eqn: Eqn) -> bool:
    """A quantized product whose real multiplier is 1 or more."""
    scales = [a.type.quantization for a in (*eqn.inputs[:2], eqn.outputs[0]) if a is not None]
    if any(q is None for q in scales):
        return False
    x, y, out = (q.scale[0] for q in scales if q is not None)
    return x * y / out >= 1


bias_typed = option_not("quantized_bias_type", DType.f32)
I8 = (2, first("i8"))
I16_I8 = ((3, first("i16")), I8)
QUANTIZES_WEIGHTS = ((3, asymmetric(1)), (2, hybrid(1)))
QUANTIZES_GATES = ((3, asymmetric(2)), (2, hybrid(2)))  # operand 1 is absent where the gates are coupled
