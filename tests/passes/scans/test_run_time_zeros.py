"""Constants spread to shapes known only at run time: in LiteRT, with sizes that change and sizes of 0."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.fuse.run_time_shapes import with_run_time_shape
from jfuse.passes.scans.to_loops.run_time_zeros import Homes, empty, spread
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

B, T, N = symbol("B"), symbol("T"), symbol("N")
SIZES = ({"B": 2, "T": 3}, {"B": 30, "T": 7}, {"B": 4, "T": 0}, {"B": 1, "T": 1})


def spread_from(x: TensorType, value: np.ndarray, shape: tuple[Any, ...]) -> Any:
    return trace_graph(lambda v: spread(value, shape, Homes([v])), [x])


def sized(shape: tuple[Any, ...], sizes: dict[str, int]) -> tuple[int, ...]:
    return tuple(sizes.get(str(d), d) for d in shape)


@pytest.mark.parametrize("source", [(T, B, 8), (B, 8), (8, T, B), (T, B)], ids=str)
@pytest.mark.parametrize(
    ("value", "shape"),
    [
        (np.float32(0), (B, 20)),
        (np.float32(0.25), (B, 20)),
        (np.arange(20, dtype=np.float32), (B, 20)),
        (np.int32(7), (3, B, 4)),
        (np.bool_(False), (B, 5)),
        (np.float32(1), (B,)),
        (np.int64(0), (B, 2)),
    ],
    ids=str,
)
def test_spread_in_litert(source: tuple[Any, ...], value: Any, shape: tuple[Any, ...]) -> None:
    graph = spread_from(TensorType(source, DType.f32), np.asarray(value), shape)
    assert not list(with_run_time_shape(graph))
    runtime = LiteRt(to_bytes(Program((Signature("main", prepare_outputs(graph), ("x",), ("y",)),))))
    for sizes in SIZES:
        x = np.full(sized(source, sizes), np.nan, np.float32)
        found = runtime.run("main", {"x": x})["y"]
        np.testing.assert_array_equal(found, np.broadcast_to(value, sized(shape, sizes)))
        assert found.dtype == np.asarray(value).dtype


@pytest.mark.parametrize("dtype", [DType.i32, DType.bool, DType.u8])
def test_spread_from_other_types(dtype: DType) -> None:
    graph = spread_from(TensorType((B, 3), dtype), np.full((), 2, np.float32), (B, 4))
    runtime = LiteRt(to_bytes(Program((Signature("main", prepare_outputs(graph), ("x",), ("y",)),))))
    found = runtime.run("main", {"x": np.ones((5, 3), dtype.numpy)})["y"]
    np.testing.assert_array_equal(found, np.full((5, 4), 2, np.float32))


@pytest.mark.parametrize(
    ("source", "value"),
    [((T, 8), 0.0), ((B, 0), 0.0), ((B, T, 8), True)],
    ids=["no-such-size", "no-element", "nothing-adds-a-bool"],
)
def test_no_way_to_spread(source: tuple[Any, ...], value: Any) -> None:
    found = []

    def function(x: Any) -> Any:
        found.append(spread(np.asarray(value), (B, 2), Homes([x])))
        return ops.neg(x)

    trace_graph(function, [TensorType(source, DType.f32)])
    assert found == [None]


def test_sizes_are_needed_together_and_in_order() -> None:
    x = Var(TensorType((B, T, 8), DType.f32))
    assert Homes([x]).together((B, T)) is x
    assert Homes([x]).together((T, B)) is None


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


def test_empty_has_rows_to_spare() -> None:
    graph = trace_graph(lambda x: empty((T, B, 4), DType.f32, Homes([x]), more=3), [f32(T, B, 2)])
    runtime = LiteRt(to_bytes(Program((Signature("main", graph, ("x",), ("y",)),))))
    for sizes in SIZES:
        found = runtime.run("main", {"x": np.ones(sized((T, B, 2), sizes), np.float32)})["y"]
        np.testing.assert_array_equal(found, np.zeros((sizes["T"] + 3, sizes["B"], 4), np.float32))


def test_large_known_zeros_are_not_stored() -> None:
    graph = trace_graph(lambda x: ops.add(x, empty((100, 300), DType.f32, Homes([]))), [f32(100, 300)])
    data = to_bytes(Program((Signature("main", graph, ("x",), ("y",)),)))
    assert len(data) < 10_000
    x = np.random.default_rng(0).standard_normal((100, 300)).astype(np.float32)
    np.testing.assert_array_equal(LiteRt(data).run("main", {"x": x})["y"], x)


def test_without_a_tensor_the_shape_is_computed() -> None:
    graph = trace_graph(lambda x, y: (ops.add(x, y), empty((T, B), DType.f32, Homes([x, y]))), [f32(T, 1), f32(1, B)])
    assert "fill" in [eqn.op.name for eqn in graph.eqns]
