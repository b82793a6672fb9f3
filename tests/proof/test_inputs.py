"""The sizes that open dimensions get in comparisons."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.proof.inputs import size_choices

B, T = symbol("B"), symbol("T")


def sizes(function: Any, *shape: Any) -> list[dict[str, int]]:
    return size_choices(trace_graph(function, [TensorType(shape, DType.f32)]))


def convolved(x: Any, window: int, stride: int = 1) -> Any:
    weights = np.ones((2, 1, window, 2), np.float32)
    return ops.conv_2d(x, weights, np.zeros(2, np.float32), padding="VALID", stride_w=stride, stride_h=1)


def test_one_is_among_them() -> None:
    assert sizes(ops.relu, B, T) == [{"B": 3, "T": 4}, {"B": 1, "T": 2}]
    assert sizes(ops.relu, 2, 3) == [{}]


def test_windows_have_something_to_slide_over() -> None:
    found = sizes(lambda x: convolved(convolved(x, 5), 3, 2), B, 1, T, 2)
    assert found == [{"B": 3, "T": 7}, {"B": 1, "T": 7}]  # 7 - 4 is a window of 3


def test_what_is_taken_has_rows() -> None:
    """Where it has none, TensorFlow's lists and XNNPACK's products fail."""

    def shorter(x: Any) -> Any:
        return ops.strided_slice(x, [0, 1], [0, -1], [1, 1], begin_mask=1, end_mask=1)

    assert sizes(shorter, T, B) == [{"B": 3, "T": 4}, {"B": 3, "T": 2}]


def test_halves_and_wholes_fit() -> None:
    """An image is halved twice, enlarged again and joined with itself: its size, 4*T1, is a multiple of 4."""

    def model(x: Any) -> Any:
        small = x
        for _ in range(2):
            small = ops.max_pool_2d(small, padding="VALID", stride_w=2, stride_h=1, filter_width=2, filter_height=1)
        large = ops.concatenation(small, small, small, small, axis=2)
        return ops.concatenation(x, large, axis=3)

    assert sizes(model, B, 1, T, 2) == [{"B": 3, "T1": 4}, {"B": 1, "T1": 2}]
    assert sizes(lambda x: ops.concatenation(x, ops.add(x, np.ones((5, 1), np.float32)), axis=0), 5, T)[1] == {"T": 1}


def test_rows_that_constants_speak_of_are_there() -> None:
    row = {"begin_mask": 0, "shrink_axis_mask": 1}
    assert sizes(lambda x: ops.strided_slice(x, [4], [5], [1], **row), B, 2)[1] == {"B": 5}
    assert sizes(lambda x: ops.strided_slice(x, [-3], [-2], [1], **row), B, 2)[1] == {"B": 3}
    assert sizes(lambda x: ops.topk_v2(x, np.int32(4))[0], B, T) == [{"B": 3, "T": 4}, {"B": 1, "T": 4}]
    assert sizes(lambda x: ops.gather(x, np.array([0, 5], np.int32), axis=1), 2, T)[1] == {"T": 6}


@pytest.mark.parametrize(("mode", "least"), [("REFLECT", 4), ("SYMMETRIC", 3)])
def test_a_mirror_image_has_something_to_mirror(mode: str, least: int) -> None:
    paddings = np.array([[0, 0], [1, 3]], np.int32)
    assert sizes(lambda x: ops.mirror_pad(x, paddings, mode=mode), 2, T)[1] == {"T": least}


def test_windows_over_sound_are_long() -> None:
    found = sizes(lambda x: convolved(convolved(convolved(x, 127, 64), 7, 3), 3, 2), B, 1, T, 2)
    assert all(511 + 2 * 192 <= choice["T"] < 1100 for choice in found)  # three windows of the third layer


def test_rows_that_are_broadcast_to_others_agree_with_them() -> None:
    types = [TensorType((B, 1), DType.f32), TensorType((T, 1), DType.f32)]
    (first, second) = size_choices(trace_graph(lambda x, y: ops.broadcast_to(x, ops.shape(y)), types))
    assert first["B"] == first["T"]
    assert second["B"] == second["T"]
