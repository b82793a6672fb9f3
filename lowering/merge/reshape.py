"""RESHAPE, EXPAND_DIMS and SQUEEZE only name the dimensions of the same elements: chains of them are one RESHAPE."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, is_known, same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import TensorType
from jfuse.kernels import array
from jfuse.lowering.merge.registry import View, merges

_RENAMES = frozenset({array.reshape, array.expand_dims, array.squeeze})


@merges(array.reshape, array.expand_dims, array.squeeze)
def reshape_chain(eqn: Eqn, view: View) -> Any:
    """A RESHAPE of a RESHAPE reads the first one's operand, and vanishes where that has the right type already."""
    (x, *rest), (result,) = eqn.inputs, eqn.outputs
    before = view.producer(x)
    origin = before.inputs[0] if before is not None and before.op in _RENAMES else x
    if origin is None or keeps_type(origin.type, result.type):
        return origin
    if origin is x:
        return None
    if constant_shape(result.type.shape) is None:
        return array.reshape(origin, *rest) if eqn.op is array.reshape else None
    return reshaped(origin, result.type)


@merges(array.reshape)
def reshape_to_known_shape(eqn: Eqn, view: View) -> Any:
    """A new shape computed at run time, of which one size at most is open, becomes a constant with -1."""
    x, shape = eqn.inputs
    return None if x is None or shape is None or isinstance(shape, Const) else reshaped(x, eqn.outputs[0].type)


def reshaped(x: Atom, to: TensorType) -> Any:
    """RESHAPE of x to a type by a constant; x itself where it has that type; None where no constant can say it."""
    if keeps_type(x.type, to):
        return x
    shape = constant_shape(to.shape)
    return None if shape is None else array.reshape(x, shape)


def keeps_type(a: TensorType, b: TensorType) -> bool:
    """Whether two tensors of one dtype surely have the same dimensions."""
    return a.rank == b.rank and all(same(d, e) is True for d, e in zip(a.shape, b.shape, strict=True))


def constant_shape(shape: Shape) -> np.ndarray | None:
    """A shape as RESHAPE's constant operand, -1 for an open size; None where several are open, or -1 beside a 0."""
    sizes = [int(d) if is_known(d) else -1 for d in shape]
    if sizes.count(-1) > 1 or (-1 in sizes and 0 in sizes):
        return None
    return np.array(sizes, np.int32)
