"""Rows of lowering/ops/signal/ctc.py."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, case, f32, given

SPOKEN = np.eye(4, dtype=np.float32)[[[0, 3], [0, 1], [3, 1], [0, 1], [2, 0], [2, 3]]] * [[[2, 3, 4, 5.5]]]
CASES: tuple[Case, ...] = tuple(
    case("CTCGreedyDecoder", args=[x, given(lengths, DType.i32)], **options)
    for x, lengths, options in (
        (given(SPOKEN.astype(np.float32)), [6, 5], {}),
        (given(SPOKEN.astype(np.float32)), [6, 5], {"merge_repeated": True}),
        (given(SPOKEN.astype(np.float32)), [3, 6], {"merge_repeated": True, "blank_index": 0}),
        (f32(5, 3, 6), [5, 0, 2], {}),
    )
)
