"""Constants added to a product become its bias."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import array, elementwise
from jfuse.kernels.op import TflOp
from jfuse.lowering.merge.registry import View, again, is_plain_float, merges, sole_producer
from jfuse.lowering.merge.reshape import keeps_type


@merges(elementwise.add)
def add_into_bias(eqn: Eqn, view: View) -> Any:
    """ADD(FULLY_CONNECTED(x, w, b), c) = FULLY_CONNECTED(x, w, b + c) for constants b (or none) and c."""
    x, y = eqn.inputs
    product, addend = (y, x) if isinstance(x, Const) else (x, y)
    return _merged(eqn, product, addend, 1, view)


@merges(elementwise.sub)
def sub_into_bias(eqn: Eqn, view: View) -> Any:
    """SUB(FULLY_CONNECTED(x, w, b), c) = FULLY_CONNECTED(x, w, b - c) for constants b (or none) and c."""
    x, y = eqn.inputs
    return _merged(eqn, x, y, -1, view)


def _merged(eqn: Eqn, product: Atom | None, addend: Atom | None, sign: int, view: View) -> Any:
    before = sole_producer(view, product)
    if before is None or product is None or not isinstance(addend, Const):
        return None
    if not keeps_type(product.type, eqn.outputs[0].type):
        return None
    function = eqn.params["fused_activation_function"]
    if before.op is not array.reshape:
        return _with_bias(before, addend, sign, function)
    inner = sole_producer(view, before.inputs[0])
    if inner is None or not product.type.rank or not _keeps_last_axis(before):
        return None
    biased = _with_bias(inner, addend, sign, function)
    return None if biased is None else again(before, inputs=(biased, *before.inputs[1:]))


def _with_bias(eqn: Eqn, addend: Const, sign: int, function: str) -> Any:
    (result,) = eqn.outputs if len(eqn.outputs) == 1 else (None,)
    place = _bias_place(eqn)
    if (
        place is None
        or result is None
        or not is_plain_float(result)
        or eqn.params["fused_activation_function"] != "NONE"
    ):
        return None
    vector = _vector(addend, result.type.shape[-1])
    bias = eqn.inputs[place]
    if vector is None or not (bias is None or isinstance(bias, Const)):
        return None
    vector = vector if sign > 0 else -vector
    total = vector if bias is None else bias.array + vector
    inputs = (*eqn.inputs[:place], total, *eqn.inputs[place + 1 :])
    return again(eqn, inputs=inputs, fused_activation_function=function)


def _bias_place(eqn: Eqn) -> int | None:
    """Where the op has its bias. An op that is linear in each operand alone adds it along the last axis."""
    if not isinstance(eqn.op, TflOp) or eqn.op.linear != "each":
        return None
    return next((i for i, o in enumerate(eqn.op.operands) if o.name == "bias" and o.optional), None)


def _vector(const: Const, size: Any) -> np.ndarray | None:
    """The constant as a vector along the last axis; None where it varies along another one."""
    array_ = const.array
    if array_.size == 1 and isinstance(size, int):
        return np.full(size, array_.reshape(()), array_.dtype)
    if array_.shape[-1:] != (size,) or array_.size != size:
        return None
    return array_ if array_.ndim == 1 else array_.reshape(-1)


def _keeps_last_axis(eqn: Eqn) -> bool:
    before, after = eqn.inputs[0], eqn.outputs[0]
    return before is not None and before.type.rank > 0 and same(before.type.shape[-1], after.type.shape[-1]) is True
