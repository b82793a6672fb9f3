"""Scales and zero points: the integers reach both ends of a range, 0 is one of them, and u8 says the same numbers."""

from __future__ import annotations

import pytest

from jfuse.ir.quantization import Quantization
from jfuse.ir.types import DType
from jfuse.passes.quantize.parameters import as_unsigned, parameters


@pytest.mark.parametrize(("low", "high"), [(2.0, 6.0), (-6.0, -2.0), (-1.0, 3.0), (0.0, 0.0)])
def test_the_integers_reach_both_ends_and_zero(low: float, high: float) -> None:
    found = parameters(low, high, DType.i8)
    (scale,), (zero_point,) = found.scale, found.zero_point
    assert -128 <= zero_point <= 127
    assert (-128 - zero_point) * scale <= min(low, 0) + scale / 2
    assert (127 - zero_point) * scale >= max(high, 0) - scale / 2
    assert low == high or scale * 255 == pytest.approx(max(high, 0) - min(low, 0))  # and no farther


def test_the_same_numbers_in_u8() -> None:
    (zero_point,) = as_unsigned(Quantization((0.5,), (-3,))).zero_point
    assert [(i + 128 - zero_point) * 0.5 for i in (-128, 0, 127)] == [(i + 3) * 0.5 for i in (-128, 0, 127)]
