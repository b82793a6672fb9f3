"""The common type of operands, by PyTorch's rules: dimensions decide before scalars, kinds before widths."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Const, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank
from jfuse.lowering.rule_tools.shape_tensors import size_tensor

_DEFAULTS = (DType.bool, DType.i64, DType.f32, DType.c64)
"""The types of numbers: bool, int, float, complex."""


def is_tensor(value: Any) -> bool:
    """Whether an argument is a tensor, and no number or dimension."""
    return isinstance(value, Var | Const | np.ndarray)


def promoted(*values: Any, floats: bool = False) -> list[Any]:
    """The operands as tensors of their common type; numbers become scalars of it.

    floats: integers become f32.
    """
    type_ = common_type(*values)
    if floats and not (type_.is_float or type_ is DType.c64):
        type_ = DType.f32
    return [as_type(v, type_) for v in values]


def common_type(*values: Any) -> DType:
    """The type that an operator of these operands computes in."""
    groups: tuple[list[DType], list[DType], list[DType]] = ([], [], [])
    for value in values:
        if not is_tensor(value):
            groups[2].append(_type_of_number(value))
        else:
            groups[0 if rank(value) else 1].append(dtype(value))
    best: DType | None = None
    for group in groups:
        widest = _widest(group)
        if widest is not None and (best is None or _kind(widest) > _kind(best)):
            best = widest
    assert best is not None
    return best


def _type_of_number(value: Any) -> DType:
    if isinstance(value, bool):
        return DType.bool
    if isinstance(value, complex):
        return DType.c64
    return DType.f32 if isinstance(value, float) else DType.i64


def _widest(types: list[DType]) -> DType | None:
    highest = [t for t in types if _kind(t) == max(map(_kind, types))]
    if not highest:
        return None
    widest_type = highest[0].numpy
    for other in highest[1:]:
        widest_type = np.promote_types(widest_type, other.numpy)
    return DType.of(widest_type)


def _kind(type_: DType) -> int:
    if type_ is DType.bool:
        return 0
    if type_.is_integer:
        return 1
    return 2 if type_.is_float else 3


def as_type(value: Any, type_: DType) -> Array:
    """A tensor or a number as a tensor of a type."""
    if not is_tensor(value):
        if isinstance(value, bool | int | float | complex) or is_known(value):
            return np.asarray(value).astype(type_.numpy)
        value = size_tensor(value, sources())
    if dtype(value) is type_:
        return value
    if type_ is DType.bool:
        return ops.not_equal(value, np.zeros((), dtype(value).numpy))
    if is_constant(value):
        return np.asarray(value).astype(type_.numpy)
    return ops.cast(value, out_data_type=type_)
