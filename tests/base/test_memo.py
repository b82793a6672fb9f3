"""A memo keeps what was asked for last, and nothing of a failed attempt."""

from __future__ import annotations

import pytest

from jfuse.base.memo import Memo


def test_the_value_asked_for_longest_ago_goes_first() -> None:
    made: list[str] = []
    memo: Memo[str] = Memo(2)

    def value(key: str) -> str:
        def make() -> str:
            made.append(key)
            return key.upper()

        return memo.get(key, make)

    assert [value(key) for key in "abacab"] == list("ABACAB")
    assert made == list("abcb")


def test_a_failed_attempt_leaves_nothing_behind() -> None:
    memo: Memo[int] = Memo(2)
    with pytest.raises(ZeroDivisionError):
        memo.get("a", lambda: 1 // 0)
    assert memo.get("a", lambda: 5) == 5
