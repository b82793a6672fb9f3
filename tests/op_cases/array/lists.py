"""Rows of lowering/ops/array/lists.py: none, as a list is no tensor that a row could hold."""

from __future__ import annotations

from tests.op_cases.case import Case, Gap

CASES: tuple[Case, ...] = ()

GAPS = tuple(
    Gap(f"TensorList{name}", "a list is no operand of a row: tests/end_to_end/test_control.py")
    for name in (
        "Concat",
        "ConcatV2",
        "ElementShape",
        "FromTensor",
        "Gather",
        "GetItem",
        "Length",
        "PopBack",
        "PushBack",
        "Resize",
        "Scatter",
        "ScatterIntoExistingList",
        "ScatterV2",
        "SetItem",
        "Split",
        "Stack",
    )
)
