"""Wrong rules through the whole conversion: each file that is written answers as its source.

The rule of a marked recurrence gives a mutant of the right operator. It must be refused, or verification must fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests import cells
from tests.proof.symbolic.kill_rates import fate
from tests.proof.symbolic.mutants import in_turn, mutant
from tests.proof.symbolic.pairs import PAIRS
from tests.slow import slow_but

_ZERO = np.float32(0)
_EVERY = 8
"""Of the mutants that the prover sees alone, one in so many is converted; of those that differ late, all."""


def sample() -> dict[str, list[str]]:
    """The names of mutants to convert, by pair."""
    found: dict[str, list[str]] = {}
    for number, (pair, name) in enumerate(in_turn()):
        if number % _EVERY == 0 or name.startswith("late"):
            found.setdefault(pair, []).append(name)
    return found


SAMPLE = sample()


def test_the_right_operator_is_proven_and_written() -> None:
    pair = PAIRS["lstm"]()
    assert fate(pair.body, pair.replacement) == "proven"


@pytest.mark.parametrize(
    "extra", [lambda x: ops.mul(ops.log(x), _ZERO), lambda x: ops.div(_ZERO, x)], ids=["log", "div"]
)
def test_a_step_that_may_be_undefined_is_refused(extra: Callable[[Any], Any]) -> None:
    """It is NaN for inputs beyond those that samples have, whatever it is multiplied by."""

    def step(h: Any, c: Any, x: Any) -> Any:
        beyond = ops.add(ops.slice_(x, [0, 0], [-1, 1]), np.float32(1000))
        new_h, new_c, _ = cells.keras(h, ops.add(c, extra(beyond)), x)
        return new_h, new_c, new_h

    pair = PAIRS["lstm"]()
    assert fate(cells.Loop(step).graph(), pair.replacement) == "refused"


@pytest.mark.parametrize("pair", slow_but(lambda pair: pair == "rnn-closed", SAMPLE))
def test_no_mutant_is_written(pair: str) -> None:
    body = PAIRS[pair]().body
    fates = {name: fate(body, mutant(pair, name)) for name in SAMPLE[pair]}
    print(pair, dict(Counter(fates.values())))
    assert {name: word for name, word in fates.items() if word not in ("refused", "found")} == {}
