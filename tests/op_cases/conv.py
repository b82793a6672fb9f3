"""Rows of lowering/conv.py."""

from __future__ import annotations

from typing import Any

from tests.op_cases.case import Case, case, f32, weights

_ONES = (1, 1, 1, 1)
_EXPLICIT: dict[str, Any] = {"padding": "EXPLICIT", "explicit_paddings": (0, 0, 1, 2, 0, 1, 0, 0)}


def conv(x: Any, w: Any, **attributes: Any) -> Case:
    return case("Conv2D", args=[x, w], **{"strides": _ONES, "padding": "SAME", **attributes})


def depthwise(x: Any, w: Any, **attributes: Any) -> Case:
    return case("DepthwiseConv2dNative", args=[x, w], **{"strides": _ONES, "padding": "SAME", **attributes})


CASES: tuple[Case, ...] = (
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), dynamic=True),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), dynamic=True, padding="VALID", strides=(1, 2, 2, 1)),
    conv(f32(2, 7, 6, 3), weights(2, 3, 3, 4), strides=(1, 2, 3, 1)),
    conv(f32(2, 9, 8, 3), weights(3, 2, 3, 4), dilations=(1, 2, 3, 1)),
    conv(f32(2, 9, 8, 3), weights(3, 2, 3, 4), dilations=(1, 2, 3, 1), padding="VALID"),
    conv(f32(2, 7, 6, 4), weights(3, 3, 2, 6), dynamic=True),
    conv(f32(2, 7, 6, 3), weights(1, 1, 3, 4), padding="VALID"),
    conv(f32(2, 7, 6, 3), weights(3, 3, 3, 4), **_EXPLICIT),
    conv(f32(2, 1, 9, 3), weights(1, 3, 3, 4), dynamic=True, dilations=(1, 1, 2, 1)),
    conv(f32(2, 7, 6, 3), f32(3, 3, 3, 4)),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 1), dynamic=True),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 2), padding="VALID", strides=(1, 2, 2, 1)),
    depthwise(f32(2, 9, 8, 3), weights(3, 3, 3, 2), dilations=(1, 2, 2, 1)),
    depthwise(f32(2, 7, 6, 3), weights(3, 3, 3, 2), **_EXPLICIT),
    case("MaxPool", args=[f32(2, 7, 6, 3)], dynamic=True, ksize=(1, 2, 3, 1), strides=(1, 2, 1, 1), padding="SAME"),
    case("MaxPool", args=[f32(2, 7, 6, 3)], ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="VALID"),
    case("MaxPool", args=[f32(2, 7, 6, 3)], ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), **_EXPLICIT),
    case("AvgPool", args=[f32(2, 7, 6, 3)], dynamic=True, ksize=(1, 2, 3, 1), strides=(1, 2, 1, 1), padding="SAME"),
    case("AvgPool", args=[f32(2, 7, 6, 3)], ksize=(1, 3, 3, 1), strides=(1, 2, 2, 1), padding="VALID"),
)
