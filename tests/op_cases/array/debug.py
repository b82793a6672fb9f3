"""Rows of lowering/ops/array/array.py."""

from __future__ import annotations

from tests.op_cases.case import Case, case, f32

CASES: tuple[Case, ...] = (
    case("Print", args=[f32(2, 3), f32(2)], dynamic=True, message="not in the file"),
    case("DebugIdentityV2", args=[f32(2, 3)]),
    *(case(op, args=[f32(2, 3)], tensor_name="x:0") for op in ("DebugIdentity", "DebugIdentityV3")),
)
