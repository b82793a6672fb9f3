"""Which operators LiteRT leaves to XNNPACK: surely, possibly or never (tflite/delegates/xnnpack/xnnpack_delegate.cc).

XNNPACK takes most operators under conditions on options, sizes and scales. What is listed as sure is taken under those
alone that `surely_takes` checks.
"""

from __future__ import annotations

import math

from jfuse.ir.graph import Const, Eqn
from jfuse.ir.types import DType
from jfuse.kernels.core.integer_types import is_per_tensor, scale_of

MOST_AXES = 6
_TYPES = frozenset({DType.f32, DType.i8, DType.u8})
COPIES = frozenset({"RESHAPE", "CONCATENATION", "SPLIT"})
"""Operators that XNNPACK runs by copying its operands."""
UNARY = frozenset(
    "ABS CEIL COS ELU EXP FLOOR GELU HARD_SWISH LEAKY_RELU LOG LOGISTIC NEG RELU RELU6 RELU_N1_TO_1 ROUND RSQRT SIN "
    "SQRT SQUARE TANH".split()
)
BINARY = frozenset("ADD DIV MAXIMUM MINIMUM MUL SQUARED_DIFFERENCE SUB".split())
_FURTHER = frozenset(
    "ASSIGN_VARIABLE AVERAGE_POOL_2D BATCH_MATMUL CONV_2D CUSTOM DEPTH_TO_SPACE DEPTHWISE_CONV_2D "
    "DEQUANTIZE EXPAND_DIMS FULLY_CONNECTED MAX_POOL_2D MEAN PAD PRELU QUANTIZE READ_VARIABLE REDUCE_MAX "
    "REDUCE_MIN RESIZE_BILINEAR SLICE SOFTMAX SPACE_TO_DEPTH STABLEHLO_COMPOSITE STRIDED_SLICE SUM "
    "TRANSPOSE TRANSPOSE_CONV".split()
)
_TAKES = COPIES | UNARY | BINARY | _FURTHER
_INTEGER_UNARY = frozenset({"LOGISTIC", "TANH"})
_MOST_PARTS = {"SPLIT": 4, "CONCATENATION": 5}
_ACTIVATIONS = frozenset({"NONE", "RELU", "RELU6", "RELU_N1_TO_1"})
_RATIOS = {"ADD": (-10, 8), "SUB": (-10, 8), "MUL": (-16, 8)}
"""The powers of 2 between which the scale of operands, over that of the result, has to be."""


def may_take(eqn: Eqn) -> bool:
    """Whether XNNPACK takes an operator under some condition."""
    if eqn.op.builtin == "RESHAPE" and _is_long(eqn):
        return False
    return eqn.op.builtin in _TAKES and any(v.type.dtype in _TYPES for v in eqn.outputs)


def surely_takes(eqn: Eqn) -> bool:
    """Whether XNNPACK takes an operator wherever it takes any of its graph."""
    builtin = str(eqn.op.builtin)
    of = [a for a in (*eqn.inputs, *eqn.outputs) if a is not None]
    if _is_long(eqn) or eqn.params.get("fused_activation_function", "NONE") not in _ACTIVATIONS:
        return False
    if builtin in COPIES:
        return copies(eqn)
    if builtin == "FULLY_CONNECTED":
        return _plain_product(eqn)
    if builtin == "TRANSPOSE":
        return of[0].type.dtype is DType.f32 and isinstance(eqn.inputs[1], Const)
    if all(a.type.dtype is DType.f32 for a in of):
        return builtin in UNARY | BINARY
    if all(a.type.dtype is DType.i8 and is_per_tensor(a.type) for a in of):
        return builtin in _INTEGER_UNARY or (builtin in _RATIOS and _in_range(builtin, eqn))
    return False


def copies(eqn: Eqn) -> bool:
    """Whether XNNPACK does an operator by copies: of its types, with everything but data constant."""
    builtin, result = eqn.op.builtin, eqn.outputs[0].type
    if builtin not in COPIES or not (result.dtype is DType.f32 or (result.dtype in _TYPES and is_per_tensor(result))):
        return False
    if _is_long(eqn):
        return False
    most = {"SPLIT": len(eqn.outputs), "CONCATENATION": len(eqn.inputs)}
    if builtin in most and not 2 <= most[builtin] <= _MOST_PARTS[builtin]:
        return False
    numbers = 1 if builtin == "SPLIT" else 0
    settings = () if builtin == "CONCATENATION" else (a for place, a in enumerate(eqn.inputs) if place != numbers)
    return all(a is None or isinstance(a, Const) for a in settings)


def _is_long(eqn: Eqn) -> bool:
    return any(a is not None and a.type.rank > MOST_AXES for a in (*eqn.inputs, *eqn.outputs))


def _plain_product(eqn: Eqn) -> bool:
    x, weights, *bias = eqn.inputs
    if not isinstance(weights, Const) or not all(b is None or isinstance(b, Const) for b in bias):
        return False
    assert x is not None, "an operand"
    kinds = {x.type.dtype, weights.type.dtype, eqn.outputs[0].type.dtype}
    return kinds == {DType.f32} or (kinds == {DType.i8} and eqn.outputs[0].type.quantization is not None)


def _in_range(builtin: str, eqn: Eqn) -> bool:
    """Whether the scales of a sum or product of integers are near enough to each other."""
    scales = [float(scale_of(a.type)) for a in eqn.inputs if a is not None]
    result = float(scale_of(eqn.outputs[0].type))
    least, most = _RATIOS[builtin]
    ratios = [math.prod(scales) / result] if builtin == "MUL" else [scale / result for scale in scales]
    return all(2.0**least <= ratio < 2.0**most for ratio in ratios)
