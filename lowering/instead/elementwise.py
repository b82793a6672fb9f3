"""Elementwise ops by simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.lowering.instead.registry import instead_of, operands
from jfuse.lowering.ops.math.fake_quant import in_arithmetic
from jfuse.lowering.ops.math.special import rational_erf

_LIMITS = {"RELU_N1_TO_1": (-1, 1), "RELU_0_TO_1": (0, 1)}


@instead_of("SELECT")
def select_of_all_shapes(eqn: Eqn) -> Sequence[Any] | None:
    """SELECT_V2, where the condition has the shape of both choices: SELECT takes rows as well."""
    condition, x, y = operands(eqn)
    same = tuple(condition.shape) == tuple(x.shape) == tuple(y.shape)
    return (ops.select_v2(condition, x, y),) if same else None


@instead_of("SELECT_V2")
def select_by_product(eqn: Eqn) -> Sequence[Any] | None:
    """y + c * (x - y) of 32-bit integers, which wrap, so that it is exact."""
    condition, x, y = operands(eqn)
    if x.dtype != np.int32:
        return None
    return (ops.add(y, ops.mul(ops.cast(condition, out_data_type=DType.i32), ops.sub(x, y))),)


@instead_of("RELU_N1_TO_1", "RELU_0_TO_1")
def clamp(eqn: Eqn) -> Sequence[Any]:
    """MINIMUM and MAXIMUM with the limits."""
    (x,) = operands(eqn)
    low, high = (np.asarray(v, x.dtype) for v in _LIMITS[str(eqn.op.builtin)])
    return (ops.minimum(ops.maximum(x, low), high),)


@instead_of("FAKE_QUANT")
def fake_quant_by_floor(eqn: Eqn) -> Sequence[Any]:
    """The arithmetic of its steps, which quantization reads as a trained range again."""
    (x,) = operands(eqn)
    return (in_arithmetic(x, **eqn.params),)


@instead_of("GELU")
def gelu_by_tanh(eqn: Eqn) -> Sequence[Any] | None:
    """The tanh form spelled out."""
    if not eqn.params["approximate"]:
        return None
    (x,) = operands(eqn)
    cube = ops.mul(ops.mul(x, x), x)
    inner = ops.mul(
        ops.add(x, ops.mul(cube, np.asarray(0.044715, x.dtype))), np.asarray(math.sqrt(2 / math.pi), x.dtype)
    )
    half = ops.mul(x, np.asarray(0.5, x.dtype))
    return (ops.mul(half, ops.add(ops.tanh(inner), np.asarray(1, x.dtype))),)


@instead_of("GELU")
def gelu_by_erf(eqn: Eqn) -> Sequence[Any] | None:
    """The exact form by the error function, a quotient of polynomials."""
    (x,) = operands(eqn)
    if eqn.params["approximate"] or x.dtype != np.float32:
        return None
    part = ops.add(rational_erf(ops.mul(x, np.float32(math.sqrt(0.5)))), np.float32(1))
    return (ops.mul(ops.mul(x, np.float32(0.5)), part),)
