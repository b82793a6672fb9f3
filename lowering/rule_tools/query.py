"""Queries about the operands of a rule (type, rank, dtype, static value): for Vars, Consts and arrays alike."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.core.op import Array
from jfuse.kernels.core.op import static_value as known_value


def type_of(x: Array) -> TensorType:
    """The type of a Var or an array."""
    if isinstance(x, Var | Const):
        return x.type
    return TensorType(tuple(x.shape), DType.of(x.dtype))


def rank(x: Array) -> int:
    """The number of dimensions of an operand, an int: ranks are always known."""
    return len(x.shape)


def dtype(x: Array) -> DType:
    """The element type of an operand: of an array, a Const or a Var."""
    return type_of(x).dtype


def is_constant(x: Array) -> bool:
    """Whether an operand of a rule is known at conversion: a Const or an array, no Var."""
    return not isinstance(x, Var)


def one_like(x: Array) -> np.ndarray:
    """The scalar 1 in the dtype of x."""
    return scalar(1, x)


def scalar(value: float, like: Array) -> np.ndarray:
    """A scalar constant in the dtype of `like`."""
    return np.asarray(value, dtype(like).numpy)


def static(x: Array, what: str) -> Any:
    """The value of an operand that TFLite needs to know: an int, or nested tuples of ints and symbolic dimensions.

    Raises LowerError, naming `what`, where it is computed at run time.
    """
    value = known_value(x)
    if value is None:
        raise LowerError(
            f"the operand {what!r} is computed at run time",
            expected="a constant, or a value that follows from shapes",
            found=str(type_of(x)),
        )
    return value


def is_computed(x: Array) -> bool:
    """Whether nothing is known of an operand's value before run time."""
    return isinstance(x, Var) and known_value(x) is None


def axes_of(x: Array, rank_: int, what: str = "axis") -> tuple[int, ...]:
    """Static axes, scalar or vector, counted from the front."""
    value = static(x, what)
    axes = value if isinstance(value, tuple) else (value,)
    return tuple(a + rank_ if a < 0 else a for a in axes)


def is_plain_float(atom: Atom) -> bool:
    """Whether a tensor is f32 and not quantized: what every fused activation and bias is made for."""
    return atom.type.dtype is DType.f32 and atom.type.quantization is None


def keeps_type(a: TensorType, b: TensorType) -> bool:
    """Whether two tensors of one dtype surely have the same dimensions."""
    return a.rank == b.rank and all(same(d, e) is True for d, e in zip(a.shape, b.shape, strict=True))
