"""What noise explains of a difference: written formulas, on drawn numbers."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.verification.quantized.explained import differences, explained

SIGMA = 0.1


def _drawn(seed: int, *shape: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


@pytest.fixture(scope="module")
def wanted() -> np.ndarray:
    return _drawn(0, 64, 10)


@pytest.fixture(scope="module")
def noise() -> np.ndarray:
    return SIGMA * _drawn(1, 8, 64, 10)


@pytest.mark.parametrize(("size", "passes"), [(1.0, True), (3.9, True), (4.2, False)])
def test_the_power_of_all_elements(wanted: np.ndarray, noise: np.ndarray, size: float, passes: bool) -> None:
    error = np.full(wanted.shape, np.float32(size * SIGMA))
    found = explained(wanted + error, wanted, noise, times=4.0, tolerance=0.0)
    np.testing.assert_allclose([found.error, found.limit], [size * SIGMA, 4 * SIGMA], rtol=0.03)
    assert (found.error <= found.limit) is passes


@pytest.mark.parametrize(("deviations", "passes"), [(5.9, True), (6.5, False)])
def test_an_element_among_others(wanted: np.ndarray, noise: np.ndarray, deviations: float, passes: bool) -> None:
    """One of ten: 4 deviations, and sqrt(2 ln 10), which is 2.15, more."""
    error = np.zeros_like(wanted)
    error[:, 3] = deviations * SIGMA
    found = explained(wanted + error, wanted, noise, times=4.0, tolerance=0.0)
    assert (found.error <= found.limit) is passes


def test_numbers_that_are_not_finite(wanted: np.ndarray, noise: np.ndarray) -> None:
    odd = wanted.copy()
    odd[5, 2] = np.nan
    one_side = explained(odd, wanted, noise, times=4.0, tolerance=0.0)
    assert one_side.error == np.inf
    assert one_side.worst == 5
    both = explained(odd, odd, noise, times=4.0, tolerance=0.0)
    assert both.error == 0
    assert np.isfinite(differences(odd, wanted)).all()


def test_without_noise_sums_may_have_another_order(wanted: np.ndarray) -> None:
    close = wanted * np.float32(1 + 1e-6)
    assert explained(close, wanted, np.zeros((1, 64, 10)), times=4.0, tolerance=1e-5).error > 0
    for tolerance, passes in ((1e-5, True), (1e-8, False)):
        found = explained(close, wanted, np.zeros((1, 64, 10)), times=4.0, tolerance=tolerance)
        assert (found.error <= found.limit) is passes


def test_ids_may_change_where_rounding_changes_them() -> None:
    ids = np.arange(64) % 7
    some = ids.copy()
    some[:8] += 1
    moved = np.zeros((8, 64))
    assert not explained(some, ids, moved, times=4.0, tolerance=0.0).error <= 0.25
    moved[:, :8] = 1  # in every draw as many do
    for noise, passes in ((np.zeros((8, 64)), False), (moved, True)):
        found = explained(some, ids, noise, times=4.0, tolerance=0.0)
        assert (found.error <= found.limit) is passes
