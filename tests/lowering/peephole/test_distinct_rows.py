"""Rows that are looked up once for each distinct id: looked up by the ids themselves, where that is the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, case, check, floats, i32, refusals

TABLE, WIDE = floats(5, 3), floats(4, 5)


def ids_of(x: Any) -> Any:
    return ops.floor_mod(x, np.int32(5))


def spread(x: Any, table: Any = TABLE, axis: int = 0) -> Any:
    """The rows of distinct ids, and from there those of all."""
    distinct, places = ops.unique(ids_of(x))
    return ops.gather(ops.gather(table, distinct, axis=axis), places, axis=axis)


def both_read(x: Any) -> Any:
    distinct, places = ops.unique(ids_of(x))
    rows = ops.gather(TABLE, distinct)
    return ops.gather(rows, places), rows


def scaled(x: Any) -> Any:
    distinct, places = ops.unique(ids_of(x))
    return ops.gather(ops.relu(ops.gather(TABLE, distinct)), places)


def of_others(x: Any) -> Any:
    distinct, _ = ops.unique(ids_of(x))
    _, places = ops.unique(ids_of(ops.add(x, np.int32(1))))
    return ops.gather(ops.gather(TABLE, distinct), places)


ROWS = [
    case("rows", spread, i32(B), left="floor_mod gather"),
    case("both-read", both_read, i32(B), left="floor_mod unique gather gather"),
    case("columns", lambda x: spread(x, WIDE, 1), i32(B), left="floor_mod unique gather gather"),
    case("relu-between", scaled, i32(B), left="floor_mod unique gather relu gather"),
]


@pytest.mark.parametrize("item", ROWS)
def test_distinct_rows(item: Case) -> None:
    check(item)


def test_refusals() -> None:
    assert refusals(of_others, i32(B))["gather_of_distinct_rows"] == ["ids_of_one_unique"]
    assert refusals(lambda x: spread(x, WIDE, 1), i32(B))["gather_of_distinct_rows"] == ["rows"]
