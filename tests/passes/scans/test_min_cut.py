"""The smallest sets of values that some results can be computed from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from jfuse.ir.graph import Var
from jfuse.ir.types import DType, TensorType
from jfuse.passes.scans.fission.min_cut import smallest_cut

SCALAR = TensorType((), DType.f32)


def cut(reads: Mapping[str, str], wanted: str, uncut: str = "", *, late: bool = False) -> str:
    """The cut of values named by letters, in alphabetical order."""
    letters = sorted({*reads, *"".join(reads.values()), *wanted})
    variables = {letter: Var(SCALAR, letter) for letter in letters}

    def named(text: Sequence[str]) -> list[Var]:
        return [variables[letter] for letter in text]

    edges = {variables[k]: named(v) for k, v in reads.items()}
    return "".join(sorted(str(v.name) for v in smallest_cut(edges, named(wanted), named(uncut), late=late)))


@pytest.mark.parametrize(
    ("reads", "wanted", "far", "near"),
    [
        ({}, "", "", ""),
        ({}, "x", "x", "x"),
        ({"p": "x"}, "p", "x", "p"),
        ({"p": "x", "q": "p"}, "q", "x", "q"),
        ({"i": "x", "f": "x", "g": "x"}, "ifg", "x", "x"),  # the parts of a SPLIT
        ({"s": "xy", "p": "s"}, "p", "s", "p"),  # the product of a sum
        ({"p": "x", "q": "y", "s": "pq"}, "s", "s", "s"),
        ({"s": "xy", "p": "s"}, "px", "xy", "px"),  # x is read by itself as well
        ({"p": "x", "q": "xy", "r": "pq"}, "rp", "xy", "pr"),
        ({"p": "x", "q": "x", "r": "pq", "s": "pq"}, "rs", "x", "x"),
    ],
)
def test_smallest_cut(reads: Mapping[str, str], wanted: str, far: str, near: str) -> None:
    assert cut(reads, wanted) == far
    assert cut(reads, wanted, late=True) == near


def test_values_that_may_not_be_cut() -> None:
    assert cut({"s": "xy", "p": "s"}, "p", "sp") == "xy"
    assert cut({"s": "xy", "p": "s"}, "p", "p", late=True) == "s"
