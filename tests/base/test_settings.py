"""Limits of Python that conversions raise: the caller's own are back after the last of them."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

from jfuse.base.settings import large_programs


def limits() -> tuple[int, tuple[int, int, int]]:
    return sys.getrecursionlimit(), gc.get_threshold()


@pytest.fixture(autouse=True)
def callers_own() -> Iterator[None]:
    before = limits()
    gc.set_threshold(700, 10, 10)
    yield
    sys.setrecursionlimit(before[0])
    gc.set_threshold(*before[1])


def test_the_last_block_puts_them_back() -> None:
    before = limits()
    with large_programs():
        with large_programs():
            pass
        assert sys.getrecursionlimit() >= 8000
        assert gc.get_threshold() == (20_000, 10, 10)
    assert limits() == before


def test_higher_ones_stay() -> None:
    gc.set_threshold(50_000, 5, 5)
    with large_programs():
        assert gc.get_threshold() == (50_000, 5, 5)


def test_who_wants_no_searches_gets_none() -> None:
    gc.set_threshold(0, 10, 10)
    with large_programs():
        assert gc.get_threshold() == (0, 10, 10)
    assert gc.get_threshold() == (0, 10, 10)


def test_what_somebody_sets_meanwhile_stays() -> None:
    with large_programs():
        gc.set_threshold(1000, 10, 10)
    assert gc.get_threshold() == (1000, 10, 10)
