"""No mutant of a fused operator is proven."""

from __future__ import annotations

from collections import defaultdict

import pytest

from jfuse.proof.symbolic.prover import prove_symbolically
from tests.proof.symbolic.mutants import mutant, mutants
from tests.proof.symbolic.pairs import PAIRS
from tests.slow import slow_but

MUTANTS = list(mutants())
_LEAST = 300


def _by_pair() -> dict[str, list[str]]:
    names = defaultdict(list)
    for pair, name in MUTANTS:
        names[pair].append(name)
    return dict(names)


def test_there_are_many_mutants_of_all_kinds() -> None:
    assert len(MUTANTS) >= _LEAST
    assert len(set(MUTANTS)) == len(MUTANTS)
    print(f"{len(MUTANTS)} mutants of {len(_by_pair())} operators")


@pytest.mark.parametrize("pair", slow_but(lambda pair: pair in ("rnn-closed", "svdf"), _by_pair()))
def test_no_mutant_is_proven(pair: str) -> None:
    body = PAIRS[pair]().body
    survivors = [name for name in _by_pair()[pair] if prove_symbolically(body, mutant(pair, name)).is_proven]
    assert survivors == []
