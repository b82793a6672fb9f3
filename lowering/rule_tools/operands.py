"""Operands that TFLite wants as i32: constants where the value is known, casts where it is computed."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.trace import producer
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array, TflOp, static_value
from jfuse.lowering.rule_tools.query import static

_NARROW = frozenset({DType.i32, DType.i16, DType.i8, DType.u16, DType.u8, DType.bool})  # all their numbers are i32


def i32_operand(x: Array, what: str) -> Array:
    """A size, place or axis operand as i32: a constant where every entry is a number, else the tensor.

    Raises LowerError, naming `what`, where its value does not follow from shapes.
    """
    value = static(x, what)
    if all_known(value):
        return np.asarray(value, np.int32)
    return as_i32(x)


def sizes_operand(x: Array) -> Array:
    """Sizes as i32 that data may decide: a constant where every entry is a number, else the tensor."""
    value = known_sizes(x)
    return np.asarray(value, np.int32) if value is not None and all_known(value) else as_i32(x)


def known_sizes(x: Array) -> Any:
    """The value of a size operand, None where data decides it."""
    value = static_value(x)
    return _clamped(x) if value is None else value


def _clamped(x: Var) -> Any:
    """The one value of min(max(…, a), b) where a is not below b: TensorFlow says the length of a histogram so."""
    high = _bound(x, ops.minimum)
    low = None if high is None else _bound(high[0], ops.maximum)
    return high[1] if high is not None and low is not None and low[1] >= high[1] else None


def _bound(x: Array, op: TflOp) -> tuple[Array, int] | None:
    """The scalar that the op limited to give x in the active trace, and the limit."""
    made_by = producer(x)
    if made_by is None or made_by.op is not op or x.type.rank:
        return None
    y, z = made_by.inputs
    if isinstance(y, Const):
        y, z = z, y
    return (y, int(z.array.item())) if isinstance(y, Var) and isinstance(z, Const) else None


def as_i32(x: Array) -> Array:
    """An integer tensor as i32: constants at once, by CAST where another type comes at run time."""
    if isinstance(x, Var):
        return x if x.type.dtype is DType.i32 else ops.cast(x, out_data_type=DType.i32)
    return np.asarray(x, np.int32)


def below_size(x: Array, size: Array) -> Array:
    """Indices as i32 or i64, with -1 or `size` for those that lie outside: ONE_HOT looks at 32 bits of an index."""
    if not isinstance(x, Var):
        return np.clip(np.asarray(x), -1, np.iinfo(np.int32).max).astype(np.int32)
    if x.type.dtype in (DType.i64, DType.u32) and not _has_32_bits(x):
        x = x if x.type.dtype is DType.i64 else ops.cast(x, out_data_type=DType.i64)
        end = np.int64(size) if not isinstance(size, Var) else ops.cast(size, out_data_type=DType.i64)
        x = ops.maximum(ops.minimum(x, end), np.int64(-1))
    return x if x.type.dtype is DType.i64 else as_i32(x)


def _has_32_bits(x: Atom | None) -> bool:
    """Whether the numbers of a tensor surely fit into i32, by its type or by what made it in the active trace."""
    if x is not None and x.type.dtype in _NARROW:
        return True
    made_by = producer(x)
    if made_by is None:
        return False
    if made_by.op in (ops.arg_max, ops.arg_min, ops.where):
        return True
    if made_by.op is ops.floor_mod:
        divisor = made_by.inputs[1]
        return isinstance(divisor, Const) and bool(np.all(np.abs(divisor.array) <= np.iinfo(np.int32).max))
    keeps_numbers = made_by.op is ops.cast or made_by.op.moves in ("renames", "permutes", "takes")
    return keeps_numbers and _has_32_bits(made_by.inputs[0])


def all_known(value: Any) -> bool:
    """Whether a static value holds no symbol."""
    return all(map(all_known, value)) if isinstance(value, tuple) else is_known(value)


def entries(x: Array) -> list[Any]:
    """The elements of a vector: an int, a symbolic dimension, or a Var i32[] where nothing is known."""
    value = static_value(x)
    if value is not None:
        return list(value)
    assert isinstance(x, Var)
    packed = _packed(x)
    if packed is not None:
        return [_entry(item) for item in packed]
    return [element(x, i) for i in range(x.shape[0])]


def element(x: Array, i: int) -> Array:
    """One element of an integer vector as i32[]."""
    return ops.gather(as_i32(x), np.asarray(i, np.int32), axis=0)


def _packed(x: Var) -> Any:
    """The operands of the PACK that made x in the active trace, if one did: TensorFlow builds index vectors so."""
    eqn = producer(x)
    return eqn.inputs if eqn is not None and eqn.op is ops.pack and x.type.rank == 1 else None


def _entry(atom: Any) -> Any:
    value = static_value(atom)
    return as_i32(atom) if value is None else value
