"""The distance of two arrays: small numbers count as all others do, down to those that either side may flush to 0."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.compare.wrong import measured

SUMS = Tolerance(1e-5, "sums")


@pytest.mark.parametrize("size", [1.0, 1e-9, 1e-37])
def test_small_numbers_that_differ_are_told(size: float) -> None:
    found, wanted = (np.array([n * size], np.float32) for n in (2, 1))
    assert measured(found, wanted, SUMS).relative == pytest.approx(1)


def test_numbers_below_the_least_normal_one_are_equal() -> None:
    found, wanted = (np.array([n], np.float32) for n in (2e-39, 1e-39))
    assert measured(found, wanted, SUMS).absolute == 0
    assert measured(np.array([np.inf], np.float32), wanted, SUMS).relative == np.inf
