"""Wrong rules through the whole conversion: each file that is written answers as its source.

The rule of a marked recurrence gives a mutant of the right operator. It must be refused, or verification must fail.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Graph
from tests.proof.symbolic.mutants import mutant, mutants
from tests.proof.symbolic.pairs import PAIRS
from tests.slow import slow_but

_EVERY = 12
"""Of the mutants that the prover sees alone, one in so many is converted; of those that differ late, all."""


def sample() -> dict[str, list[str]]:
    """The names of mutants to convert, by pair."""
    found: dict[str, list[str]] = {}
    for number, (pair, name) in enumerate(mutants()):
        if number % _EVERY == 0 or name.startswith("late"):
            found.setdefault(pair, []).append(name)
    return found


SAMPLE = sample()


def source(body: Graph) -> Any:
    """A jax function that calls a marked recurrence."""

    def run(*operands: Any) -> Any:
        return evaluate(body, operands)

    return jax.lax.composite(run, name="acme.recurrence")


def fate(body: Graph, replacement: Graph) -> str:
    """What becomes of a model whose rule gives that operator: "refused", "verification", or the word of its proof."""

    @jfuse.fuses("acme.recurrence", default=False)
    def rule(*operands: Any) -> Any:
        return evaluate(replacement, operands[-len(replacement.inputs) :])  # constants of the body come first

    specs = [jax.ShapeDtypeStruct(v.type.shape, np.float32) for v in body.inputs]
    options: Any = {"rules": [rule], "forms": jfuse.Forms(recover=False)}
    # Without the operator the file is that of any loop: no need to verify it once for each mutant.
    if not jfuse.convert(source(body), specs, verify=False, **options).report.fused:
        return "refused"
    try:
        return jfuse.convert(source(body), specs, **options).report.fused[0].proof
    except VerifyFailed:
        return "verification"


def test_the_right_operator_is_proven_and_written() -> None:
    pair = PAIRS["lstm"]()
    assert fate(pair.body, pair.replacement) == "proven"


@pytest.mark.parametrize("pair", slow_but(lambda pair: pair == "rnn-closed", SAMPLE))
def test_no_mutant_is_written(pair: str) -> None:
    body = PAIRS[pair]().body
    fates = {name: fate(body, mutant(pair, name)) for name in SAMPLE[pair]}
    print(pair, dict(Counter(fates.values())))
    assert {name: word for name, word in fates.items() if word not in ("refused", "verification")} == {}
