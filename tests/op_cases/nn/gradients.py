"""Rows of lowering/ops/nn/gradients.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases.case import Case, case, const, f32, given

ACTIVATIONS = (
    *("SigmoidGrad", "TanhGrad", "ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "SoftplusGrad"),
    *("SoftsignGrad", "LeakyReluGrad"),
)
ROOTS = ("SqrtGrad", "RsqrtGrad", "InvGrad", "ReciprocalGrad")


def filters(x: tuple[int, ...], size: tuple[int, ...], dy: tuple[int, ...], step: int, **attributes: Any) -> Case:
    """The gradient of a convolution in its weights."""
    attributes = {"padding": "VALID", **attributes}
    # 1e-5: sums of up to 72 products.
    args = [f32(*x), const(list(size)), f32(*dy)]
    return case("Conv2DBackpropFilter", args=args, strides=[1, step, step, 1], tolerance=1e-5, **attributes)


def pool(x: tuple[int, ...], window: int, step: int, padding: str, y: tuple[int, ...]) -> Case:
    """The gradient of a pool of numbers that all differ, whose results the op does not look at."""
    numbers = np.random.default_rng(0).permutation(np.prod(x)).reshape(x).astype(np.float32)
    sizes: dict[str, Any] = {"ksize": [1, window, window, 1], "strides": [1, step, step, 1], "padding": padding}
    best = np.zeros(y, np.float32)
    rows, columns = y[1:3]
    before = [
        max((n - 1) * step + window - s, 0) // 2 * (padding == "SAME") for n, s in zip(y[1:3], x[1:3], strict=True)
    ]
    for i in range(rows):
        for j in range(columns):
            top, left = i * step - before[0], j * step - before[1]
            part = numbers[:, max(top, 0) : top + window, max(left, 0) : left + window]
            best[:, i, j] = part.max((1, 2))
    return case("MaxPoolGrad", args=[given(numbers), given(best), f32(*y)], **sizes)


def cut(shape: list[int], begin: list[int], end: list[int], strides: list[int], *dy: int, **masks: Any) -> Case:
    """The gradient of a slice."""
    return case("StridedSliceGrad", args=[*(const(v) for v in (shape, begin, end, strides)), f32(*dy)], **masks)


CASES: tuple[Case, ...] = (
    *(case(op, args=[f32(2, 3, 4, low=-9, high=9), f32(2, 3, 4, low=-9, high=9)], dynamic=True) for op in ACTIVATIONS),
    *(case(op, args=[given([1.0, -2.0, 3.0, 4.0]), given([0.0, 6.0, -0.0, 7.0])]) for op in ACTIVATIONS),
    case("ReluGrad", args=[given([2.0, np.nan, 1.0]), given([-1.0, 1.0, np.nan])]),
    case("LeakyReluGrad", args=[f32(5), f32(5)], alpha=0.5),
    *(case(op, args=[f32(2, 3, low=0.1), f32(2, 3)], dynamic=True) for op in ROOTS),
    case("BiasAddGrad", args=[f32(2, 3, 4)], dynamic=True),
    case("BiasAddGrad", args=[f32(2, 3)], dynamic=True),
    case("BiasAddGrad", args=[f32(2, 3, 4, 2)], data_format="NCHW", dynamic=True),
    cut([4, 6], [1, 0], [3, 6], [1, 2], 2, 3),
    cut([4, 6], [1, 2], [2, 5], [1, 1], 3, shrink_axis_mask=1),
    cut([4, 6], [0, -1], [0, 0], [1, -2], 4, 3, begin_mask=1, end_mask=3),
    filters((2, 6, 6, 3), (3, 3, 3, 4), (2, 6, 6, 4), 1, padding="SAME"),
    filters((2, 7, 7, 3), (3, 3, 3, 4), (2, 3, 3, 4), 2),
    filters((2, 8, 8, 3), (3, 2, 3, 4), (2, 3, 4, 4), 2),
    filters((2, 6, 5, 3), (3, 3, 3, 4), (2, 3, 3, 4), 2, padding="SAME"),
    filters(
        (1, 5, 5, 2), (2, 2, 2, 2), (1, 6, 5, 2), 1, padding="EXPLICIT", explicit_paddings=[0, 0, 1, 1, 1, 0, 0, 0]
    ),
    pool((2, 6, 6, 3), 2, 2, "VALID", (2, 3, 3, 3)),
    pool((2, 5, 5, 2), 3, 2, "SAME", (2, 3, 3, 2)),
)
