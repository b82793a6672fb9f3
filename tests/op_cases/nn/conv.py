"""Rows of lowering/ops/nn/conv.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, f32, weights

_ONES = (1, 1, 1, 1)
_EXPLICIT: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 2, 0, 1, 0, 0)}
_AS_SAME: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 1, 1, 1, 0, 0)}
_CAUSAL: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 0, 0, 4, 0, 0, 0)}
# TensorFlow has no kernel for these on CPUs.
_FIRST: dict[str, Any] = {"data_format": "NCHW", "compiled": True}
_FIRST_3D: dict[str, Any] = {"data_format": "NCDHW", "compiled": True}


def conv(x: Any, w: Any, **attributes: Any) -> Case:
    return case("Conv2D", args=[x, w], **{"strides": _ONES, "padding": "SAME", **attributes})


def depthwise(x: Any, w: Any, **attributes: Any) -> Case:
    return case("DepthwiseConv2dNative", args=[x, w], **{"strides": _ONES, "padding": "SAME", **attributes})


def conv_3d(x: Any, w: Any, **attributes: Any) -> Case:
    return case("Conv3D", args=[x, w], **{"strides": (1, *_ONES), "padding": "SAME", **attributes})


def of(dtype: DType, *shape: int, constant: bool = False) -> Operand:
    return Operand(dtype, shape, -1, 1, constant=constant)


# TensorFlow adds up in 16 bits, TFLite in f32: up to 36 terms, each rounded to 11 or 8 bits.
NARROW = ((DType.f16, 2**-8), (DType.bf16, 2**-5))
NO_F64 = "the runtime's kernels have no f64, and nothing narrower would be right"

CASES: tuple[Case, ...] = (
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), dynamic=True),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), dynamic=True, padding="VALID", strides=(1, 2, 2, 1)),
    conv(f32(2, 7, 6, 3), weights(2, 3, 3, 4), strides=(1, 2, 3, 1)),
    conv(f32(2, 8, 6, 3), weights(1, 1, 3, 4), strides=(1, 2, 2, 1)),
    conv(f32(2, 9, 8, 3), weights(3, 2, 3, 4), dilations=(1, 2, 3, 1)),
    conv(f32(2, 9, 8, 3), weights(3, 2, 3, 4), dilations=(1, 2, 3, 1), padding="VALID"),
    conv(f32(2, 9, 8, 3), weights(3, 3, 3, 4), dilations=(1, 2, 2, 1), strides=(1, 2, 2, 1), compiled=True),
    conv(f32(2, 7, 6, 4), weights(3, 3, 2, 6), dynamic=True),
    conv(f32(2, 7, 6, 4), weights(3, 3, 1, 4), strides=(1, 2, 2, 1), padding="VALID"),
    conv(f32(2, 7, 6, 3), weights(1, 1, 3, 4), padding="VALID"),
    conv(f32(2, 2, 2, 3), weights(3, 3, 3, 4), strides=(1, 3, 3, 1)),
    conv(f32(2, 3, 3, 3), weights(3, 3, 3, 4), dynamic=True, padding="VALID"),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), **_EXPLICIT),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), dynamic=True, **_AS_SAME),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), strides=(1, 2, 2, 1), **_AS_SAME),
    conv(f32(2, 1, 9, 3), weights(1, 3, 3, 4), dynamic=True, dilations=(1, 1, 2, 1)),
    conv(f32(2, 1, 9, 3), weights(1, 3, 3, 4), dynamic=True, dilations=(1, 1, 2, 1), **_CAUSAL),
    conv(f32(2, 7, 6, 3), f32(3, 3, 3, 4)),
    conv(f32(0, 7, 6, 3), weights(3, 3, 3, 4)),
    conv(f32(2, 3, 7, 6), weights(3, 3, 3, 4), dynamic=True, **_FIRST),
    conv(f32(2, 4, 7, 6), weights(3, 2, 2, 4), strides=(1, 1, 2, 2), padding="VALID", **_FIRST),
    conv(f32(2, 4, 9, 8), weights(3, 3, 4, 2), dilations=(1, 1, 2, 3), **_FIRST),
    conv(
        f32(2, 3, 7, 6), weights(3, 3, 3, 4), padding="EXPLICIT", explicit_paddings=(0, 0, 0, 0, 2, 1, 0, 3), **_FIRST
    ),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 1), dynamic=True),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 2), padding="VALID", strides=(1, 2, 2, 1)),
    depthwise(f32(2, 7, 6, 1), weights(3, 3, 1, 4), dynamic=True),
    depthwise(f32(2, 7, 6, 3), weights(2, 3, 3, 1), strides=(1, 1, 2, 1), compiled=True),
    depthwise(f32(2, 7, 6, 3), weights(2, 3, 3, 2), strides=(1, 3, 2, 1), padding="VALID", compiled=True),
    depthwise(f32(2, 9, 8, 3), weights(3, 3, 3, 2), dilations=(1, 2, 2, 1), compiled=True),
    depthwise(f32(2, 9, 8, 3), weights(3, 3, 3, 1), dilations=(1, 2, 3, 1), padding="VALID", compiled=True),
    depthwise(f32(2, 9, 8, 3), weights(3, 3, 3, 1), dilations=(1, 2, 1, 1), strides=(1, 2, 2, 1), compiled=True),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 2), **_EXPLICIT),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 1), dynamic=True, **_AS_SAME),
    depthwise(f32(2, 7, 6, 3), f32(3, 3, 3, 2)),
    depthwise(f32(2, 3, 7, 6), weights(3, 3, 3, 2), dynamic=True, **_FIRST),
    conv_3d(f32(2, 5, 6, 4, 3), weights(2, 3, 3, 3, 4), dynamic=True),
    conv_3d(f32(2, 5, 6, 4, 3), weights(2, 3, 3, 3, 4), strides=(1, 2, 2, 1, 1), padding="VALID"),
    conv_3d(f32(2, 5, 6, 7, 3), weights(3, 2, 3, 3, 4), strides=(1, 1, 3, 2, 1)),
    conv_3d(f32(2, 5, 6, 4, 3), f32(1, 1, 1, 3, 4)),
    conv_3d(f32(2, 5, 6, 7, 2), weights(2, 3, 2, 2, 3), dilations=(1, 2, 1, 3, 1), compiled=True),
    conv_3d(f32(2, 5, 4, 4, 4), weights(2, 2, 2, 2, 6), compiled=True, dynamic=True),
    conv_3d(f32(2, 3, 5, 6, 4), weights(2, 3, 3, 3, 4), dynamic=True, **_FIRST_3D),
    case("Conv", args=[f32(2, 7, 6, 3), weights(3, 3, 3, 4)], strides=_ONES, padding="SAME", dynamic=True),
    case("Conv", args=[f32(2, 5, 6, 4, 3), weights(2, 3, 3, 3, 4)], strides=(1, 1, 2, 2, 1), padding="VALID"),
    case(
        "Conv",
        args=[f32(2, 3, 7, 6), weights(3, 3, 3, 4)],
        strides=_ONES,
        padding="SAME",
        data_format="CHANNELS_FIRST",
        compiled=True,
    ),
    *(
        row
        for dtype, tolerance in NARROW
        for row in (
            conv(of(dtype, 2, 7, 6, 3), of(dtype, 3, 3, 3, 4, constant=True), tolerance=tolerance, dynamic=True),
            depthwise(of(dtype, 2, 7, 6, 3), of(dtype, 3, 3, 3, 2, constant=True), tolerance=tolerance),
            conv_3d(of(dtype, 2, 3, 4, 5, 2), of(dtype, 2, 3, 3, 2, 4, constant=True), tolerance=tolerance),
        )
    ),
    conv(of(DType.f64, 2, 7, 6, 3), of(DType.f64, 3, 3, 3, 4, constant=True), litert=NO_F64),
    depthwise(of(DType.f64, 2, 7, 6, 3), of(DType.f64, 3, 3, 3, 2, constant=True), litert=NO_F64),
    conv_3d(of(DType.f64, 2, 3, 4, 5, 2), of(DType.f64, 2, 3, 3, 2, 4, constant=True), litert=NO_F64),
    conv(
        Operand(DType.i32, (2, 5, 4, 3), -9, 9),
        Operand(DType.i32, (3, 3, 3, 4), -9, 9, constant=True),
        litert="CONV_2D knows integers as quantized numbers only",
    ),
)
