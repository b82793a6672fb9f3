"""Which element types the runtime takes: what jfuse writes runs, and what would end the process is refused before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Graph
from jfuse.ir.quantization import Quantization
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.gates.builtins_only import builtins_only, check_operators
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.runtime.dtypes import unsupported
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import KEY, program

Function = Callable[..., Any]

_WINDOWS = [np.array(v, np.int64) for v in ([1, 1, 2, 1], [1, 1, 1, 1], [1, 1, 1, 1])]
_PAIRS = {"padding": "VALID", "stride_w": 1, "stride_h": 1, "filter_width": 2, "filter_height": 1}


def _on_image(function: Function) -> Function:
    """The function of an image of one channel and of the sizes of x, as rows of x."""
    return lambda x: ops.reshape(function(ops.reshape(x, [1, 2, 3, 1])), [2, -1])


OPS: dict[str, tuple[Function, Function]] = {
    "add": (lambda x: ops.add(x, x), lambda x: x + x),
    "mul": (lambda x: ops.mul(x, x), lambda x: x * x),
    "sum": (lambda x: ops.sum_(x, [1]), lambda x: x.sum(1, dtype=x.dtype)),
    "less": (lambda x: ops.less(x, ops.reverse_v2(x, [0])), lambda x: x < x[::-1]),
    "maximum": (lambda x: ops.maximum(x, ops.reverse_v2(x, [0])), lambda x: np.maximum(x, x[::-1])),
    "pack": (lambda x: ops.pack(x, x, axis=0), lambda x: np.stack([x, x])),
    "concatenation": (lambda x: ops.concatenation(x, x, axis=0), lambda x: np.concatenate([x, x])),
    "sub": (lambda x: ops.sub(x, ops.reverse_v2(x, [0])), lambda x: x - x[::-1]),
    "abs": (ops.abs_, np.abs),
    "relu": (ops.relu, lambda x: np.maximum(x, 0)),
    "bitwise_xor": (lambda x: ops.bitwise_xor(x, x), lambda x: x ^ x),
    "right_shift": (lambda x: ops.right_shift(x, x), lambda x: x >> x),
    "stablehlo_and": (lambda x: ops.stablehlo_and(x, x), lambda x: x & x),
    "bitcast": (lambda x: ops.bitcast(x, out_data_type=DType.u8), lambda x: x.view(np.uint8).reshape(2, 3, -1)),
    "cast": (lambda x: ops.cast(x, out_data_type=DType.f32), lambda x: x.astype(np.float32)),
    "max_pool_2d": (
        _on_image(lambda x: ops.max_pool_2d(x, **_PAIRS)),
        lambda x: np.maximum(x[:, 1:], x[:, :-1]),
    ),
    "average_pool_2d": (
        _on_image(lambda x: ops.average_pool_2d(x, **_PAIRS)),
        lambda x: (x[:, 1:] + x[:, :-1]) / x.dtype.type(2),
    ),
    "space_to_batch_nd": (
        _on_image(lambda x: ops.space_to_batch_nd(x, [2, 1], np.zeros((2, 2), np.int32))),
        lambda x: x,
    ),
    "reduce_window": (
        _on_image(lambda x: ops.reduce_window(x, np.ones((), x.dtype), *_WINDOWS, reduce_function="MAXIMUM")),
        lambda x: np.maximum(np.maximum(x[:, 1:], x[:, :-1]), x.dtype.type(1)),
    ),
}
TAKEN = [
    ("add", "f32 i16 i32 i64"),
    ("mul", "f32 i16 i32 i64"),
    ("sum", "f32 i32 i64"),
    ("less", "f32 i16 i32 i64"),
    ("maximum", "f32 i8 i16 i32 i64 u8"),
    ("pack", "f32 i8 i32 i64 u8"),
    ("concatenation", "f32 i8 i32 i64 u8"),
    ("sub", "f32 i32 i64"),
    ("abs", "f32 i16 i32"),
    ("bitwise_xor", "i8 i16 i32 u8 u16 u32"),
    ("right_shift", "i8 i16 i32 u8 u16 u32"),
    ("stablehlo_and", "i8 i16 i32 i64 u8 u16 u32 u64 bool"),
    ("bitcast", "f32 f64 i16 i64 u64"),
    ("cast", "f64 i8 i16 i64 u8 u32 bool"),
    ("max_pool_2d", "f32 i8 i16 u8"),
    ("average_pool_2d", "f32"),
    ("space_to_batch_nd", "f32 f64 i8 i16 i32 i64 u8 u16 u32 bool"),
    ("reduce_window", "f32 f64 i8 i16 i32 i64 u8"),
]
REFUSED = [
    ("add", "i8 u8 f64 bf16 u32"),  # i8 and u8 end the process
    ("mul", "i8 u8 f64"),  # i8 and u8 answer 0
    ("sum", "i8 i16 u8"),  # i16 answers -32768
    ("less", "i8 u8"),
    ("pack", "f16 bool"),
    ("concatenation", "f64 string"),
    ("sub", "f16 i16"),  # f16 runs with delegates only, i16 ends the process
    ("abs", "f16 i8 i64"),
    ("relu", "f16 i8 i16 u8"),  # integers are taken for quantized
    ("bitwise_xor", "i64 u64"),
    ("cast", "u64"),
    ("max_pool_2d", "f64 i32 i64"),
    ("average_pool_2d", "i8 u8"),  # both answer what no rounding explains
    ("reduce_window", "f16 u16 u32"),
]


def _rows(table: list[tuple[str, str]]) -> list[tuple[str, DType]]:
    return [(name, DType(dtype)) for name, dtypes in table for dtype in dtypes.split()]


def _graph(name: str, dtype: DType) -> Graph:
    return trace_graph(OPS[name][0], [TensorType((2, 3), dtype)])


@pytest.mark.parametrize(("name", "dtype"), _rows(TAKEN))
def test_what_is_taken_runs(name: str, dtype: DType) -> None:
    check_operators([_graph(name, dtype)])
    x = np.random.default_rng(0).integers(0, 4, (2, 3)).astype(dtype.numpy)
    data = to_bytes(program(OPS[name][0], TensorType((2, 3), dtype)))
    for delegates in (True, False):
        found = LiteRt(data, delegates=delegates).run(KEY, {"x0": x})["y0"]
        np.testing.assert_array_equal(found, OPS[name][1](x))


@pytest.mark.parametrize(("name", "dtype"), _rows(REFUSED))
def test_what_is_not_taken_is_refused(name: str, dtype: DType) -> None:
    with pytest.raises(
        LowerError, match=rf"{name} \(1x, (.|\n)*not {dtype.value}\[(.|\n)*try +cast to one of the types"
    ):
        check_operators([_graph(name, dtype)])


def test_both_sides_of_a_cast_count() -> None:
    graph = trace_graph(lambda x: ops.cast(x, out_data_type=DType.u64), [TensorType((2,), DType.f32)])
    with pytest.raises(LowerError, match=r"cast \(1x, (.|\n)*not u64\[2\]"):
        check_operators([graph])


def test_quantized_types_are_another_matter() -> None:
    quantized = TensorType((2,), DType.i8, Quantization((0.5,), (0,)))
    plain = trace_graph(lambda x: ops.add(x, x), [TensorType((2,), DType.i8)])
    assert unsupported(plain.eqns[0]) is not None
    assert unsupported(trace_graph(lambda x: ops.add(x, x), [quantized]).eqns[0]) is None


def test_a_file_that_was_read_is_written_whatever_its_types() -> None:
    builtins_only([_graph("add", DType.i8)])
