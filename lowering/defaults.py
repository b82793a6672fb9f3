"""The modules that fill the default rule set, each once."""

from __future__ import annotations

from jfuse.lowering import (  # noqa: F401
    activation,
    array,
    block_cells,
    conv,
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
from jfuse.lowering.composites import embedding, keras, lingvo, recurrent  # noqa: F401
from jfuse.lowering.recover import lstm, rnn, svdf, unfused  # noqa: F401
from jfuse.lowering.rules import DEFAULT, RuleSet


def default_rules() -> RuleSet:
    """jfuse's own rules, and what the user has registered by decorator."""
    return DEFAULT
