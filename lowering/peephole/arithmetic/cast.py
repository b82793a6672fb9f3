"""Casts that change nothing, and operations on casts and bits that others say better."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Eqn, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.peephole.pattern import one_of
from jfuse.lowering.peephole.registry import Match, peephole
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rules import need


@peephole(lambda x: ops.cast(x))
def cast_to_itself(match: Match, x: Atom) -> Any:
    """A CAST to the type that its operand has."""
    need(x.type == match.result.type, "type_of_result")
    return x


@peephole(lambda x: ops.cast(ops.cast(x).named("wide").shared()))
def cast_there_and_back(match: Match, x: Atom, wide: Eqn) -> Any:
    """CAST(CAST(x, wider), dtype of x) = x."""
    need(x.type == match.result.type, "type_of_result")
    need(_holds(wide.outputs[0].type.dtype, x.type.dtype), "lossless_cast")
    return x


def _holds(wide: DType, narrow: DType) -> bool:
    """Whether every value of `narrow` has a value of its own in `wide`."""
    numbers = all(d.is_integer or d.is_float or d is DType.bool for d in (wide, narrow))
    return numbers and np.can_cast(narrow.numpy, wide.numpy, "safe")


@peephole(lambda x, y: ops.mul(ops.cast(x), ops.cast(y)))
def product_of_masks(match: Match, x: Atom, y: Atom) -> Any:
    """MUL(CAST(x, f64), CAST(y, f64)) = CAST(LOGICAL_AND(x, y), f64) of booleans: LiteRT has no MUL of f64."""
    need(match.result.type.dtype is DType.f64, "wide_product")
    need(x.type.dtype is y.type.dtype is DType.bool, "booleans")
    need(match.eqn.params["fused_activation_function"] == "NONE", "no_activation")
    return ops.cast(ops.logical_and(x, y), out_data_type=DType.f64)


@peephole(lambda: ops.bitcast(one_of(ops.concatenation)(...).named("join")))
def join_of_bits(match: Match, join: Eqn) -> Any:
    """BITCAST(CONCATENATION(BITCAST(x), BITCAST(y))) to the type of x and y is their CONCATENATION."""
    before = [match.view.producer(a) for a in join.inputs if isinstance(a, Var)]
    values = [b.inputs[0] for b in before if b is not None and b.op is ops.bitcast]
    types = {(v.type.dtype, v.type.quantization) for v in values if v is not None}
    need(len(values) == len(join.inputs) and types == {(match.result.type.dtype, None)}, "type_of_result")
    return again(join, inputs=tuple(values))
