"""Rows of lowering/ops/signal/signal.py, complex_numbers.py and audio.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given


def c64(*shape: int, seed: int = 0) -> Operand:
    """Complex numbers with normal parts."""
    rng = np.random.default_rng(seed)
    return given(rng.standard_normal(shape) + 1j * rng.standard_normal(shape), DType.c64)


AXES = given([1, -1, 1j, -1j, 0, 3 - 4j, -1e20 + 1e20j, 1e-20j], DType.c64)
# 1e-5: f32 sums of up to 24 terms that cancel, in another order than that of a fast transform.
SUMS = 1e-5

PARTS = (
    case("Real", args=[c64(2, 3)], dynamic=True),
    case("Imag", args=[c64(2, 3)], dynamic=True),
    case("Real", args=[AXES]),
    case("Imag", args=[AXES]),
    case("ComplexAbs", args=[c64(2, 3)], dynamic=True),
    case("ComplexAbs", args=[AXES]),
    case("ComplexAbs", args=[c64()]),
    case("Angle", args=[c64(2, 3)], dynamic=True),
    case("Angle", args=[AXES]),
    case("Conj", args=[c64(2, 3)], dynamic=True),
    case("Complex", args=[f32(2, 3), f32(2, 3)], dynamic=True),
    case("Complex", args=[f32(), f32()]),
    case("Complex", args=[f32(2, 1, 2, 1, 3), f32(2, 1, 2, 1, 3)]),
    case("Complex", args=[f32(2, 3), f32(3)]),
    case("Complex", args=[given([1.5, -2e30, 1e-30, 0]), given([-1.25, 1e20, 3e-31, -7])]),
    case("Cast", args=[f32(2, 3)], DstT=DType.c64),
    case("Mul", args=[c64(2, 3), c64(3, seed=1)]),
    case("AddV2", args=[c64(2, 3), c64(3, seed=1)], dynamic=True),
    case("Sub", args=[c64(2, 3), c64(1, 3, seed=1)]),
    case("Neg", args=[c64(2, 3)], dynamic=True),
    case("RealDiv", args=[c64(2, 3), c64(3, seed=1)], dynamic=True),
    case("Exp", args=[c64(2, 3)], dynamic=True),
    case("Square", args=[c64(2, 3)]),
    case("ConcatV2", args=[c64(2, 3), c64(2, 3, seed=1), const(1)], dynamic=True),
    case("Pack", args=[c64(2, 3), c64(2, 3, seed=1)], axis=1),
    case("Pad", args=[c64(2, 3), const([[0, 0], [1, 2]])], dynamic=True),
    case("GatherV2", args=[c64(4, 3), const([2, 0]), const(0)]),
    case("Split", args=[const(1), c64(2, 4)], num_split=2, dynamic=True),
    case("Sum", args=[c64(2, 3), const(1)], dynamic=True),
    case("Mean", args=[c64(2, 3), const(0)]),
    case("MatMul", args=[c64(2, 3), c64(3, 4, seed=1)], dynamic=False),
    case("MatMul", args=[c64(2, 3), const(np.array([[1 + 2j], [0.5], [-1j]], np.complex64))]),
    case("BatchMatMulV2", args=[c64(2, 3, 2), c64(2, 3, 4, seed=1)], adj_x=True),
    case("BatchMatMulV2", args=[c64(2, 3, 2), c64(2, 4, 2, seed=1)], adj_y=True),
)

TRANSFORMS = (
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

AUDIO = (
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

CASES: tuple[Case, ...] = (*PARTS, *TRANSFORMS, *AUDIO)
