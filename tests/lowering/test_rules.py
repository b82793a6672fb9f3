"""Rules as they are called: parameters that are dataclasses stand for the fields of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from jfuse.lowering.rules import FuseRule, LowerRule, Proposal, RecoverRule, RuleSet


@dataclass(frozen=True)
class Weights:
    kernel: Any
    bias: Any = None


@dataclass(frozen=True, kw_only=True)
class Attributes:
    strides: tuple[int, ...]
    padding: str = "VALID"


def layer(x: Any, weights: Weights, mask: Any = None, *, how: Attributes, name: str = "") -> Any:
    return x, weights, mask, how, name


def test_a_rule_reads_the_attributes_that_are_fields() -> None:
    rule = LowerRule(("Layer",), layer)
    assert list(rule.attributes) == ["strides", "padding", "name"]
    assert rule.attributes["padding"].default == "VALID"
    found = rule(1, 2, 3, 4, strides=(1, 2), name="a")
    assert found == (1, Weights(2, 3), 4, Attributes(strides=(1, 2)), "a")


def test_operands_of_a_fusion_bind_to_fields() -> None:
    rule = FuseRule(("layer",), layer)
    assert [p.name for p in rule.operands] == ["x", "kernel", "bias", "mask"]
    assert rule(1, 2, None, 4, strides=()) == (1, Weights(2), 4, Attributes(strides=()), "")
    assert rule(1, kernel=2, mask=4, strides=()) == (1, Weights(2), 4, Attributes(strides=()), "")


def test_a_field_that_is_missing_is_an_error() -> None:
    with pytest.raises(TypeError, match="strides"):
        LowerRule(("Layer",), layer)(1, 2)


def test_special_cases_are_asked_first_and_the_users_before_ours() -> None:
    before = {"jfuse.a": "", "jfuse.b": "", "jfuse.c": "jfuse.d", "jfuse.d": "jfuse.a", "own.e": "", "own.f": "own.e"}
    rules = RuleSet()
    for name, general in before.items():
        rules.add(RecoverRule((name,), lambda step: Proposal({}), general))
    assert [name for name, _ in rules.readers()] == ["own.f", "own.e", "jfuse.c", "jfuse.d", "jfuse.a", "jfuse.b"]


def test_two_rules_that_would_be_asked_before_each_other_are_both_asked() -> None:
    rules = RuleSet()
    for name, general in {"a": "b", "b": "a"}.items():
        rules.add(RecoverRule((name,), lambda step: Proposal({}), general))
    assert sorted(name for name, _ in rules.readers()) == ["a", "b"]
