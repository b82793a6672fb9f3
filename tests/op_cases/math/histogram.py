"""Rows of lowering/ops/math/histogram.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, const, f32, given

CASES: tuple[Case, ...] = (
    *(
        case("HistogramFixedWidth", args=[x, const(np.array([0, 5], np.float32)), const(n)], dtype=d)
        for x, n, d in (
            (f32(200, low=-1, high=6), 5, DType.i32),
            (f32(4, 50, low=0, high=5), 100, DType.i64),
            (given([-1.0, 0, 0.1, 1.5, 2, 5, 15, 4.999]), 5, DType.i32),
            (f32(), 1, DType.i32),
        )
    ),
    case(
        "HistogramFixedWidth",
        args=[given(np.linspace(-0.3, 0.7, 101)), const(np.array([-0.3, 0.7], np.float32)), const(10)],
        dtype=DType.i32,
    ),
)
