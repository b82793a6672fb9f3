"""The modules that fill the default rule set, each once."""

from __future__ import annotations

from jfuse.lowering import (  # noqa: F401
    activation,
    array,
    einsum,
    elementwise,
    gather,
    lists,
    matmul,
    reduce,
    shapes,
    slicing,
    special,
)
from jfuse.lowering.composites import embedding, keras, recurrent  # noqa: F401
from jfuse.lowering.recover import lstm  # noqa: F401
from jfuse.lowering.rules import DEFAULT, RuleSet


def default_rules() -> RuleSet:
    """jfuse's own rules, and what the user has registered by decorator."""
    return DEFAULT
