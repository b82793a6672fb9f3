"""RESHAPE, EXPAND_DIMS and SQUEEZE only name the dimensions of the same elements.

Chains of them are one RESHAPE, and operators that can give their result either shape, or read it so, need none.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, Shape, is_known, same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.ir.types import TensorType
from jfuse.kernels.array import array
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import static_value
from jfuse.kernels.linalg import matmul
from jfuse.kernels.math import reduce
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import keeps_type

_RENAMES = frozenset({array.reshape, array.expand_dims, array.squeeze})


@peephole(array.reshape, array.expand_dims, array.squeeze)
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


@peephole(array.reshape)
def reshape_to_known_shape(eqn: Eqn, view: View) -> Any:
    """A new shape computed at run time, of which one size at most is open, becomes a constant with -1."""
    x, shape = eqn.inputs
    return None if x is None or shape is None or isinstance(shape, Const) else reshaped(x, eqn.outputs[0].type)


@peephole(array.reshape, array.expand_dims, array.squeeze)
def reshape_of_reduction(eqn: Eqn, view: View) -> Any:
    """RESHAPE of what MEAN, SUM, … give, with sizes of 1 for the axes that are gone or without them."""
    before = sole_producer(view, eqn.inputs[0])
    if before is None or "keep_dims" not in before.params:
        return None
    result = again(before, keep_dims=not before.params["keep_dims"])
    return result if keeps_type(result.type, eqn.outputs[0].type) else None


@peephole(reduce.mean, reduce.sum_, reduce.reduce_max, reduce.reduce_min, reduce.reduce_prod)
def reduction_of_ones(eqn: Eqn, view: View) -> Any:
    """MEAN along axes of size 1 in front as well is MEAN along the others."""
    x, axes = eqn.inputs[0], None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
    if x is None or axes is None or not eqn.params["keep_dims"] or x.type.quantization is not None:
        return None
    whole = axes_from_front(axes, x.type.rank)
    first = min((a for a in whole if same(x.type.shape[a], 1) is not True), default=x.type.rank)
    left = [a for a in whole if a >= first]
    if len(left) == len(whole):
        return None
    return again(eqn, inputs=(x, np.array(left, np.int32))) if left else x


@peephole(array.reshape, array.expand_dims, array.squeeze)
def reshape_of_rows(eqn: Eqn, view: View) -> Any:
    """RESHAPE(FULLY_CONNECTED(x)) to the leading sizes of x = FULLY_CONNECTED[keep_num_dims](x)."""
    before = sole_producer(view, eqn.inputs[0])
    if before is None or before.op is not matmul.fully_connected or before.params["keep_num_dims"]:
        return None
    x, result = before.inputs[0], eqn.outputs[0]
    leading = x is not None and x.type.rank == result.type.rank and same(x.type.shape[-1], _columns(before)) is True
    if not leading or x is None or not keeps_type(x.type, _with_last(result.type, x.type.shape[-1])):
        return None
    return again(before, keep_num_dims=True)


@peephole(matmul.fully_connected)
def rows_of_reshape(eqn: Eqn, view: View) -> Any:
    """FULLY_CONNECTED(RESHAPE(x)) = FULLY_CONNECTED(x), which takes its operand as rows whatever shape that has."""
    before = view.producer(eqn.inputs[0])
    if before is None or before.op not in _RENAMES or eqn.params["keep_num_dims"]:
        return None
    x = before.inputs[0]
    if x is None or not x.type.rank or not _is_multiple(_columns(eqn), x.type.shape[-1]):
        return None
    result = again(eqn, inputs=(x, *eqn.inputs[1:]))
    return result if keeps_type(result.type, eqn.outputs[0].type) else None


def _columns(eqn: Eqn) -> Dim:
    """How many elements of x a FULLY_CONNECTED takes for a row."""
    assert eqn.inputs[1] is not None
    return eqn.inputs[1].type.shape[1]


def _is_multiple(columns: Dim, last: Dim) -> bool:
    # XNNPACK leaves rows that end within an axis to the slower kernel.
    return is_known(columns) and is_known(last) and last > 0 and columns % last == 0


def _with_last(type_: TensorType, last: Dim) -> TensorType:
    return TensorType((*type_.shape[:-1], last), type_.dtype)


def reshaped(x: Atom, to: TensorType) -> Any:
    """RESHAPE of x to a type by a constant; x itself where it has that type; None where no constant can say it."""
    if keeps_type(x.type, to):
        return x
    shape = constant_shape(to.shape)
    return None if shape is None else array.reshape(x, shape)


def constant_shape(shape: Shape) -> np.ndarray | None:
    """A shape as RESHAPE's constant operand, -1 for an open size; None where several are open, or -1 beside a 0."""
    sizes = [int(d) if is_known(d) else -1 for d in shape]
    if sizes.count(-1) > 1 or (-1 in sizes and 0 in sizes):
        return None
    return np.array(sizes, np.int32)
