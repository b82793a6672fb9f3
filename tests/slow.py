"""Rows of a parametrized test, of which the default suite runs some and the mark `slow` the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import pytest

T = TypeVar("T")
_PARAM = type(pytest.param())


def slow_but(quick: Callable[[T], object], rows: Iterable[T]) -> list[Any]:
    """The rows in their order; those that are not `quick` are slow. A tuple is the values of several parameters."""
    return [row if quick(row) else _slow(row) for row in rows]


def every_other(rows: Iterable[Any]) -> list[Any]:
    """The rows in their order, every second one slow: of rows that fail alike half are enough for the default suite."""
    return [_slow(row) if i % 2 else row for i, row in enumerate(rows)]


def keras_3(library: str) -> bool:
    """What is quick of the two libraries: tf_keras takes twice as long, and gives loops of the same form."""
    return library == "keras"


def _slow(row: Any) -> Any:
    if isinstance(row, _PARAM):
        return row._replace(marks=(*row.marks, pytest.mark.slow))
    return pytest.param(*(row if isinstance(row, tuple) else (row,)), marks=pytest.mark.slow)
