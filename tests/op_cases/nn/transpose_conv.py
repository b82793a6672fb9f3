"""Rows of lowering/ops/nn/transpose_conv.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, weights


def data(*sizes: int) -> Operand:
    """Sizes of the result that are an input."""
    return given(sizes, DType.i32)


def _sizes(sizes: Any) -> Operand:
    return sizes if isinstance(sizes, Operand) else const(sizes)


def enlarged(sizes: Any, w: Any, x: Any, strides: Any, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"strides": (1, *strides, 1), "padding": padding, **attributes}
    return case("Conv2DBackpropInput", args=[_sizes(sizes), w, x], **options)


def enlarged_3d(sizes: Any, w: Any, x: Any, strides: Any, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"strides": (1, *strides, 1), "padding": padding, **attributes}
    return case("Conv3DBackpropInputV2", args=[_sizes(sizes), w, x], **options)


def explicit(*sides: int) -> dict[str, Any]:
    return {"padding": "EXPLICIT", "explicit_paddings": (0, 0, *sides, 0, 0)}


def enlarged_depthwise(sizes: Any, w: Any, x: Any, stride: int, padding: str = "SAME", **attributes: Any) -> Case:
    options = {"strides": (1, stride, stride, 1), "padding": padding, **attributes}
    return case("DepthwiseConv2dNativeBackpropInput", args=[const(sizes), w, x], **options)


DEPTHWISE = (
    enlarged_depthwise((2, 8, 6, 3), weights(3, 3, 3, 1), f32(2, 4, 3, 3), 2, dynamic=True),
    enlarged_depthwise((2, 7, 5, 3), weights(3, 2, 3, 1), f32(2, 4, 3, 3), 2, dynamic=True),
    enlarged_depthwise((2, 9, 7, 3), weights(3, 3, 3, 2), f32(2, 4, 3, 6), 2, "VALID", dynamic=True),
    enlarged_depthwise((2, 10, 8, 2), weights(2, 2, 2, 1), f32(2, 3, 3, 2), 3, "VALID"),
    enlarged_depthwise((2, 4, 5, 3), weights(3, 3, 3, 2), f32(2, 4, 5, 6), 1, dynamic=True),
    enlarged_depthwise((2, 4, 5, 3), f32(3, 3, 3, 1), f32(2, 4, 5, 3), 1),
    enlarged_depthwise((2, 8, 6, 3), weights(3, 3, 3, 1), f32(2, 4, 3, 3), 2, **explicit(1, 1, 1, 1)),
)

SIZED_BY_DATA = (
    enlarged(data(2, 8, 6, 5), weights(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2)),
    enlarged(data(7, 5), weights(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2)),
    enlarged(data(2, 10, 7, 5), weights(3, 2, 5, 3), f32(2, 4, 3, 3), (2, 2), "VALID"),
    enlarged_3d(data(2, 4, 8, 6, 5), weights(3, 3, 3, 5, 3), f32(2, 4, 4, 3, 3), (1, 2, 2)),
)

# Sizes of height and width alone leave the batch open: then a convolution gives blocks of pixels.
CASES: tuple[Case, ...] = (
    *DEPTHWISE,
    *SIZED_BY_DATA,
    *(
        enlarged(sizes, weights(*window, 5, 3), f32(2, 4, 3, 3), (2, 2), padding, dynamic=len(sizes) == 2)
        for window, padding, results in (
            ((3, 3), "SAME", [(8, 6), (7, 5), (7, 6)]),
            ((2, 2), "SAME", [(8, 6)]),
            ((4, 4), "SAME", [(8, 6), (7, 6)]),
            ((5, 2), "SAME", [(8, 6)]),
            ((1, 1), "SAME", [(8, 6)]),
            ((3, 3), "VALID", [(9, 7), (10, 8)]),
            ((2, 4), "VALID", [(8, 8), (9, 9)]),
            ((1, 1), "VALID", [(7, 5), (8, 6)]),
        )
        for result in results
        for sizes in ((2, *result, 5), result)
    ),
    *(
        enlarged(sizes, weights(*window, 5, 3), f32(2, 4, 3, 3), (1, 1), padding, dynamic=len(sizes) == 2)
        for window, padding, result in (
            ((3, 3), "SAME", (4, 3)),
            ((2, 4), "SAME", (4, 3)),
            ((1, 1), "VALID", (4, 3)),
            ((3, 2), "VALID", (6, 4)),
        )
        for sizes in ((2, *result, 5), result)
    ),
    *(
        enlarged(sizes, weights(3, 3, 5, 3), f32(2, 4, 3, 3), strides, "SAME", dynamic=len(sizes) == 2)
        for strides, result in (((1, 2), (4, 6)), ((2, 1), (8, 3)), ((3, 2), (12, 6)), ((3, 3), (11, 7)))
        for sizes in ((2, *result, 5), result)
    ),
    *(
        enlarged(sizes, weights(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2), dynamic=len(sizes) == 2, **explicit(*sides))
        for sides, result in (((1, 1, 1, 1), (7, 5)), ((1, 1, 0, 1), (8, 6)), ((1, 0, 2, 0), (8, 5)))
        for sizes in ((2, *result, 5), result)
    ),
    enlarged((1, 6), weights(1, 3, 5, 3), f32(2, 1, 3, 3), (1, 2), dynamic=True),
    enlarged((2, 8, 6, 5), f32(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2)),
    enlarged((8, 6), f32(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2)),
    enlarged((2, 4, 3, 5), weights(3, 3, 5, 3), f32(2, 4, 3, 3), (1, 1), dilations=(1, 2, 2, 1), compiled=True),
    enlarged((2, 8, 6, 5), weights(3, 3, 5, 3), f32(2, 4, 3, 3), (2, 2), dilations=(1, 2, 1, 1), compiled=True),
    enlarged((2, 8, 6, 5), f32(3, 2, 5, 3), f32(2, 4, 3, 3), (2, 2), dilations=(1, 2, 2, 1), compiled=True),
    case(
        "Conv2DBackpropInput",
        args=[const((2, 5, 8, 6)), weights(3, 3, 5, 3), f32(2, 3, 4, 3)],
        strides=(1, 1, 2, 2),
        padding="SAME",
        data_format="NCHW",
        compiled=True,
    ),
    enlarged_3d((2, 4, 6, 8, 3), weights(2, 3, 3, 3, 2), f32(2, 4, 3, 4, 2), (1, 2, 2)),
    enlarged_3d((2, 5, 7, 9, 3), weights(2, 3, 3, 3, 2), f32(2, 4, 3, 4, 2), (1, 2, 2), "VALID"),
    enlarged_3d((2, 4, 3, 4, 3), weights(3, 3, 3, 3, 2), f32(2, 4, 3, 4, 2), (1, 1, 1)),
    enlarged_3d(
        (2, 4, 6, 5, 3), weights(2, 2, 3, 3, 2), f32(2, 4, 3, 5, 2), (1, 2, 1), dilations=(1, 2, 1, 2, 1), compiled=True
    ),
    enlarged_3d((2, 8, 5, 7, 3), f32(3, 3, 2, 3, 2), f32(2, 4, 3, 4, 2), (2, 2, 2)),
    *(
        enlarged(
            sizes,
            Operand(dtype, (3, 3, 5, 3), -1, 1, constant=True),
            Operand(dtype, (2, 4, 3, 3), -1, 1),
            (2, 2),
            dynamic=len(sizes) == 2,
            tolerance=tolerance,
        )
        # TensorFlow adds up in 16 bits, TFLite in f32: up to 12 terms, each rounded to 11 or 8 bits.
        for dtype, tolerance in ((DType.f16, 2**-8), (DType.bf16, 2**-5))
        for sizes in ((2, 8, 6, 5), (8, 6))
    ),
)
