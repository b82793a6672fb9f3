"""What users choose: every option with few values refuses all others, and names its own."""

from __future__ import annotations

from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.passes.options import RecurrenceOptions, TfOpOptions


@pytest.mark.parametrize(
    ("option", "known"),
    [
        ("state", "'source' or 'reset' or 'keep' or 'io'"),
        ("padding", "None or 'right' or 'left'"),
        ("loop", "'auto' or 'while' or 'unroll'"),
        ("prefer", "'fused' or 'speed'"),
        ("machine", "'any' or 'zen4' or 'zen4-avx2' or 'emerald-rapids'"),
    ],
)
def test_a_value_that_an_option_has_not(option: str, known: str) -> None:
    with pytest.raises(JfuseError, match=rf"no {option} 'other'(.|\n)*{known}"):
        RecurrenceOptions(**{option: "other"})  # type: ignore[arg-type]


def test_which_ops_are_let_in() -> None:
    assert TfOpOptions(select_tf_ops=True).lets_in("Any")
    assert TfOpOptions(custom_ops={"Mine": None}).lets_in("Mine")
    assert not TfOpOptions(custom_ops={"Mine": None}).lets_in("Other")
    assert not TfOpOptions().lets_in("Mine")


@pytest.mark.parametrize("given", [["Mine"], "Mine", {"Mine"}])
def test_custom_ops_are_a_dict(given: Any) -> None:
    with pytest.raises(JfuseError, match=r"custom_ops= is no dict(.|\n)*custom_ops=\{\"Name\": None\}"):
        TfOpOptions(custom_ops=given)
