"""Rows of lowering/ops/image/blocks.py."""

from __future__ import annotations

from typing import Any

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Operand, case, const, f32, given, i32, i64

_FIRST: dict[str, Any] = {"data_format": "NCHW", "compiled": True}  # TensorFlow has no kernel for it on CPUs


def to_batch(x: Operand, blocks: Any, paddings: Any, **attributes: Any) -> Case:
    return case("SpaceToBatchND", args=[x, const(blocks), const(paddings)], **attributes)


def from_batch(x: Operand, blocks: Any, crops: Any, **attributes: Any) -> Case:
    return case("BatchToSpaceND", args=[x, const(blocks), const(crops)], **attributes)


def data(values: Any) -> Operand:
    """Blocks or margins that are an input."""
    return given(values, DType.i32)


def integers(dtype: str, *shape: int) -> Operand:
    return Operand(DType(dtype), shape, 0, 100)


CASES: tuple[Case, ...] = (
    case("SpaceToDepth", args=[f32(2, 4, 6, 3)], block_size=2, dynamic=True),
    case("SpaceToDepth", args=[f32(2, 6, 3, 2)], block_size=3),
    case("SpaceToDepth", args=[f32(2, 3, 4, 6)], block_size=2, **_FIRST),
    case("DepthToSpace", args=[f32(2, 4, 3, 8)], block_size=2, dynamic=True),
    case("DepthToSpace", args=[f32(2, 2, 3, 18)], block_size=3),
    case("DepthToSpace", args=[f32(2, 8, 4, 3)], block_size=2, **_FIRST),
    *(case("SpaceToDepth", args=[integers(d, 1, 2, 4, 2)], block_size=2) for d in ("i8", "u8", "i32", "i64")),
    *(case("DepthToSpace", args=[integers(d, 1, 1, 2, 8)], block_size=2) for d in ("i8", "u8", "i32", "i64")),
    to_batch(f32(2, 4, 6, 3), [2, 3], [[0, 0], [0, 0]], dynamic=True),
    case("SpaceToBatchND", args=[f32(2, 4, 5, 3), data([2, 3]), data([[0, 0], [1, 0]])]),
    case("SpaceToBatchND", args=[f32(2, 7, 4, 3), const([2]), data([[0, 1]])]),
    case("BatchToSpaceND", args=[f32(8, 3, 3, 2), data([2, 2]), data([[1, 0], [1, 2]])]),
    case("BatchToSpaceND", args=[i32(8, 3, 2), const([4]), data([[1, 0]])]),
    to_batch(f32(2, 5, 6, 3), [2, 2], [[1, 0], [1, 1]], dynamic=True),
    to_batch(f32(2, 7, 3), [2], [[1, 2]], dynamic=True),
    to_batch(f32(2, 7), [2], [[0, 1]], dynamic=True),
    to_batch(f32(2, 7, 4, 3), [2], [[0, 1]], dynamic=True),
    to_batch(f32(2, 4, 5, 3, 2), [2, 3], [[0, 0], [1, 0]], dynamic=True),
    to_batch(f32(2, 4, 5, 3), [2, 1], [[0, 0], [0, 0]]),
    to_batch(f32(2, 4, 5, 3), [1, 2], [[0, 0], [0, 1]]),
    to_batch(f32(2, 4, 5, 3), [1, 1], [[0, 0], [0, 0]]),
    to_batch(f32(2, 4, 5, 3), [1, 1], [[1, 0], [0, 2]]),
    to_batch(f32(2, 4, 6, 2, 3), [2, 3, 2], [[0, 0], [1, 2], [0, 0]], dynamic=True),
    to_batch(f32(2, 4, 6), [2, 3], [[0, 0], [0, 0]]),
    to_batch(i32(2, 4, 6, 3), [2, 2], [[0, 0], [1, 1]]),
    to_batch(i64(2, 4, 6, 3), [2, 2], [[0, 0], [1, 1]]),
    to_batch(integers("i8", 2, 4, 6, 3), [2, 2], [[0, 0], [1, 1]]),
    from_batch(f32(12, 2, 3, 2), [2, 3], [[0, 0], [0, 0]], dynamic=True),
    from_batch(f32(8, 3, 3, 2), [2, 2], [[1, 0], [1, 2]], dynamic=True),
    from_batch(f32(4, 3, 2), [2], [[1, 0]]),
    from_batch(f32(4, 3), [2], [[0, 1]]),
    from_batch(f32(4, 3, 4, 3), [2], [[0, 1]]),
    from_batch(f32(6, 3, 4, 3, 2), [2, 3], [[1, 1], [0, 1]], dynamic=True),
    from_batch(f32(4, 3, 4, 3), [1, 2], [[1, 0], [0, 0]]),
    from_batch(f32(4, 3, 4, 3), [1, 1], [[0, 0], [0, 0]]),
    from_batch(f32(16, 3, 2, 2, 3), [2, 2, 2], [[0, 1], [1, 0], [0, 0]], dynamic=True),
    from_batch(i32(8, 3, 3, 2), [2, 2], [[1, 0], [1, 2]]),
    from_batch(integers("u8", 8, 3, 3, 2), [2, 2], [[1, 0], [1, 2]]),
    case("SpaceToBatch", args=[f32(2, 4, 6, 3), const([[0, 0], [1, 1]])], block_size=2, dynamic=True),
    case("BatchToSpace", args=[f32(8, 2, 3, 2), const([[0, 1], [1, 0]])], block_size=2),
    case("DataFormatVecPermute", args=[i32(4)]),
    case("DataFormatVecPermute", args=[i32(4, 2)], src_format="NCHW", dst_format="NHWC"),
    case("DataFormatVecPermute", args=[i64(2)]),
    case("DataFormatVecPermute", args=[i32(5)], src_format="NDHWC", dst_format="NCDHW"),
    case("DataFormatDimMap", args=[i32(7, low=-4, high=4)]),
    case("DataFormatDimMap", args=[i64(2, 3, low=-4, high=4)], src_format="NCHW", dst_format="NHWC"),
    *(
        row
        for dtype in map(DType, "f16 bf16 f64 i16 u16 u32".split())
        for row in (
            case("SpaceToDepth", args=[Operand(dtype, (1, 2, 4, 2), 0, 9)], block_size=2),
            case("DepthToSpace", args=[Operand(dtype, (1, 1, 2, 8), 0, 9)], block_size=2),
            to_batch(Operand(dtype, (2, 3, 4, 2), 0, 9), [2, 2], [[1, 0], [0, 0]]),
            from_batch(Operand(dtype, (4, 2, 2, 2), 0, 9), [2, 2], [[1, 0], [0, 0]]),
        )
    ),
)
