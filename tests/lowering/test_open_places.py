"""Slices, windows and diagonals whose places follow from open sizes, in LiteRT at several sizes, 1 among them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.lowering.defaults import default_rules
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

RULES = default_rules().lowers
Rule = Callable[[Any], Any]


def results(rule: Rule, shape: Sequence[Any], sizes: Sequence[tuple[int, ...]]) -> list[tuple[np.ndarray, np.ndarray]]:
    """For each size an operand, and what the rule's file makes of it."""
    graph = trace_graph(rule, [TensorType(tuple(shape), DType.f32)])
    check_graph(graph)
    graph = prepare_outputs(graph)
    runtime = LiteRt(to_bytes(Program((Signature("main", graph, ("x",), ("y",)),))))
    found = []
    for size in sizes:
        x = np.random.default_rng(0).normal(size=size).astype(np.float32)
        found.append((x, runtime.run("main", {"x": x})["y"]))
    return found


def from_sizes(begin: int | None, end: int | None) -> Rule:
    """x[n + begin : n + end] for the size n of x."""

    def rule(x: Any) -> Any:
        size = ops.strided_slice(ops.shape(x), [0], [1], [1], shrink_axis_mask=1)
        zero = np.zeros((), np.int32)
        first, last = (zero if b is None else ops.add(size, np.int32(b)) for b in (begin, end))
        options = {"begin_mask": int(begin is None), "end_mask": int(end is None)}
        return RULES["StridedSlice"](x, ops.pack(first), ops.pack(last), np.ones(1, np.int32), **options)

    return rule


@pytest.mark.parametrize(("begin", "end"), [(-4, None), (None, -3), (-4, -1), (-2, 3)])
def test_slices_from_a_place_whose_sign_is_open(begin: int | None, end: int | None) -> None:
    for x, found in results(from_sizes(begin, end), [symbol("N")], [(9,), (5,), (4,), (3,), (2,), (1,)]):
        bounds = [None if b is None else len(x) + b for b in (begin, end)]
        np.testing.assert_array_equal(found, x[slice(*bounds)])


@pytest.mark.parametrize("k", [0, 1, -2])
@pytest.mark.parametrize("shape", ["NN", "N5", "NM"])
def test_diagonals(k: int, shape: str) -> None:
    dims = [2, *(5 if name == "5" else symbol(name) for name in shape)]
    sizes = [(2, n, 5 if "5" in shape else n if shape == "NN" else n + 1) for n in (3, 7)]

    def rule(x: Any) -> Any:
        return RULES["MatrixDiagPartV3"](x, np.int32(k), np.float32(0))

    for x, found in results(rule, dims, sizes):
        np.testing.assert_array_equal(found, np.diagonal(x, k, 1, 2))


@pytest.mark.parametrize("k", [2, -1])
def test_matrices_of_a_diagonal(k: int) -> None:
    options = [np.int32(v) for v in (k, -1, -1)]
    for x, found in results(lambda x: RULES["MatrixDiagV3"](x, *options, np.float32(0)), [symbol("N")], [(1,), (4,)]):
        np.testing.assert_array_equal(found, np.diag(x, k))


@pytest.mark.parametrize(("size", "stride", "rate", "padding"), [
    (2, 2, 1, "VALID"), (3, 1, 1, "SAME"), (3, 2, 1, "SAME"), (2, 3, 2, "SAME"), (3, 2, 2, "VALID"),
])  # fmt: skip
def test_windows(size: int, stride: int, rate: int, padding: str) -> None:
    tf = pytest.importorskip("tensorflow")
    options = {"ksizes": (1, size, size, 1), "strides": (1, stride, stride, 1), "rates": (1, rate, rate, 1)}
    shape = [symbol("B"), symbol("H"), symbol("W"), 2]
    sizes = [(2, 7, 6, 2), (1, 5, 8, 2)] + ([(1, 1, 2, 2)] if padding == "SAME" else [])

    def rule(x: Any) -> Any:
        return RULES["ExtractImagePatches"](x, padding=padding, **options)

    for x, found in results(rule, shape, sizes):
        np.testing.assert_array_equal(found, tf.raw_ops.ExtractImagePatches(images=x, padding=padding, **options))


def test_suppression_of_an_open_number_of_boxes() -> None:
    """Its loop over blocks of boxes needs their number rounded up, which data decides, known to be one size."""
    tf = pytest.importorskip("tensorflow")

    def call(x: Any) -> Any:
        options = {"iou_threshold": 0.5, "pad_to_max_output_size": True}
        return tf.image.non_max_suppression_padded(x[:, :, :4], x[:, :, 4], 5, **options)

    function = tf.function(call, input_signature=[tf.TensorSpec([None, None, 5], tf.float32)], autograph=False)
    assert jfuse.convert(function).report.differences


def test_rows_for_weights_whose_number_no_symbol_tells() -> None:
    """The center of an image of open size has as many pixels as the layer behind it wants, or TensorFlow fails."""
    weights = np.ones((4, 2), np.float32)

    def rule(x: Any) -> Any:
        return RULES["MatMul"](ops.expand_dims(from_sizes(-4, None)(x), np.int32(0)), weights)

    for x, found in results(rule, [symbol("N")], [(9,), (4,)]):
        np.testing.assert_allclose(found, x[None, -4:] @ weights, rtol=1e-6)
