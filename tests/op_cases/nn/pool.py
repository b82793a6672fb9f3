"""Rows of lowering/ops/nn/pool.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given

_EXPLICIT: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 2, 0, 1, 0, 0)}
_AS_SAME: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 1, 1, 1, 0, 0)}
_FIRST: dict[str, Any] = {"data_format": "NCHW", "compiled": True}  # TensorFlow has no kernel for it on CPUs


def max_pool(x: Operand, window: Any, strides: Any, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding, **attributes}
    return case("MaxPool3D" if len(window) == 3 else "MaxPool", args=[x], **options)


def avg_pool(x: Operand, window: Any, strides: Any, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding, **attributes}
    return case("AvgPool3D" if len(window) == 3 else "AvgPool", args=[x], **options)


def argmax(x: Operand, window: Any, strides: Any, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"ksize": (1, *window, 1), "strides": (1, *strides, 1), "padding": padding, **attributes}
    return case("MaxPoolWithArgmax", args=[x], **options)


def integers(dtype: str, *shape: int) -> Operand:
    return Operand(DType(dtype), shape, 0 if dtype.startswith("u") else -100, 100)


def below_zero(*shape: int) -> Operand:
    """What zeros as padding would show in."""
    return f32(*shape, low=-2, high=-1)


CASES: tuple[Case, ...] = (
    max_pool(f32(2, 7, 6, 3), (2, 3), (2, 1), dynamic=True),
    max_pool(f32(2, 7, 6, 3), (3, 3), (2, 2), "VALID"),
    max_pool(f32(2, 7, 6, 3), (2, 2), (3, 3)),
    max_pool(f32(2, 7, 6, 3), (2, 2), (3, 3), "VALID", dynamic=True),
    max_pool(f32(2, 7, 6, 3), (7, 6), (1, 1), "VALID"),
    max_pool(f32(2, 3, 2, 3), (5, 5), (1, 1)),
    max_pool(below_zero(2, 7, 6, 3), (3, 3), (2, 2)),
    max_pool(below_zero(2, 7, 6, 3), (3, 3), (2, 2), **_EXPLICIT),
    max_pool(below_zero(2, 7, 6, 3), (3, 3), (1, 1), dynamic=True, **_AS_SAME),
    max_pool(below_zero(2, 7, 6, 3), (3, 3), (2, 2), **_AS_SAME),
    max_pool(
        f32(0, 7, 6, 3), (3, 3), (2, 2), litert="the default delegate gives no shape to the result of an empty batch"
    ),
    case("MaxPool", args=[f32(2, 4, 3, 6)], ksize=(1, 1, 1, 2), strides=(1, 1, 1, 2), padding="SAME", dynamic=True),
    case("MaxPool", args=[f32(2, 4, 3, 6)], ksize=(1, 1, 1, 3), strides=(1, 1, 1, 3), padding="VALID"),
    case("MaxPool", args=[f32(2, 3, 7, 6)], ksize=(1, 1, 2, 3), strides=(1, 1, 2, 1), padding="SAME", **_FIRST),
    case("MaxPool", args=[f32(2, 3, 7, 6)], ksize=(1, 1, 3, 3), strides=(1, 1, 2, 2), padding="VALID", **_FIRST),
    case("MaxPoolV2", args=[f32(2, 7, 6, 3), const([1, 2, 3, 1]), const([1, 2, 1, 1])], padding="SAME", dynamic=True),
    case("MaxPoolV2", args=[f32(2, 7, 6, 3), const([1, 3, 3, 1]), const([1, 2, 2, 1])], padding="VALID"),
    *(
        max_pool(integers(dtype, 2, 7, 6, 3), (3, 2), (2, 2), padding)
        for dtype in ("i8", "i16", "u8", "i32", "i64")
        for padding in ("SAME", "VALID")
    ),
    max_pool(integers("i32", 2, 7, 6, 3), (3, 2), (2, 1), dynamic=True),
    max_pool(integers("i64", 2, 7, 6, 3), (3, 3), (2, 2), **_EXPLICIT),
    avg_pool(f32(2, 7, 6, 3), (2, 3), (2, 1), dynamic=True),
    avg_pool(f32(2, 7, 6, 3), (3, 3), (2, 2), "VALID"),
    avg_pool(f32(2, 7, 6, 3), (2, 2), (3, 3)),
    avg_pool(f32(2, 3, 2, 3), (5, 5), (1, 1), dynamic=True),
    case("AvgPool", args=[f32(2, 3, 7, 6)], ksize=(1, 1, 2, 3), strides=(1, 1, 2, 1), padding="SAME", **_FIRST),
    max_pool(f32(2, 5, 6, 4, 3), (2, 3, 2), (2, 2, 1), dynamic=True),
    max_pool(f32(2, 5, 6, 4, 3), (2, 2, 2), (2, 2, 2), "VALID", dynamic=True),
    max_pool(below_zero(2, 5, 6, 4, 3), (3, 3, 3), (2, 2, 2)),
    max_pool(f32(2, 5, 6, 4, 3), (1, 2, 2), (1, 2, 2)),
    max_pool(f32(2, 5, 6, 4, 3), (2, 1, 1), (1, 1, 1)),
    avg_pool(f32(2, 5, 6, 4, 3), (2, 3, 2), (2, 2, 1), dynamic=True),
    avg_pool(f32(2, 5, 6, 4, 3), (2, 2, 2), (2, 2, 2), "VALID"),
    avg_pool(f32(2, 5, 6, 4, 3), (3, 3, 3), (1, 2, 2)),
    case(
        "MaxPool3D",
        args=[f32(2, 3, 5, 6, 4)],
        ksize=(1, 1, 2, 2, 2),
        strides=(1, 1, 2, 2, 2),
        padding="SAME",
        data_format="NCDHW",
        compiled=True,
    ),
    *(
        row
        # A mean is rounded to 11 or 8 bits once, of a sum that TensorFlow may round before.
        for dtype, tolerance in ((DType.f16, 2**-9), (DType.bf16, 2**-6))
        for row in (
            max_pool(Operand(dtype, (2, 7, 6, 3), -2, 2), (2, 3), (2, 2)),
            avg_pool(Operand(dtype, (2, 7, 6, 3), 1, 2), (2, 3), (2, 2), tolerance=tolerance),
            max_pool(Operand(dtype, (2, 3, 4, 5, 2), -2, 2), (2, 2, 2), (1, 2, 2), compiled=dtype is DType.f16),
            avg_pool(
                Operand(dtype, (2, 3, 4, 5, 2), 1, 2),
                (2, 2, 2),
                (1, 2, 2),
                tolerance=tolerance,
                compiled=dtype is DType.f16,
            ),
        )
    ),
    max_pool(Operand(DType.f64, (2, 7, 6, 3), -2, 2), (2, 3), (2, 2), "VALID"),
    avg_pool(Operand(DType.f64, (2, 7, 6, 3), -2, 2), (2, 3), (2, 2), litert="the runtime's kernels have no f64"),
    max_pool(integers("u16", 2, 7, 6, 3), (3, 2), (2, 2)),
    argmax(f32(2, 6, 4, 3), (2, 2), (2, 2), dynamic=True),
    argmax(f32(2, 7, 5, 3), (3, 2), (2, 1), "VALID", dynamic=True),
    argmax(below_zero(2, 7, 5, 3), (3, 2), (2, 2)),
    argmax(f32(2, 7, 5, 3), (2, 2), (2, 2), include_batch_in_index=True),
    argmax(f32(2, 4, 4, 3), (2, 2), (2, 2), Targmax=DType.i32),
    argmax(given(np.round(np.sin(np.arange(96)).reshape(2, 4, 4, 3))), (2, 2), (2, 2)),  # equal elements
)
