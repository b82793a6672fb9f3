"""Dimensions: equality that knows when it does not know, substitution, names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jax.core import max_dim, min_dim

from jfuse.ir.dims import (
    FUNCTIONS,
    SymbolNames,
    alike,
    computed,
    divided,
    floor_divided,
    is_known,
    multiple,
    paired,
    product,
    remainder,
    same,
    solved,
    substitute_dim,
    substitute_value,
    symbol,
    symbols_in,
    symbols_of,
)

B, T = symbol("B"), symbol("T")

# Each as dimensions and as plain arithmetic.
FORMULAS: list[tuple[Any, Callable[[int, int], int]]] = [
    (B * 20, lambda b, t: 20 * b),
    (2 * B * T - 3, lambda b, t: 2 * b * t - 3),
    (B**2 - T, lambda b, t: b * b - t),
    (-B + 40, lambda b, t: 40 - b),
    ((B + 7) // 3, lambda b, t: (b + 7) // 3),
    ((B * T) % 5, lambda b, t: (b * t) % 5),
    (max_dim(B, 2 * T - 9), lambda b, t: max(b, 2 * t - 9)),
    (min_dim(B + 1, T), lambda b, t: min(b + 1, t)),
]


@pytest.mark.parametrize(
    ("text", "known"), [("4", True), ("B", False), ("20*B", False), ("B-B+3", True), ("floordiv(T+1,2)", False)]
)
def test_symbol_reads_numbers_names_and_expressions(text: str, known: bool) -> None:
    dim = symbol(text)
    assert is_known(dim) is known
    assert symbol(str(dim).replace(" ", "")) == dim


@pytest.mark.parametrize(
    ("d", "e", "answer"),
    [
        (3, 3, True),
        (3, 4, False),
        (B, B, True),
        (B, T, None),
        (B, 1, None),
        (B, B + 1, False),
        (2 * B, B + B, True),
        (B, 0, False),  # symbols stand for sizes of at least 1
        (B * T, T * B, True),
        (B // 2, 1, None),
        (B // T + T // B, 2, None),
        (max_dim(0, B // 20 - 1), 2 * max_dim(0, (B + 20) // 40 - 1), None),
    ],
)
def test_same(d: Any, e: Any, answer: bool | None) -> None:
    assert same(d, e) is answer
    assert same(e, d) is answer


@pytest.mark.parametrize(("dim", "formula"), FORMULAS, ids=[str(d) for d, _ in FORMULAS])
@pytest.mark.parametrize("divisor", [1, 2, 5])
def test_floor_divided_computes(dim: Any, formula: Callable[[int, int], int], divisor: int) -> None:
    quotient = floor_divided(dim, divisor)
    for b, t in ((1, 1), (2, 9), (13, 4), (50, 31)):
        assert substitute_dim(quotient, {"B": b, "T": t}) == formula(b, t) // divisor


@pytest.mark.parametrize(("dim", "formula"), FORMULAS, ids=[str(d) for d, _ in FORMULAS])
@pytest.mark.parametrize("divisor", [1, 2, 5])
def test_quotients_and_remainders_of_negative_sizes(dim: Any, formula: Callable[[int, int], int], divisor: int) -> None:
    quotient, rest = floor_divided(3 - dim, divisor), remainder(3 - dim, divisor)
    for b, t in ((1, 1), (2, 9), (13, 4), (50, 31)):
        number = 3 - formula(b, t)
        assert substitute_dim(quotient, {"B": b, "T": t}) == number // divisor
        assert substitute_dim(rest, {"B": b, "T": t}) == number % divisor


def test_what_is_padded_to_a_multiple_is_one() -> None:
    padded = B + remainder(-B, 4)
    assert same(4 * floor_divided(padded, 4), padded) is True
    assert same(floor_divided(padded, 4), floor_divided(B + 3, 4)) is True


def test_floor_divided_has_one_form() -> None:
    assert same(floor_divided(B - 1, 2) + 1, floor_divided(B + 1, 2)) is True
    assert same(floor_divided(2 * B - 5, 4) + 2, floor_divided(2 * B + 3, 4)) is True
    assert same(floor_divided((B + 7) // 3 - 1, 2), floor_divided((B + 7) // 3 + 3, 2) - 2) is True
    assert same(floor_divided(B // 3 + 2, 4), floor_divided(B + 6, 12)) is True
    assert same(-floor_divided(-B, 4), floor_divided(B + 3, 4)) is True
    assert same(floor_divided(1 - 2 * B * T, 4), -floor_divided(2 * B * T + 2, 4)) is True
    assert floor_divided(7, 2) == 3
    assert same(floor_divided(T // B, 2), (T // B) // 2) is True


@pytest.mark.parametrize(("dim", "formula"), FORMULAS, ids=[str(d) for d, _ in FORMULAS])
@settings(deadline=None, derandomize=True)
@given(b=st.integers(1, 50), t=st.integers(1, 50))
def test_substitution_computes(dim: Any, formula: Callable[[int, int], int], b: int, t: int) -> None:
    assert substitute_dim(dim, {"B": b, "T": t}) == formula(b, t)


def test_sizes_that_are_spread_over_each_other_are_equal() -> None:
    assert solved(max_dim(B, T), T) == ("T", B)
    assert solved(T, max_dim(T, B)) == ("T", B)
    assert solved(max_dim(B - 3, 0), B - 3) is None  # so it is for every B from 3 on


def test_substitution_is_simultaneous() -> None:
    assert substitute_dim(B + 2 * T, {"B": T, "T": B}) == T + 2 * B


def test_substitution_leaves_the_rest() -> None:
    assert substitute_dim(B * T, {"T": 3}) == 3 * B
    assert substitute_dim(B, {"T": 3}) is B
    assert substitute_dim(7, {"T": 3}) == 7


def test_symbols_of_knows_functions_from_names() -> None:
    assert symbols_of((B + 1) // 2 + max_dim(T, 4 * B)) == {"B", "T"}
    assert symbols_of(4) == frozenset()


def test_values_are_searched_and_substituted_in_depth() -> None:
    value: dict[str, Any] = {"shape": (B, (T, 2)), "known": np.array([B + 1, 3], object), "name": "T", "none": None}
    assert symbols_in(value) == {"B", "T"}
    found = substitute_value(value, {"B": 4, "T": 5})
    assert found["shape"] == (4, (5, 2))
    assert found["known"].tolist() == [5, 3]
    assert (found["name"], found["none"]) == ("T", None)
    assert value["known"].tolist() == [B + 1, 3]


def test_product() -> None:
    assert product((2, B, 3)) == 6 * B
    assert product(()) == 1


def test_names_are_fresh_and_repeatable() -> None:
    names = SymbolNames()
    names.reserve({"N1"})
    assert [str(names.fresh(stem)) for stem in "BNBNB"] == ["B", "N", "B1", "N2", "B2"]
    assert str(SymbolNames(prefix="_").fresh("N")) == "_N"


@pytest.mark.parametrize(
    ("d", "e", "found"),
    [
        (2 * B, 2 * T, ("T", B)),
        (B + 3, T + 1, ("T", B + 2)),
        (2 * T + 1, 4 * B + 5, ("T", 2 * B + 2)),
        (3 * B, 12, ("B", 4)),
        (2 * B, T, ("T", 2 * B)),
        (B * T, T, None),
        (3 * B, 2 * T, None),
        (2 * B, 7, None),
        ((B + 1) // 2, T // 2, None),
        (T, 4 * (T // 4), None),
        (B + T // 2, 2 * T, ("B", 2 * T - T // 2)),
        (B, B, None),
    ],
    ids=str,
)
def test_what_equal_dimensions_say_about_their_symbols(d: Any, e: Any, found: tuple[str, Any] | None) -> None:
    assert solved(d, e) == found


N, B1, N1 = symbol("N"), symbol("B1"), symbol("N1")


@pytest.mark.parametrize(
    ("d", "e", "found"),
    [
        (2 * (N // 2), N, [("N", 2, 0)]),
        (N, 2 * ((N + 1) // 2), [("N", 2, 0)]),
        (2 * (N // 2) + 1, N, [("N", 2, 1)]),
        (2 * (N // 4), N // 2, [("N", 4, 0)]),
        (4 * (N // 2 // 2), N, [("N", 4, 0)]),
        (6 * T * (N // 2) * (B // 3), B * N * T, [("B", 3, 0), ("N", 2, 0)]),
        (6 * (N // 2) * (B // 3), B * N * T, []),
        (3 * (N // 2), N, []),
        (min_dim(N, 16), N, []),
    ],
    ids=str,
)
def test_sizes_that_make_dimensions_equal(d: Any, e: Any, found: list[tuple[str, int, int]]) -> None:
    assert sorted(divided(d, e)) == found


@pytest.mark.parametrize(
    ("d", "e", "pairs"),
    [
        ((16 * B1 * N1) // (16 * B), N, [(B1, B), (N1, N)]),
        (N1, (16 * B1 * N1) // (16 * B), [(B1, B)]),
        (B1 // B, N, [(B1, B * N)]),
        ((B1 * N1) // (B * N), 3, []),
        (B1 + B, N, []),
    ],
    ids=str,
)
def test_quotients_of_sizes_are_paired(d: Any, e: Any, pairs: list[Any]) -> None:
    assert paired(d, e) == pairs


@pytest.mark.parametrize(
    ("d", "e", "found"),
    [
        (N // 2 + 1, B // 2 + 1, (N, B)),
        (max_dim(N, 3), max_dim(B, 3), (N, B)),
        (N // 2, B // 3, None),
        (N // 2, N // 2, None),
        (N * B, N, None),
        (N // 2, 4, None),
    ],
    ids=str,
)
def test_the_same_function_of_two_sizes(d: Any, e: Any, found: Any) -> None:
    assert alike(d, e) == found


@pytest.mark.parametrize(
    ("dim", "found"),
    [(N, ("N", 1, 0)), (3 * N - 2, ("N", 3, -2)), (7, None), (N * N, None), (N // 2, None), (N + B, None)],
    ids=str,
)
def test_multiples_of_a_symbol(dim: Any, found: tuple[str, int, int] | None) -> None:
    assert multiple(dim) == found


@pytest.mark.parametrize(
    "text", ["__import__('os')", "B.real", "max(B, 1, key=B)", "[B]", "B if B else 1", "'a' * 9", "C"]
)
def test_only_dimensions_are_computed(text: str) -> None:
    with pytest.raises(ValueError, match="is no dimension"):
        computed(text, {"B": 3}, FUNCTIONS)


def test_dimensions_are_computed() -> None:
    assert computed("2*B^2 - mod(B, 2) + max(-1, floordiv(B, 3))", {"B": 5}, FUNCTIONS) == 50 - 1 + 1
