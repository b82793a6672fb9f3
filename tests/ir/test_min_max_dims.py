"""Sizes with limits: one form for all ways of writing them, and the same number at every size."""

from __future__ import annotations

import pytest

from jfuse.ir.dims import floor_divided, substitute_dim, symbol
from jfuse.ir.min_max_dims import normal

SIZES = [{"N": n, "M": m} for n in range(1, 9) for m in range(1, 6)]


@pytest.mark.parametrize(
    ("text", "form"),
    [
        ("N - min(N, 2)", "max(0, N - 2)"),
        ("N - max(0, N - 2)", "min(N, 2)"),
        ("max(0, max(0, N - 2) - 1)", "max(0, N - 3)"),
        ("max(N, 4) - 4", "max(0, N - 4)"),
        ("N + M - min(N, M)", "max(N, M)"),
        ("2*max(0, N - 2) + 3", "2*max(0, N - 2) + 3"),
        ("min(max(0, 2*max(0, N - 2) - 1), max(0, N - 2))", "max(0, N - 2)"),
        ("min(max(0, 2*max(0, N - 2) - 2), max(0, N - 2))", "min(max(0, 2*max(0, N - 2) - 2), max(0, N - 2))"),
        ("M*max(0, N - 2)", "M*max(0, N - 2)"),
        ("max(0, min(N, 5) - 2)", "max(0, min(N, 5) - 2)"),
        ("max(2, N) - min(2, N)", "max(2, N) - min(2, N)"),
        ("N + M - min(N, 2) + min(N, 2)", "N + M"),
    ],
)
def test_the_form(text: str, form: str) -> None:
    dim = symbol(text)
    found = normal(dim)
    assert found == normal(symbol(form))
    assert [substitute_dim(found, sizes) for sizes in SIZES] == [substitute_dim(dim, sizes) for sizes in SIZES]


def test_numbers_and_sums_stay() -> None:
    assert normal(3) == 3
    assert normal(symbol("N + 2")) == symbol("N + 2")


@pytest.mark.parametrize(
    ("text", "divisor", "form"),
    [("4*N + 4*M", 2048, "floordiv(N + M, 512)"), ("6*N + 3", 9, "floordiv(2*N + 1, 3)"), ("10*N", 5, "2*N")],
)
def test_quotients_share_no_factor(text: str, divisor: int, form: str) -> None:
    dim = symbol(text)
    found = floor_divided(dim, divisor)
    assert found == symbol(form)
    assert [substitute_dim(found, s) for s in SIZES] == [substitute_dim(dim, s) // divisor for s in SIZES]
