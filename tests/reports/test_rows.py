"""The layout: rows in the order of execution, blocks by scope, lanes for values."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from jfuse.ir.graph import Graph, Source
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.reports.page import COLUMNS, place
from jfuse.reports.rows import Rows, ScopeRun, rows_of, runs, scope_of
from tests.reports.small import ROW, at, blocks, loop


def graph_of(*nodes: str) -> Graph:
    """A chain of one op for each node."""

    def chain(x: object) -> object:
        for node in nodes:
            x = at(node, "Tanh", ops.tanh, x)
        return x

    return trace_graph(chain, [ROW])


def outline(found: Rows) -> list[str]:
    return ["  " * row.depth + (f"[{row.label}]" if row.kind == "scope" else row.label) for row in found.rows]


def test_blocks_by_scope() -> None:
    found = rows_of(graph_of("m/a/x/1", "m/a/x/2", "m/a/3", "m/b/4", "m/c/d/5", "m/c/d/6"), ["in"], ["out"])
    assert outline(found) == [
        *("in", "[a]", "  [x]", "    tanh", "    tanh", "  tanh"),  # what they all have in common is not told
        *("tanh", "[c/d]", "  tanh", "  tanh", "out"),
    ]
    assert [row.end for row in found.rows if row.kind == "scope"] == [6, 5, 10]


def test_one_scope_or_none_makes_no_block() -> None:
    assert outline(rows_of(graph_of("m/1", "m/2"), ["in"], ["out"])) == ["in", "tanh", "tanh", "out"]
    assert outline(rows_of(graph_of("", ""), ["in"], ["out"])) == ["in", "tanh", "tanh", "out"]


def test_bodies_and_composites_are_blocks() -> None:
    found = rows_of(loop().signatures[0].graph, ["x"], ["y"])
    assert outline(found) == [
        *("x", "tanh", "while"),
        *("  condition", "    less", "    return", "  body", "    add", "    tanh", "    return", "y"),
    ]
    assert {row.path: row.label for row in found.rows if row.kind == "op"} == {
        (0,): "tanh",
        (1,): "while",
        (1, 0, 0): "less",
        (1, 1, 0): "add",
        (1, 1, 1): "tanh",
    }
    whole = rows_of(blocks(1, False).signatures[0].graph)
    composite = next(row for row in whole.rows if row.mark == "composite")
    assert composite.label == "acme.gelu"
    assert {"name": "name", "value": '"acme.gelu"', "default": False} in composite.options


def test_what_a_row_tells() -> None:
    found = rows_of(blocks(1, True).signatures[0].graph, ["tokens"], ["hidden"])
    dense = next(row for row in found.rows if row.label == "fully_connected")
    assert dense.results == [{"name": "", "type": "f32[1,4]"}]
    assert dense.reads[0] == {"name": "x", "type": "f32[1,4]", "row": 0, "result": 0}
    assert dense.reads[1]["type"] == "f32[4,4]"
    assert dense.reads[2]["value"] == "omitted"
    assert {"name": "keep_num_dims", "value": "False", "default": True} in dense.options
    assert dense.source == "model/encoder/block_0/dense/MatMul (MatMul)"
    assert dense.layer == "scope 'dense'"


def test_a_chain_runs_straight_down() -> None:
    found = rows_of(graph_of("a", "b", "c"), ["in"], ["out"])
    assert place(found) == 1
    assert {row.column for row in found.rows} == {0}


def branches(count: int) -> Graph:
    """`count` values that live side by side, then are added up."""

    def net(x: object) -> object:
        found = [ops.tanh(ops.mul(x, np.float32(i))) for i in range(count)]
        total = found[0]
        for other in found[1:]:
            total = ops.add(total, other)
        return total

    return trace_graph(net, [ROW])


@pytest.mark.parametrize("graph", [branches(5), loop().signatures[0].graph, blocks(3, False).signatures[0].graph])
def test_no_two_values_share_a_lane(graph: Graph) -> None:
    found = rows_of(graph, ["x"], ["y"])
    lanes = place(found)
    assert lanes <= COLUMNS
    busy: dict[int, int] = {}  # lane: the row where it is free again
    for value in found.values:
        if value.readers:
            assert busy.get(value.column, 0) <= value.row
            busy[value.column] = value.readers[-1]
            assert value.row < value.readers[0]
    assert all(row.column < lanes for row in found.rows)


def test_too_many_values_share_the_last_lane() -> None:
    found = rows_of(branches(3 * COLUMNS), ["x"], ["y"])
    assert place(found) == COLUMNS
    assert max(value.column for value in found.values) == COLUMNS - 1


def names(found: Sequence[ScopeRun]) -> list[object]:
    return [(run.name, names(run.inner)) if run.name else run.stop - run.start for run in found]


def test_runs_that_come_back_are_told_again() -> None:
    scopes = [scope_of(Source(node)) for node in ("a/1", "a/2", "b/1", "b/2", "a/3", "a/4", "c/1")]
    assert names(runs(scopes)) == [("a", [2]), ("b", [2]), ("a", [2]), 1]


def test_the_scope_around_a_body_is_not_told_in_it() -> None:
    scopes = [("m", "loop", "cell"), ("m", "loop", "cell"), ("m", "loop")]
    assert names(runs(scopes, ("m", "loop"))) == [("cell", [2]), 1]


def test_scopes_of_any_depth_end() -> None:
    scopes = [("a",) * n for n in range(1, 3000)]
    assert sum(run.stop - run.start for run in runs(scopes)) == len(scopes)
