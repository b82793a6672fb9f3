"""What the rules of images, boxes and signals spell, and what they refuse."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError, TypeMismatch
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import live_eqns
from jfuse.kernels import ops
from jfuse.lowering.ops.image.detection import lower_combined_non_max_suppression
from jfuse.lowering.ops.image.patches import lower_crop_and_resize
from jfuse.lowering.ops.image.resize import lower_resize_bicubic, lower_resize_bilinear
from jfuse.lowering.ops.math.complex_numbers import lower_complex, lower_complex_abs, lower_imag, lower_real
from jfuse.lowering.ops.signal.signal import lower_fft, lower_irfft, lower_rfft
from jfuse.passes.legalize.complex_parts import complex_parts

OPEN_IMAGE = TensorType((1, symbol("H"), symbol("W"), 3), DType.f32)
SIZE = np.array([4, 5], np.int32)


def floats(*shape: int) -> TensorType:
    return TensorType(shape, DType.f32)


def names(graph: Graph) -> list[str]:
    return [eqn.op.name for eqn in live_eqns(graph, graph.outputs)]


def by_parts(call: Any, *inputs: TensorType) -> Graph:
    return complex_parts(trace_graph(call, inputs))


@pytest.mark.parametrize(
    ("call", "inputs", "message"),
    [
        (lambda x: lower_resize_bicubic(x, SIZE), [OPEN_IMAGE], "weights or places that depend on the sizes"),
        (
            lambda b, s: lower_combined_non_max_suppression(
                b, s, np.int32(3), np.int32(3), np.float32(1), np.float32(0)
            ),
            [floats(1, 4, 1, 4), floats(1, 4, 2)],
            "TFLite suppresses overlaps at a threshold",
        ),
        (
            lambda b, s: lower_combined_non_max_suppression(
                b, s, np.int32(3), np.int32(3), np.float32(0.5), np.float32(0)
            ),
            [TensorType((1, symbol("N"), 1, 4), DType.f32), TensorType((1, symbol("N"), 2), DType.f32)],
            "one operator for each class",
        ),
        (
            lambda x, b: lower_crop_and_resize(x, b, np.zeros(2, np.int32), SIZE),
            [OPEN_IMAGE, floats(2, 4)],
            "images whose size is known only at run time",
        ),
        (lower_fft, [TensorType((2, 5000), DType.c64)], "a matrix of 5000 by 5000"),
        (
            lambda x: lower_rfft(x, np.array([symbol("B"), symbol("N") * 2], object)[1:]),
            [TensorType((2, symbol("N")), DType.f32)],
            "a length that is known only at run time, and is not that of its operand",
        ),
        (lambda x: lower_rfft(x, np.array([6], np.int32)), [TensorType((2, 6), DType.f64)], r"transform of f64\[2,6\]"),
        (lower_fft, [TensorType((2, 6), DType.c128)], r"transform of f64\[2,6\]"),
        (lower_complex, [TensorType((2,), DType.f64)] * 2, "complex numbers of f64"),
    ],
)
def test_what_tflite_cannot_say_is_refused(call: Any, inputs: list[TensorType], message: str) -> None:
    with pytest.raises(LowerError, match=message):
        trace_graph(call, inputs)


@pytest.mark.parametrize("length", [(3, 4), (4, 1), (1, 0)])
def test_rfft2d_takes_powers_of_two(length: tuple[int, int]) -> None:
    with pytest.raises(TypeMismatch, match="powers of 2"):
        trace_graph(lambda x: ops.rfft2d(x, length), [floats(4, 4)])


def test_a_resize_to_the_same_size_is_nothing() -> None:
    image = TensorType((symbol("B"), 4, 5, 3), DType.f32)
    assert names(trace_graph(lambda x: lower_resize_bilinear(x, SIZE, half_pixel_centers=True), [image])) == []


@pytest.mark.parametrize(("part", "kept"), [(lower_real, 0), (lower_imag, 1)])
def test_parts_of_a_complex_number_are_what_it_was_made_of(part: Any, kept: int) -> None:
    graph = by_parts(lambda a, b: part(lower_complex(a, b)), floats(3), floats(3))
    assert graph.outputs == (graph.inputs[kept],)


def test_parts_are_found_behind_moves() -> None:
    def call(a: Any, b: Any) -> Any:
        return lower_imag(ops.transpose(lower_complex(a, b), (1, 0)))

    assert names(by_parts(call, floats(2, 3), floats(2, 3))) == ["transpose"]


def test_numbers_that_were_real_are_multiplied_as_such() -> None:
    def call(a: Any, b: Any) -> Any:
        x, y = (ops.cast(v, out_data_type=DType.c64) for v in (a, b))
        return lower_real(ops.mul(x, y)), lower_imag(ops.mul(x, lower_complex(a, b)))

    assert names(by_parts(call, floats(3), floats(3))) == ["mul", "mul"]


def test_spectra_of_an_odd_length_need_no_complex_numbers() -> None:
    length = np.array([6], np.int32)
    magnitude = by_parts(lambda x: lower_complex_abs(lower_rfft(x, length)), floats(2, 6))
    assert names(magnitude) == ["fully_connected", "split", "square", "square", "add", "sqrt"]
    back = by_parts(lambda x: lower_irfft(lower_rfft(x, length), length), floats(2, 6))
    assert names(back) == ["fully_connected", "split", "concatenation", "fully_connected"]


def test_zeros_behind_a_signal_are_left_to_the_transform() -> None:
    def call(x: Any) -> Any:
        return lower_rfft(ops.pad(x, np.array([[0, 0], [0, 3]], np.int32)), np.array([8], np.int32))

    assert names(trace_graph(call, [floats(2, 5)])) == ["expand_dims", "rfft2d", "squeeze"]


def test_zeros_before_a_signal_stay() -> None:
    def call(x: Any) -> Any:
        return lower_rfft(ops.pad(x, np.array([[0, 0], [3, 0]], np.int32)), np.array([8], np.int32))

    assert names(trace_graph(call, [floats(2, 5)])) == ["pad", "expand_dims", "rfft2d", "squeeze"]
