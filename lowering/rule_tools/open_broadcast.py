"""Open sizes that broadcasting needs to be equal, where one of them has a limit: min(12, N) beside N."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from jfuse.ir.dims import Dim, is_known, same, symbol
from jfuse.ir.graph import Var
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.shape_tensors import shape_tensor

_LIMITED = re.compile(r"min\((.+), (.+)\)")


def agreeing(*operands: Array) -> tuple[Array, ...]:
    """The operands of an op that broadcasts, each with the sizes that the others say it must have.

    `table[:n]` has min(12, n) rows, and with n rows of something else the op is right for n up to 12 alone: TensorFlow
    refuses more, and so does the RESHAPE here. (Symbols are equated by the op itself.)
    """
    if sum(isinstance(x, Var) for x in operands) < 2:
        return operands
    return tuple(_agreeing(x, operands) for x in operands)


def _agreeing(x: Array, operands: Sequence[Array]) -> Array:
    if not isinstance(x, Var):
        return x
    shape = [_size(d, axis - len(x.shape), operands) for axis, d in enumerate(x.shape)]
    if all(d is e for d, e in zip(shape, x.shape, strict=True)):
        return x
    return ops.reshape(x, shape_tensor(shape, operands))


def _size(dim: Dim, axis: int, operands: Sequence[Array]) -> Any:
    """The size that the operands have at an axis, counted from the end, where `dim` is that but for a limit."""
    if is_known(dim) or (found := _LIMITED.fullmatch(str(dim))) is None:
        return dim
    parts = [symbol(part) for part in found.groups()]
    limits = [p for p in parts if is_known(p)]
    if not limits or min(limits) < 2:  # a limit of 1 is an axis that broadcasts
        return dim
    others = [x.shape[axis] for x in operands if len(x.shape) >= -axis]
    return next((d for d in others if any(same(d, p) and not is_known(d) for p in parts)), dim)
