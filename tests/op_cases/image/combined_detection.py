"""Rows of lowering/ops/image/detection.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, const, given
from tests.op_cases.image.detection import drawn, ranked, threshold

TOTAL = [const(3), const(5), threshold(0.4), threshold(0.2)]
MORE = [const(4), const(20), threshold(0.4), threshold(0.5)]

CASES: tuple[Case, ...] = (
    case("CombinedNonMaxSuppression", args=[given(drawn(2, 8, 1)), given(ranked(2, 8, 2)), *TOTAL]),
    case("CombinedNonMaxSuppression", args=[given(drawn(1, 8, 2)), given(ranked(1, 8, 2)), *TOTAL]),
    case("CombinedNonMaxSuppression", args=[given(drawn(1, 8, 1)), given(ranked(1, 8, 1)), *TOTAL]),
    case("CombinedNonMaxSuppression", args=[given(drawn(1, 8, 3)), given(ranked(1, 8, 3)), *MORE], pad_per_class=True),
    case("CombinedNonMaxSuppression", args=[given(drawn(1, 8, 1)), given(ranked(1, 8, 2)), *MORE], clip_boxes=False),
)
