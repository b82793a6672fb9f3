"""Spellings in ops with integer kernels compute what the op does, on floats. The oracle is the op's kernel."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph, Op
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.lowering.spellings import respelled
from jfuse.lowering.spellings.registry import Case, registered
from jfuse.passes.rewrite import rewrite
from tests.lowering.test_spellings import CELLS, STATE, WIDTH, bilstm, drawn, lstm_weights

B, F = DType.bool, DType.f32
ROW = ((9,), F)
IMAGE = ((2, 4, 6, 8), F)


def lstm(x: Any, h: Any, c: Any) -> Any:
    return ops.unidirectional_sequence_lstm(x, *lstm_weights(0.3), h, c)


def rnn(x: Any, h: Any) -> Any:
    return ops.unidirectional_sequence_rnn(x, drawn(CELLS, WIDTH), drawn(CELLS, CELLS), drawn(CELLS), h)


def svdf(x: Any, state: Any) -> Any:
    return ops.svdf(x, drawn(4, WIDTH), drawn(4, 5), drawn(2), state, rank=2, fused_activation_function="RELU")


SEQUENCE = ((1, 4, WIDTH), F)
# An op's calls, with the types of their operands and how far the results may be apart; by default roundings of f32.
CASES: Mapping[tuple[Case, Op], list[tuple[Any, ...]]] = {
    ("integers", ops.square): [(ops.square, [ROW])],
    ("integers", ops.zeros_like): [(ops.zeros_like, [ROW])],
    ("integers", ops.neg): [(ops.neg, [ROW])],
    ("integers", ops.cast): [(lambda x: ops.cast(x, out_data_type=F), [((9,), B)])],
    ("integers", ops.div): [(lambda x: ops.div(x, np.arange(1, 10, dtype=np.float32)), [ROW])],
    ("integers", ops.depth_to_space): [(partial(ops.depth_to_space, block_size=2), [IMAGE])],
    ("integers", ops.space_to_depth): [(partial(ops.space_to_depth, block_size=2), [IMAGE])],
    ("integers", ops.gelu): [
        (partial(ops.gelu, approximate=True), [ROW]),
        (partial(ops.gelu, approximate=False), [ROW], 3e-4),  # the polynomial errs by 2.7e-4
    ],
    ("integers", ops.elu): [(ops.elu, [ROW])],
    ("integers", ops.prelu): [(lambda x: ops.prelu(x, drawn(9)), [((2, 9), F)])],
    ("integers", ops.relu6): [(lambda x: ops.relu6(ops.mul(x, np.float32(9))), [ROW])],
    ("integers", ops.relu_0_to_1): [(ops.relu_0_to_1, [ROW])],
    ("integers", ops.relu_n1_to_1): [(ops.relu_n1_to_1, [ROW])],
    ("integers", ops.sum_): [(lambda x: ops.sum_(x, np.array([0, -1], np.int32)), [((3, 2, 5), F)])],
    ("integers", ops.squared_difference): [(ops.squared_difference, [ROW, ROW])],
    ("integers", ops.hard_swish): [(lambda x: ops.hard_swish(ops.mul(x, np.float32(3))), [ROW])],
    ("integers", ops.bidirectional_sequence_lstm): [
        (bilstm(time_major=False, merge_outputs=True), [SEQUENCE, *[STATE] * 4]),
        (bilstm(time_major=True, merge_outputs=False), [((4, 1, WIDTH), F), *[STATE] * 4]),
    ],
    ("integers", ops.unidirectional_sequence_lstm): [(lstm, [SEQUENCE, STATE, STATE])],
    ("integers", ops.unidirectional_sequence_rnn): [(rnn, [SEQUENCE, STATE])],
    ("integers", ops.svdf): [(svdf, [((3, WIDTH), F), ((3, 20), F)])],
    ("loop", ops.bidirectional_sequence_lstm): [
        (bilstm(time_major=False, merge_outputs=True), [SEQUENCE, *[STATE] * 4])
    ],
    ("loop", ops.unidirectional_sequence_lstm): [(lstm, [SEQUENCE, STATE, STATE])],
    ("loop", ops.unidirectional_sequence_rnn): [(rnn, [SEQUENCE, STATE])],
    ("faster", ops.relu): [(ops.relu, [ROW])],
    ("faster", ops.abs_): [(ops.abs_, [ROW])],
    ("faster", ops.prelu): [(lambda x: ops.prelu(x, drawn(9)), [((2, 9), F)])],
    ("faster", ops.hard_swish): [(lambda x: ops.hard_swish(ops.mul(x, np.float32(3))), [ROW])],
    ("coarse", ops.div): [(lambda x, y: ops.div(x, ops.square(y)), [ROW, ROW], 1e-5)],  # quotients up to 100
    ("coarse", ops.sqrt): [(lambda x: ops.sqrt(ops.square(x)), [ROW])],
    # Two roundings to 16 bits of [-2, 2] and [-4, 4], of results up to 3.
    ("refined", ops.rsqrt): [(lambda x: ops.rsqrt(ops.exp(x)), [ROW], 6e-4)],
}


def values(shape: tuple[int, ...], dtype: DType) -> np.ndarray:
    rng = np.random.default_rng(sum(shape))
    return np.asarray(rng.random(shape) < 0.4) if dtype is B else rng.uniform(-2, 2, shape).astype(np.float32)


def spelled(graph: Graph, op: Op, case: Case) -> Graph:
    """The graph with the spelling of `op` in its place."""
    return rewrite(graph, lambda eqn: respelled(eqn, case) if eqn.op is op else None)


@pytest.mark.parametrize(("case", "op"), CASES, ids=lambda v: str(getattr(v, "name", v)))
def test_spellings_compute_the_same(case: Case, op: Op) -> None:
    for function, types, *tolerance in CASES[case, op]:
        graph = trace_graph(function, [TensorType(*t) for t in types])
        other = spelled(graph, op, case)
        assert other is not graph, "no spelling"
        assert op not in {eqn.op for eqn in all_eqns(other)} or case == "refined"
        inputs = [values(*t) for t in types]
        run = jax.jit(lambda *x, both=(graph, other): [evaluate(each, x) for each in both])
        wanted, found = run(*inputs)
        for a, b in zip(found, wanted, strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=tolerance[0] if tolerance else 2e-6)


def test_every_spelling_has_a_case() -> None:
    assert registered("integers", "loop", "faster", "coarse", "refined") == CASES.keys()
