"""Rows of lowering/ops/signal/signal.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, const, f32
from tests.op_cases.signal.signal import SUMS

CASES: tuple[Case, ...] = (
    *(
        case("AudioSpectrogram", args=[f32(40, 2)], window_size=size, stride=stride, magnitude_squared=squared)
        for size, stride, squared in ((16, 8, True), (10, 7, False), (9, 20, True))
    ),
    case("Mfcc", args=[f32(1, 3, 33, low=0, high=5), const(16000)], tolerance=SUMS),
    case(
        "Mfcc",
        args=[f32(2, 2, 65, low=0, high=5), const(8000)],
        dynamic=True,
        tolerance=SUMS,
        upper_frequency_limit=3500.0,
        lower_frequency_limit=60.0,
        filterbank_channel_count=12,
        dct_coefficient_count=5,
    ),
)
