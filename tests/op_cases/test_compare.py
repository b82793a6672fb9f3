"""The comparison of rows notices what it must."""

from __future__ import annotations

import numpy as np
import pytest

from tests.op_cases.case import ROUNDING
from tests.op_cases.compare import assert_close

WANTED = np.array([1.0, 100.0, np.nan, np.inf], np.float32)


@pytest.mark.parametrize(
    "found",
    [
        WANTED * np.float32(1.00001),
        WANTED.astype(np.float64),
        WANTED[None],
        np.where(np.isnan(WANTED), np.float32(0), WANTED),
        np.where(np.isinf(WANTED), np.float32(3e38), WANTED),
    ],
    ids=["value", "dtype", "shape", "nan", "infinity"],
)
def test_differences_are_found(found: np.ndarray) -> None:
    with pytest.raises(AssertionError):
        assert_close([found], [WANTED], ROUNDING)


def test_missing_results_are_found() -> None:
    with pytest.raises(AssertionError):
        assert_close([], [WANTED], ROUNDING)


def test_last_digits_may_differ() -> None:
    assert_close([np.nextafter(WANTED[:2], np.float32(200))], [WANTED[:2]], ROUNDING)
