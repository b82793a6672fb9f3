"""Rows of lowering/ops/math/random.py: none, as no two calls draw the same."""

from __future__ import annotations

from tests.op_cases.case import Case, Gap

CASES: tuple[Case, ...] = ()

GAPS = tuple(
    Gap(op, "no two calls draw the same: tests/kernels/math/test_random.py")
    for op in (
        "Multinomial",
        "RandomShuffle",
        "RandomStandardNormal",
        "RandomUniform",
        "RandomUniformInt",
        "TruncatedNormal",
    )
)
