"""Tables that are picked from by the same ids become one table, beside what only looks so."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.evaluate import evaluate
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.passes.legalize.row_tables import with_row_tables
from jfuse.passes.simplify.dce import eliminate_dead_code
from tests.passes.quantize.models import drawn

IDS = TensorType((3, 4), DType.i32)
STEPS = np.rint(drawn(20, 6) * 40).astype(np.int8)
SCALES = np.float32(300) + drawn(20)
ZEROS = np.rint(drawn(20, 2) * 5).astype(np.int8)
HALVES = np.array([0, 0, 0, 1, 1, 1], np.int32)
NUMBER = {"out_data_type": DType.f32}


def numbers(ids: Any) -> Any:
    """As Keras's Embedding in int8: steps divided by the scale of their row."""
    return ops.div(ops.cast(ops.gather(STEPS, ids), **NUMBER), ops.expand_dims(ops.gather(SCALES, ids), np.int32(2)))


def in_blocks(ids: Any) -> Any:
    """As in int4: a zero point for each half of a row, taken along the row; a scale of another shape."""
    zeros = ops.cast(ops.gather(ops.gather(ZEROS, ids), HALVES, axis=2), **NUMBER)
    scales = ops.reshape(ops.gather(SCALES, ids), np.array([3, 4, 1], np.int32))
    return ops.mul(ops.sub(ops.cast(ops.gather(STEPS, ids), **NUMBER), zeros), scales)


@pytest.mark.parametrize("function", [numbers, in_blocks])
def test_one_table_is_left(function: Callable[..., Any]) -> None:
    before = trace_graph(function, [IDS])
    after = eliminate_dead_code(with_row_tables(before, lambda eqn: True))
    assert [e.op for e in after.eqns] == [ops.gather]
    ids = np.random.default_rng(0).integers(0, 20, (3, 4)).astype(np.int32)
    for found, wanted in zip(evaluate(after, [ids]), evaluate(before, [ids]), strict=True):
        np.testing.assert_array_equal(found, wanted)  # the same operations of the same numbers
    assert with_row_tables(before, lambda eqn: False) is before


def by_other_ids(ids: Any) -> Any:
    """Scales of the next rows."""
    return ops.mul(
        ops.gather(drawn(20, 6), ids), ops.gather(drawn(20, 6), ops.minimum(ops.add(ids, np.int32(1)), np.int32(19)))
    )


def by_place(ids: Any) -> Any:
    """A factor for each place of an id, not for its row."""
    return ops.mul(ops.gather(drawn(20, 6), ids), drawn(4, 1))


def across_rows(ids: Any) -> Any:
    """What mixes the rows of several ids."""
    return ops.sum_(ops.gather(drawn(20, 6), ids), np.array([1], np.int32), keep_dims=True)


def larger(ids: Any) -> Any:
    """A product of a column and a row: a table of six times the numbers."""
    return ops.mul(ops.gather(drawn(20, 1), ids), drawn(6))


@pytest.mark.parametrize("decoy", [by_other_ids, by_place, across_rows, larger])
def test_what_only_looks_so_stays(decoy: Callable[..., Any]) -> None:
    graph = trace_graph(decoy, [IDS])
    assert with_row_tables(graph, lambda eqn: True) is graph
