"""Rows of lowering/ops/image/patches.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, f32, weights
from tests.op_cases.nn.pool import integers


def dilation(x: Operand, filters: Operand, **attributes: Any) -> Case:
    options = {"strides": (1, 1, 1, 1), "rates": (1, 1, 1, 1), "padding": "SAME", **attributes}
    return case("Dilation2D", args=[x, filters], **options)


CASES: tuple[Case, ...] = (
    *(
        dilation(f32(2, 7, 6, 3), weights(2, 3, 3), **settings)
        for settings in (
            {"dynamic": True},
            {"padding": "VALID"},
            {"strides": (1, 2, 3, 1)},
            {"strides": (1, 2, 2, 1), "padding": "VALID", "dynamic": True},
            {"rates": (1, 2, 2, 1)},
            {"rates": (1, 2, 1, 1), "padding": "VALID"},
        )
    ),
    dilation(f32(2, 5, 4, 3), f32(2, 2, 3)),
    dilation(f32(2, 2, 2, 1), weights(2, 2, 1), rates=(1, 3, 3, 1)),  # windows that lie beside the image
    dilation(integers("i32", 2, 5, 4, 3), Operand(DType.i32, (2, 2, 3), -9, 9, constant=True), padding="VALID"),
)
