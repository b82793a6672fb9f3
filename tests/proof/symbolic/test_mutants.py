"""No mutant of a fused operator is proven."""

from __future__ import annotations

from collections import defaultdict

import pytest

from jfuse.proof.symbolic.prover import prove_symbolically
from tests.proof.symbolic.mutants import in_turn, mutant, mutants
from tests.proof.symbolic.pairs import PAIRS
from tests.slow import slow_but

MUTANTS = list(in_turn())
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


def test_no_change_is_left_out_that_some_lstm_has() -> None:
    """Those that the plain LSTM has are made to it, and each to a variant; the others to all variants."""
    of_variants, of_all = ({row for row in rows if row[0].startswith("lstm-")} for rows in (MUTANTS, mutants()))
    plain = {name for pair, name in mutants() if pair == "lstm"}
    assert {name for _, name in of_variants} == {name for _, name in of_all}
    assert {row for row in of_all if row[1] not in plain} <= of_variants
    assert [row for row in mutants() if not row[0].startswith("lstm-")] == [r for r in MUTANTS if r not in of_variants]


@pytest.mark.parametrize("pair", slow_but(lambda pair: pair in ("rnn-closed", "svdf"), _by_pair()))
def test_no_mutant_is_proven(pair: str) -> None:
    body = PAIRS[pair]().body
    survivors = [name for name in _by_pair()[pair] if prove_symbolically(body, mutant(pair, name)).is_proven]
    assert survivors == []
