"""Functions that are spelled in several operators, value by value against double precision."""

from __future__ import annotations

from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from jfuse.lowering.defaults import default_rules

_ULP = 2.0**-23


def both_signs(*parts: np.ndarray) -> np.ndarray:
    return np.concatenate([*parts, *(-p for p in parts)])


TINY = np.logspace(-30, -2, 500)
UNIT = both_signs(TINY, np.linspace(0, 1, 4001), 1 - np.logspace(-7, -2, 200))
LINE = both_signs(TINY, np.linspace(0, 20, 4001))
FAR = both_signs(np.logspace(1, 38, 500))

# name, values, NumPy's function, units in the last place: as the docstrings of the rules say.
FUNCTIONS: list[tuple[str, np.ndarray, Callable[[Any], Any], float]] = [
    ("Atan", np.concatenate([LINE, FAR]), np.arctan, 1),
    ("Asin", UNIT, np.arcsin, 3),
    ("Acos", UNIT, np.arccos, 3),
    ("Tan", LINE, np.tan, 3),
    ("Sinh", np.concatenate([LINE, both_signs(np.linspace(20, 89, 500))]), np.sinh, 6),
    ("Cosh", np.concatenate([LINE, both_signs(np.linspace(20, 89, 500))]), np.cosh, 4),
    ("Asinh", np.concatenate([LINE, FAR]), np.arcsinh, 5),
    ("Acosh", np.concatenate([1 + TINY, np.linspace(1, 20, 4001), FAR[FAR > 1]]), np.arccosh, 5),
    ("Atanh", UNIT[np.abs(UNIT) < 0.9999999], np.arctanh, 5),
    ("Log1p", np.concatenate([UNIT[UNIT > -1], FAR[FAR > 0]]), np.log1p, 4),
]


@pytest.mark.parametrize(("name", "values", "function", "ulps"), FUNCTIONS, ids=[f[0] for f in FUNCTIONS])
def test_every_value_is_accurate(name: str, values: np.ndarray, function: Callable[[Any], Any], ulps: float) -> None:
    x = values.astype(np.float32)
    with np.errstate(all="ignore"):
        found = default_rules().lowers[name](x)
        wanted = function(x.astype(np.float64))
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, wanted, rtol=ulps * _ULP, atol=1e-37)


@pytest.mark.parametrize("function", ["exp", "log", "sin", "cos"])
def test_constants_are_rounded_once(function: str) -> None:
    """What NumPy's float32 functions give depends on the processor; what is folded into a file must not."""
    x = np.linspace(0.01, 20, 10_001, dtype=np.float32)
    exact = getattr(np, function)(x.astype(np.float64))
    np.testing.assert_array_equal(getattr(ops, function)(x), exact.astype(np.float32))


def test_quantiles_of_the_normal_distribution() -> None:
    p = np.concatenate([np.logspace(-37, -1, 300), np.linspace(0.1, 0.9, 2000), 1 - np.logspace(-7, -1, 100)])
    p = p.astype(np.float32)
    wanted = [NormalDist().inv_cdf(float(v)) for v in p]
    # 2e-6: Python's own is right to 1e-9; atol: 2 * p - 1 rounds to 6e-8.
    np.testing.assert_allclose(default_rules().lowers["Ndtri"](p), wanted, rtol=2e-6, atol=2e-7)


def test_the_inverse_of_the_error_function() -> None:
    x = np.concatenate([np.linspace(-0.9999, 0.9999, 4001), np.logspace(-30, -1, 200), 1 - np.logspace(-7, -3, 100)])
    x = x.astype(np.float32)
    # The distribution's upper tail, mirrored, keeps the digits of 1 - x.
    exact = [-NormalDist().inv_cdf((1 - abs(float(v))) / 2) / np.sqrt(2) * np.sign(v) for v in x]
    small = np.abs(x) < 1e-4
    wanted = np.where(small, x.astype(np.float64) * np.sqrt(np.pi) / 2, exact)
    np.testing.assert_allclose(default_rules().lowers["Erfinv"](x), wanted, rtol=1e-6, atol=0)
