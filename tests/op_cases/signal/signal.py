"""Rows of lowering/ops/signal/signal.py."""

from __future__ import annotations

from tests.op_cases.case import Case, c64, case, const, f32

# 1e-5: f32 sums of up to 24 terms that cancel, in another order than that of a fast transform.
SUMS = 1e-5

CASES: tuple[Case, ...] = (
    case("RFFT", args=[f32(3, 8), const([8])], dynamic=True),
    case("RFFT", args=[f32(2, 2, 16), const([16])], dynamic=True),
    case("RFFT", args=[f32(2), const([2])]),
    case("RFFT", args=[f32(2, 9), const([4])]),
    case("RFFT", args=[f32(3, 1), const([1])]),
    case("RFFT", args=[f32(3, 6), const([6])], dynamic=True, tolerance=SUMS),
    case("RFFT", args=[f32(2, 3, 9), const([7])], tolerance=SUMS),
    case("RFFT", args=[f32(5), const([5])], tolerance=SUMS),
    case("RFFT2D", args=[f32(2, 4, 8), const([4, 8])], dynamic=True),
    case("RFFT2D", args=[f32(2, 5, 9), const([2, 8])]),
    case("RFFT2D", args=[f32(2, 1, 4), const([1, 4])]),
    case("RFFT2D", args=[f32(2, 3, 4), const([3, 4])], dynamic=True, tolerance=SUMS),
    case("RFFT2D", args=[f32(4, 5), const([4, 5])], tolerance=SUMS),
    case("IRFFT", args=[c64(3, 5), const([8])], dynamic=True, tolerance=SUMS),
    case("IRFFT", args=[c64(3, 4), const([7])], tolerance=SUMS),
    case("IRFFT", args=[c64(2, 2, 6), const([4])], tolerance=SUMS),
    case("IRFFT2D", args=[c64(2, 4, 3), const([4, 4])], dynamic=True, tolerance=SUMS),
    case("FFT", args=[c64(3, 8)], dynamic=True, tolerance=SUMS),
    case("FFT", args=[c64(5)], tolerance=SUMS),
    case("IFFT", args=[c64(3, 6)], dynamic=True, tolerance=SUMS),
    case("FFT2D", args=[c64(2, 3, 4)], dynamic=True, tolerance=SUMS),
    case("IFFT2D", args=[c64(3, 4)], tolerance=SUMS),
)
