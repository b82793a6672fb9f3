"""Rows of lowering/ops/nn/activation.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, f32, given
from tests.op_cases.every_dtype import COARSE, INTEGERS, in_double, of_floats, of_one
from tests.op_cases.math.elementwise import CLAMPED, unary

TAILS = [-100.0, -20.0, -9.0, -1e-6, 0.0, 1e-6, 9.0, 20.0, 100.0]
ENDS = [np.inf, -np.inf, np.nan]
# 1e-5: XNNPACK's log is off by up to 1e-7 of 1 near 1, which shows where softplus is small.
XNNPACK_LOG = 1e-5

CASES: tuple[Case, ...] = (
    *unary("Relu"),
    case("Relu", args=[given(TAILS)]),
    case("Relu", args=[given(ENDS)]),
    *unary("Relu6", low=-9, high=9),
    *unary("Elu"),
    case("Elu", args=[given(TAILS)]),
    case("Elu", args=[given(ENDS)]),
    *unary("Tanh"),
    case("Tanh", args=[given(TAILS)]),
    case("Tanh", args=[given(ENDS)]),
    *unary("Sigmoid", low=-9, high=9),
    case("Sigmoid", args=[given(TAILS)]),
    case("Sigmoid", args=[given(ENDS)]),
    *unary("Softplus", low=-9, high=9, tolerance=XNNPACK_LOG),
    case("Softplus", args=[given(TAILS)], tolerance=XNNPACK_LOG),
    case("Softplus", args=[given(ENDS)], litert=CLAMPED),
    *unary("Softsign"),
    case("Softsign", args=[given([-1e30, -1e-30, 0.0, 1e30])]),
    *unary("Selu"),
    case("Selu", args=[given(TAILS)]),
    case("Selu", args=[given(ENDS)], litert=CLAMPED),
    case("LeakyRelu", args=[f32(2, 3, 4)], dynamic=True),
    case("LeakyRelu", args=[f32(2, 3, 4)], alpha=0.1),
    case("LeakyRelu", args=[f32(3)], alpha=1.5),
    case("Softmax", args=[f32(2, 5)], dynamic=True),
    case("Softmax", args=[f32(2, 3, 5)], dynamic=True),
    case("Softmax", args=[given([[100.0, 0.0, -100.0], [1e30, 1e30, 0.0]])]),
    case("Softmax", args=[f32(0, 3)]),
    *(
        case(op, args=[f32(*(2, 1, 2, 3, 1, 2, 2, 3)[-rank:])])
        for op in ("Softmax", "LogSoftmax")
        for rank in (1, 5, 6, 7)
    ),
    case("Softmax", args=[f32(2, 1, 2, 3, 1, 2, 2)], dynamic=True),
    case("LogSoftmax", args=[f32(0, 3)]),
    case("SoftmaxCrossEntropyWithLogits", args=[f32(2, 5), f32(2, 5, low=0, high=1)], dynamic=True),
    case("SparseSoftmaxCrossEntropyWithLogits", args=[f32(2, 5), given([4, 0], DType.i32)]),
    case("SparseSoftmaxCrossEntropyWithLogits", args=[f32(2, 5), given([1, 3], DType.i64)]),
    case("SoftmaxCrossEntropyWithLogits", args=[f32(3, 2), const(np.array([[0, 1]], np.float32))]),
    case("LogSoftmax", args=[f32(2, 5)], dynamic=True),
    case("LogSoftmax", args=[given([[100.0, 0.0, -100.0]])]),
    *of_one("Relu", INTEGERS[:-1], -1, -7),
    *of_one("Relu6", INTEGERS[:-1], -1, -7),
    *(row for op in ("Relu", "Relu6", "Tanh", "Softplus", "Softsign", "LeakyRelu") for row in of_floats(op)),
    *(row for op in ("Elu", "Selu", "Sigmoid", "Softmax", "LogSoftmax") for row in of_floats(op, roundings=COARSE)),
    *(row for op in ("Tanh", "Sigmoid", "Relu") for row in in_double(op)),
)
