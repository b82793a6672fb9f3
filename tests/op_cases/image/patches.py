"""Rows of lowering/ops/image/patches.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, f32
from tests.op_cases.image.resize import integers


def patches(images: Operand, size: int, stride: int, rate: int, padding: str, *, dynamic: bool = False) -> Case:
    """Square windows."""
    sizes: dict[str, Any] = {
        "ksizes": [1, size, size, 1],
        "strides": [1, stride, stride, 1],
        "rates": [1, rate, rate, 1],
    }
    return case("ExtractImagePatches", args=[images], dynamic=dynamic, padding=padding, **sizes)


CASES: tuple[Case, ...] = (
    patches(f32(2, 6, 5, 2), 2, 2, 1, "VALID", dynamic=True),
    patches(f32(2, 6, 9, 2), 3, 3, 1, "SAME", dynamic=True),
    patches(f32(2, 6, 5, 2), 3, 1, 1, "SAME", dynamic=True),
    patches(f32(1, 7, 7, 1), 3, 2, 2, "VALID"),
    patches(f32(1, 7, 6, 1), 2, 3, 2, "SAME"),
    patches(f32(1, 2, 2, 1), 3, 1, 1, "VALID"),
    *(patches(integers(DType(t), 1, 4, 4, 1), 2, 2, 1, "SAME") for t in ("u8", "i32", "i64")),
    case(
        "ExtractVolumePatches",
        args=[f32(1, 3, 4, 3, 2)],
        dynamic=True,
        ksizes=[1, 2, 2, 1, 1],
        strides=[1, 1, 2, 1, 1],
        padding="SAME",
    ),
)
