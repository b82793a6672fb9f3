"""What users choose: every option with few values refuses all others, and names its own."""

from __future__ import annotations

from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.passes.options import Forms, Pipeline


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
        Forms(**{option: "other"})  # type: ignore[arg-type]


def test_which_ops_are_let_in() -> None:
    assert Pipeline(select_tf_ops=True).lets_in("Any")
    assert Pipeline(custom_ops={"Mine": None}).lets_in("Mine")
    assert not Pipeline(custom_ops={"Mine": None}).lets_in("Other")
    assert not Pipeline().lets_in("Mine")


@pytest.mark.parametrize("given", [["Mine"], {"Mine"}, ("Mine",), {"Mine": None}])
def test_custom_ops_are_names_or_options_by_name(given: Any) -> None:
    assert Pipeline(custom_ops=given).custom_ops == {"Mine": None}


@pytest.mark.parametrize("given", ["Mine", 5, {1: None}, [1]])
def test_custom_ops_are_nothing_else(given: Any) -> None:
    with pytest.raises(JfuseError, match=r"custom_ops= takes names of ops, or their options by name"):
        Pipeline(custom_ops=given)
