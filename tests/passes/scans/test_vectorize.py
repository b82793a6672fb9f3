"""Ops on all steps at once, against the same op on each step alone, in LiteRT and on XLA, for fixed and open sizes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from tests.passes.scans.steps import RNG, SIZES, B, T, apart, f32, file_of, names

WIDE = RNG.standard_normal((8, 4)).astype(np.float32)
TABLE = RNG.standard_normal((9, 3)).astype(np.float32)
ROW = RNG.standard_normal(4).astype(np.float32)
KEPT = RNG.standard_normal((2, 4)).astype(np.float32)


def i32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.i32)


# A step in ops and in NumPy, of x[B, 4] or of x[B, 2, 4], and of ids[B].
MATRIX: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "fully_connected": (lambda x: ops.fully_connected(x, WIDE), lambda x: x @ WIDE.T),
    "add-a-row": (lambda x: ops.add(x, ROW), lambda x: x + ROW),
    "sub-from-one": (lambda x: ops.sub(1.0, x), lambda x: 1 - x),
    "add-n": (lambda x: ops.add_n(x, x, x), lambda x: x + x + x),
    "softmax": (lambda x: ops.softmax(x), lambda x: np.exp(x) / np.exp(x).sum(-1, keepdims=True)),
    "zeros-like": (lambda x: ops.zeros_like(x), np.zeros_like),
    "expand-front": (lambda x: ops.expand_dims(x, 0), lambda x: x[None]),
    "expand-last": (lambda x: ops.expand_dims(x, -1), lambda x: x[..., None]),
    "transpose": (lambda x: ops.transpose(x, (1, 0)), lambda x: x.T),
    "reverse": (lambda x: ops.reverse_v2(x, (1,)), lambda x: x[:, ::-1]),
    "sum": (lambda x: ops.sum_(x, (1,)), lambda x: x.sum(1)),
    "mean-keep": (lambda x: ops.mean(x, (-1,), keep_dims=True), lambda x: x.mean(1, keepdims=True)),
    "max-of-rows": (lambda x: ops.reduce_max(x, (0,)), lambda x: x.max(0)),
    "arg-max": (lambda x: ops.arg_max(x, 1), lambda x: x.argmax(1)),
    "cumsum": (lambda x: ops.cumsum(x, 1), lambda x: x.cumsum(1)),
    "concatenate": (lambda x: ops.concatenation(x, ops.neg(x), axis=-1), lambda x: np.concatenate([x, -x], -1)),
    "pack": (lambda x: ops.pack(x, ops.neg(x), axis=1), lambda x: np.stack([x, -x], 1)),
    "pack-last": (lambda x: ops.pack(x, x, axis=-1), lambda x: np.stack([x, x], -1)),
    "unpack": (lambda x: ops.unpack(x, axis=1)[2], lambda x: x[:, 2]),
    "split": (lambda x: ops.split(1, x, num_splits=2)[1], lambda x: x[:, 2:]),
    "split-v": (lambda x: ops.split_v(x, (1, 3), -1)[1], lambda x: x[:, 1:]),
    "slice": (lambda x: ops.slice_(x, (0, 1), (-1, 2)), lambda x: x[:, 1:3]),
    "strided-slice": (
        lambda x: ops.strided_slice(x, (0, 1), (0, 4), (1, 2), begin_mask=1, end_mask=1),
        lambda x: x[:, 1:4:2],
    ),
    "shrinking-slice": (
        lambda x: ops.strided_slice(x, (0, 1), (0, 2), (1, 1), begin_mask=1, end_mask=1, shrink_axis_mask=2),
        lambda x: x[:, 1],
    ),
    "new-axis": (
        lambda x: ops.strided_slice(x, (0, 0), (0, 0), (1, 1), begin_mask=2, end_mask=2, new_axis_mask=1),
        lambda x: x[None],
    ),
    "tile": (lambda x: ops.tile(x, (1, 2)), lambda x: np.tile(x, (1, 2))),
    "pad": (lambda x: ops.pad(x, ((0, 0), (1, 2))), lambda x: np.pad(x, ((0, 0), (1, 2)))),
    "reshape": (lambda x: ops.reshape(x, (-1, 2)), lambda x: x.reshape(-1, 2)),
    "gather-columns": (lambda x: ops.gather(x, np.array([3, 0], np.int32), axis=1), lambda x: x[:, [3, 0]]),
    "top-k": (lambda x: ops.topk_v2(x, 2)[0], lambda x: -np.sort(-x, axis=1)[:, :2]),
    "select": (
        lambda x: ops.select(ops.greater(ops.sum_(x, (1,)), 0.0), x, ops.neg(x)),
        lambda x: np.where(x.sum(1, keepdims=True) > 0, x, -x),
    ),
    "select-v2": (
        lambda x: ops.select_v2(ops.greater(ops.sum_(x, (1,), keep_dims=True), 0.0), x, np.float32(0.5)),
        lambda x: np.where(x.sum(1, keepdims=True) > 0, x, np.float32(0.5)),
    ),
    "mixed-ranks": (lambda x: ops.mul(x, ops.reduce_max(x, (0, 1))), lambda x: x * x.max()),
    "cast": (lambda x: ops.cast(ops.greater(x, 0.0), out_data_type=DType.f32), lambda x: (x > 0).astype(np.float32)),
}
CUBE: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "rows-of-a-cube": (
        lambda x: ops.fully_connected(x, WIDE, keep_num_dims=False),
        lambda x: x.reshape(-1, 4) @ WIDE.T,
    ),
    "cube": (lambda x: ops.fully_connected(x, WIDE, keep_num_dims=True), lambda x: x @ WIDE.T),
    "matmul": (lambda x: ops.batch_matmul(x, WIDE.T.copy()), lambda x: x @ WIDE.T),
    "matmul-of-both": (lambda x: ops.batch_matmul(x, ops.tanh(x), adj_y=True), lambda x: x @ np.tanh(x).swapaxes(1, 2)),
    "squeeze": (
        lambda x: ops.squeeze(ops.sum_(x, (1,), keep_dims=True), squeeze_dims=(1,)),
        lambda x: x.sum(1),
    ),
    "broadcast": (lambda x: ops.add(x, KEPT), lambda x: x + KEPT),
    "to-rank-4": (lambda x: ops.add(ops.expand_dims(x, 1), ROW), lambda x: x[:, None] + ROW),
    "cube-transpose": (lambda x: ops.transpose(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1)),
    "ellipsis": (
        lambda x: ops.strided_slice(x, (0, 1), (0, 3), (1, 1), ellipsis_mask=1),
        lambda x: x[..., 1:3],
    ),
}
IDS: dict[str, tuple[Callable[[Any], Any], Callable[[np.ndarray], Any]]] = {
    "gather": (lambda i: ops.gather(TABLE, i), lambda i: TABLE[i]),
    "gather-columns-by-ids": (lambda i: ops.gather(TABLE.T.copy(), i, axis=1), lambda i: TABLE.T[:, i]),
    "embedding-lookup": (lambda i: ops.embedding_lookup(i, TABLE), lambda i: TABLE[i]),
    "one-hot": (lambda i: ops.one_hot(i, 9, np.float32(1), np.float32(0)), lambda i: np.eye(9, dtype=np.float32)[i]),
}
ROWS = {"matrix": (f32(B, 4), MATRIX), "cube": (f32(B, 2, 4), CUBE), "ids": (i32(B), IDS)}
CASES = [pytest.param(kind, name, id=name) for kind, (_, table) in ROWS.items() for name in table]


def graph_of(step: Callable[[Any], Any], row: TensorType, sizes: dict[str, int] | None) -> Graph:
    """The step as a scan without carries."""
    row = row if sizes is None else TensorType(tuple(sizes.get(str(d), d) for d in row.shape), row.dtype)
    body = trace_graph(lambda x: (step(x),), [row], "step")
    length = T if sizes is None else sizes["T"]

    def function(x: Any) -> Any:
        return ops.scan([x], [body], consts=0, carries=0, length=length, reverse=False)

    return trace_graph(function, [TensorType((length, *row.shape), row.dtype)])


def draw(row: TensorType, sizes: Any, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    shape = [sizes["T"], *(sizes.get(str(d), d) for d in row.shape)]
    return (
        rng.integers(0, 9, shape).astype(np.int32) if row.dtype is DType.i32 else rng.standard_normal(shape).astype("f")
    )


@pytest.mark.parametrize("sizes", [None, {"T": 4, "B": 3}], ids=["open", "fixed"])
@pytest.mark.parametrize(("kind", "name"), CASES)
def test_all_steps_at_once(kind: str, name: str, sizes: dict[str, int] | None) -> None:
    row, table = ROWS[kind]
    step, written = table[name]
    graph = apart(graph_of(step, row, sizes))
    assert "scan" not in names(graph)
    runtime = LiteRt(file_of(graph))
    for seed, each in enumerate(SIZES if sizes is None else (sizes, sizes)):
        x = draw(row, each, seed)
        wanted = np.stack([written(r) for r in x])
        for found in (evaluate(graph, [x])[0], runtime.run("main", {"x0": x})["y0"]):
            # 1e-5: sums of up to a dozen f32 terms
            np.testing.assert_allclose(np.asarray(found), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "step",
    [
        lambda x: ops.dynamic_update_slice(x, np.zeros((1, 2), np.float32), np.array([0, 1], np.int32)),
        lambda x: ops.cast(ops.shape(ops.where(ops.greater(x, 0.0))), out_data_type=DType.f32),
    ],
    ids=["no-rule", "size-depends-on-data"],
)
def test_what_stays_a_loop(step: Callable[[Any], Any]) -> None:
    graph = graph_of(step, f32(B, 4), {"T": 4, "B": 3})
    assert "scan" in names(apart(graph))
