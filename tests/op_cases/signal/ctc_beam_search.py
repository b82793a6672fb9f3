"""Rows of lowering/ops/signal/ctc.py."""

from __future__ import annotations

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, f32, given

CASES: tuple[Case, ...] = tuple(
    case(
        "CTCBeamSearchDecoder",
        args=[f32(*shape, low=-6, high=6), given(lengths, DType.i32)],
        beam_width=width,
        top_paths=paths,
        merge_repeated=merged,
        # 1e-5: logarithms of sums of probabilities, over up to 7 steps
        tolerance=1e-5,
    )
    for shape, lengths, width, paths, merged in (
        ((5, 2, 4), [5, 3], 6, 1, False),
        ((7, 1, 5), [7], 3, 2, True),
        ((3, 3, 3), [3, 1, 2], 20, 1, True),
        # Narrow lists, out of which beams fall that others have grown from: of these some do not grow again.
        ((12, 6, 5), [12, 12, 9, 12, 5, 12], 4, 3, False),
        ((11, 6, 4), [11] * 6, 3, 3, True),
    )
)
