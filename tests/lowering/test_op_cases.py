"""Every row of tests/op_cases against TensorFlow: on arrays, as a graph on XLA, and as a file in LiteRT."""

from __future__ import annotations

from functools import cache
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.core.op import builtin_ops, depends_on_data
from tests.op_cases import FAMILIES, GAPS
from tests.op_cases.case import Case
from tests.op_cases.compare import assert_close
from tests.op_cases.oracle import tensorflow_results
from tests.op_cases.runners import BATCH, as_arrays, graph_of, litert_results, on_arrays, xla_results

ROWS = [row for rows in FAMILIES.values() for row in rows]
FAMILY_OF = {row: family for family, rows in FAMILIES.items() for row in rows}
each_row = pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
each_run = pytest.mark.parametrize(
    ("row", "dynamic"),
    [
        pytest.param(row, dynamic, id=f"{row.id}-dynamic" if dynamic else row.id)
        for row in ROWS
        for dynamic in ((False, True) if row.dynamic else (False,))
    ],
)


@cache
def family_results(family: str) -> dict[tuple[Case, bool], tuple[Any, ...]]:
    """XLA's results of a family: one compilation for all of its rows."""
    return xla_results([(r, d) for r in FAMILIES[family] for d in ((False, True) if r.dynamic else (False,))])


def types_for(graph: Graph, row: Case) -> list[TensorType]:
    """The result types of a graph at the row's own sizes."""
    first = row.inputs[0].shape if row.inputs else ()
    return [a.type.substitute({BATCH: first[0]} if first else {}) for a in graph.outputs]


def masked(tensor_type: TensorType, mask: TensorType) -> tuple[DType, list[int | None]]:
    """A type without the sizes that `mask` leaves open."""
    pairs = zip(tensor_type.shape, mask.shape, strict=True)
    return tensor_type.dtype, [int(d) if is_known(m) else None for d, m in pairs]


@pytest.mark.parametrize("x64", [False, True])
@each_row
def test_the_rule_on_arrays(row: Case, x64: bool) -> None:
    with jax.enable_x64(x64):
        found = on_arrays(row)
    assert all(isinstance(f, np.ndarray) for f in found)
    assert_close(found, tensorflow_results(row), row.tolerance)


@each_run
def test_the_types_of_the_graph(row: Case, dynamic: bool) -> None:
    graph = graph_of(row, dynamic=dynamic)
    check_graph(graph)
    wanted = [TensorType(w.shape, DType.of(w.dtype)) for w in tensorflow_results(row)]
    found = types_for(graph, row)
    if any(map(depends_on_data, all_eqns(graph))):  # there are symbols that no shape explains
        assert [masked(t, t) for t in found] == [masked(w, f) for w, f in zip(wanted, found, strict=True)]
    else:
        assert found == wanted


@each_run
def test_the_graph_on_xla(row: Case, dynamic: bool) -> None:
    found = family_results(FAMILY_OF[row])[row, dynamic]
    assert_close(as_arrays(found), tensorflow_results(row), row.tolerance)


@pytest.mark.parametrize("delegates", [False, True])
@each_run
def test_the_file_in_litert(row: Case, dynamic: bool, delegates: bool) -> None:
    if row.litert is not None:
        pytest.skip(row.litert)
    for found in litert_results(row, delegates=delegates, dynamic=dynamic):
        assert_close(found, tensorflow_results(row), row.tolerance)


def test_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert sorted(set(ids)) == sorted(ids)


def test_every_op_is_reached_by_a_row() -> None:
    graphs = [graph_of(row, dynamic=dynamic) for row in ROWS for dynamic in {False, row.dynamic}]
    reached = {getattr(eqn.op, "builtin", None) for graph in graphs for eqn in all_eqns(graph)}
    gaps = {gap.op for gap in GAPS}
    assert builtin_ops().keys() - reached - gaps == set(), "ops without a row and without a Gap"
    assert gaps & reached == set(), "ops with a Gap that a row reaches"
    assert gaps - builtin_ops().keys() == set(), "a Gap for what is no op"
