"""Spellings for targets compute what the op does that they are written instead of. The oracle is the op's kernel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import builtin_ops
from jfuse.lowering.spellings import Spelling, spellings_of
from jfuse.lowering.spellings.registry import registered
from tests.slow import slow_but

OPS = builtin_ops()
B, F, N = DType.bool, DType.f32, DType.i32
CELLS, WIDTH = 3, 2


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-0.5, 0.5, shape).astype(np.float32)


def lstm_weights(seed: float) -> list[Any]:
    kernels = [*(drawn(CELLS, WIDTH) + seed for _ in range(4)), *(drawn(CELLS, CELLS) * seed for _ in range(4))]
    return [np.float32(k) for k in kernels] + [None] * 3 + [drawn(CELLS) for _ in range(4)] + [None] * 2


def bilstm(*, time_major: bool, merge_outputs: bool) -> Callable[..., Any]:
    def call(x: Any, *states: Any) -> Any:
        weights = [*lstm_weights(0.1), *lstm_weights(0.7)]
        return ops.bidirectional_sequence_lstm(x, *weights, *states, time_major=time_major, merge_outputs=merge_outputs)

    return call


def bilstm_of_two_sequences(x: Any, aux: Any, *states: Any) -> Any:
    weights = [*lstm_weights(0.1), *lstm_weights(0.7)]
    return ops.bidirectional_sequence_lstm(x, *weights, *states, aux, time_major=True)


def birnn(x: Any, h: Any, g: Any) -> Any:
    weights = drawn(CELLS, WIDTH), drawn(CELLS, CELLS), drawn(CELLS)
    return ops.bidirectional_sequence_rnn(x, *weights, h, *weights[:2], drawn(CELLS) * 2, g)


def strided(begin: list[int], end: list[int], strides: list[int] | None = None, **masks: int) -> Callable[..., Any]:
    steps = strides or [1] * len(begin)
    return lambda x: ops.strided_slice(x, begin, end, steps, **masks)


STATE = ((1, CELLS), F)
CASES: dict[str, list[tuple[Callable[..., Any], list[tuple[tuple[int, ...], DType]]]]] = {
    "BIDIRECTIONAL_SEQUENCE_LSTM": [
        (bilstm(time_major=False, merge_outputs=False), [((1, 4, WIDTH), F), *[STATE] * 4]),
        (bilstm(time_major=True, merge_outputs=True), [((4, 1, WIDTH), F), *[STATE] * 4]),
        (bilstm_of_two_sequences, [*[((4, 1, WIDTH), F)] * 2, *[STATE] * 4]),
    ],
    "BIDIRECTIONAL_SEQUENCE_RNN": [(birnn, [((1, 4, WIDTH), F), STATE, STATE])],
    "SELECT": [(ops.select, [((2, 3), B), ((2, 3), F), ((2, 3), F)])],
    "SELECT_V2": [(ops.select_v2, [((2, 1), B), ((3,), N), ((2, 3), N)])],
    "RELU_N1_TO_1": [(ops.relu_n1_to_1, [((9,), F)])],
    "RELU_0_TO_1": [(ops.relu_0_to_1, [((9,), F)])],
    "FAKE_QUANT": [(lambda x: ops.fake_quant(x, min=-1.0, max=1.5, num_bits=8), [((9,), F)])],
    "GELU": [(lambda x, a=a: ops.gelu(x, approximate=a), [((9,), F)]) for a in (False, True)],
    "REDUCE_ANY": [
        (lambda x: ops.reduce_any(x, np.array([1], np.int32)), [((4, 3), B)]),
        (lambda x: ops.reduce_any(x, np.array([0, 1], np.int32), keep_dims=True), [((2, 1, 3), B)]),
    ],
    "REDUCE_ALL": [(lambda x: ops.reduce_all(x, np.array([1], np.int32)), [((4, 2), B)])],
    "REDUCE_MIN": [(lambda x: ops.reduce_min(x, np.array([1], np.int32)), [((4, 3), F)])],
    "SUM": [
        (lambda x: ops.sum_(x, np.array([0], np.int32)), [((7, 2), N)]),
        (lambda x: ops.sum_(x, np.array([1, -1], np.int32), keep_dims=True), [((2, 1, 6), DType.i64)]),
    ],
    "STRIDED_SLICE": [
        (strided([1], [3]), [((4, 3, 2), F)]),
        (strided([-1, 0], [0, 2], shrink_axis_mask=1), [((4, 3), F)]),
        (strided([0, 1], [0, 0], begin_mask=1, end_mask=1, shrink_axis_mask=2), [((4, 3, 2), F)]),
        (strided([1, 0], [3, 2]), [((4, 3), B)]),
        (strided([0, 2], [0, 3], begin_mask=1, end_mask=1, shrink_axis_mask=2), [((2, 4, 3, 2, 2), F)]),
        (strided([0, 1, -3, 1, 0], [1, 3, -1, 9, 3]), [((1, 4, 5, 3, 3), F)]),
        (strided([0, 3, 0], [2, 0, 9], [1, -2, 3], end_mask=2), [((2, 4, 7, 2), F)]),
        (strided([1, 2, 0], [2, 4, 2]), [((2, 4, 3), F)]),
    ],
    "REVERSE_V2": [
        (lambda x: ops.reverse_v2(x, np.array([1], np.int32)), [((2, 5, 3), F)]),
        (lambda x: ops.reverse_v2(x, np.array([-1, 0], np.int32)), [((2, 5, 3), N)]),
    ],
    "TILE": [
        (lambda x: ops.tile(x, [2, 1, 3]), [((2, 3, 1), F)]),
        (lambda x: ops.tile(x, [1, 20]), [((2, 3), B)]),
    ],
    "ZEROS_LIKE": [(ops.zeros_like, [((2, 3), F)])],
    "PAD": [(lambda x: ops.pad(x, [[0, 1], [2, 0]]), [((2, 3), F)])],
    "BROADCAST_TO": [(lambda x: ops.broadcast_to(x, [4, 3]), [((1, 3), B)])],
    "GATHER": [
        (lambda x: ops.gather(x, np.array([2, 0], np.int32), axis=1), [((2, 3), B)]),
        (lambda x: ops.gather(x, np.array([2, 0], np.int64), axis=1), [((2, 3), F)]),
    ],
    "GATHER_ND": [
        (lambda x: ops.gather_nd(x, np.array([[1, 2], [0, 0]], np.int32)), [((2, 3), B)]),
        (lambda x: ops.gather_nd(x, np.array([[1, 2], [0, 0]], np.int64)), [((2, 3), F)]),
    ],
    "SLICE": [(lambda x: ops.slice_(x, [0, 1], [2, 2]), [((2, 3), B)])],
    "SPLIT": [(lambda x: ops.split(np.int32(1), x, num_splits=2), [((2, 4), B)])],
    "SPLIT_V": [
        (lambda x: ops.split_v(x, np.array([1, 2], np.int32), np.int32(1)), [((2, 3), B)]),
    ],
    "PACK": [(lambda x, y: ops.pack(x, y, axis=1), [((2, 3), B), ((2, 3), B)])],
    "TRANSPOSE": [(lambda x: ops.transpose(x, np.array([1, 0], np.int32)), [((2, 3), B)])],
    "CONCATENATION": [
        (lambda x, y: ops.concatenation(x, y, axis=0), [((2, 1), B), ((3, 1), B)]),
        (lambda x, y: ops.concatenation(*[x, y] * 57, axis=1), [((2, 1), F), ((2, 2), F)]),
    ],
    "UNPACK": [(lambda x: ops.unpack(x, axis=1), [((2, 3, 2), B)])],
    "SQUEEZE": [(lambda x: ops.squeeze(x, squeeze_dims=(1,)), [((2, 1, 3), B)])],
    "EXPAND_DIMS": [(lambda x: ops.expand_dims(x, np.int32(1)), [((2, 3), B)])],
    "DYNAMIC_UPDATE_SLICE": [
        (ops.dynamic_update_slice, [((4, 3), F), ((1, 3), F), ((2,), N)]),
        (ops.dynamic_update_slice, [((6, 2), F), ((3, 2), F), ((2,), N)]),
    ],
}


def values(shape: tuple[int, ...], dtype: DType, seed: int) -> np.ndarray:
    rng = np.random.default_rng(seed)
    if dtype is B:
        return np.asarray(rng.random(shape) < 0.4)
    if dtype is N:
        return rng.integers(-1, 6, shape).astype(np.int32)  # beyond both ends, too
    return rng.uniform(-2, 2, shape).astype(np.float32)


def spelled(spelling: Spelling, graph: Graph) -> Graph | None:
    """The graph of the spelling; None where it does not apply."""
    (eqn,) = graph.eqns
    applies = True

    def call(*inputs: Any) -> Any:
        nonlocal applies
        place = dict(zip(graph.inputs, inputs, strict=True))
        operands = tuple(place.get(a, a) for a in eqn.inputs)  # type: ignore[arg-type]
        results = spelling(Eqn(eqn.op, operands, eqn.outputs, eqn.params))
        applies = results is not None
        return () if results is None else tuple(results)

    traced = trace_graph(call, list(graph.inputs), "spelled")
    return traced if applies else None


@pytest.mark.parametrize("builtin", slow_but(lambda name: "SEQUENCE_LSTM" not in name, CASES))
def test_spellings_compute_the_same(builtin: str) -> None:
    used = set()
    for function, types in CASES[builtin]:
        graph = trace_graph(function, [TensorType(s, d) for s, d in types])
        for spelling in spellings_of(OPS[builtin], "target"):
            other = spelled(spelling, graph)
            if other is None:
                continue
            used.add(spelling)
            assert [v.type for v in other.outputs] == [v.type for v in graph.outputs]
            for seed in range(4):
                inputs = [values(s, d, seed) for s, d in types]
                for found, wanted in zip(evaluate(other, inputs), evaluate(graph, inputs), strict=True):
                    # 1e-6: sums of up to 3 terms in another order, over 4 steps
                    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6, err_msg=str(spelling.function))
    assert used == set(spellings_of(OPS[builtin], "target"))


def test_every_spelling_has_a_case() -> None:
    assert {op for _, op in registered("target")} == {OPS[builtin] for builtin in CASES}
