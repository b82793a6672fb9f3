"""Rows of lowering/ops/linalg/matrix.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Gap, Operand, boolean, case, const, f32, given, i32, i64, of
from tests.op_cases.every_dtype import MOVED

ZERO = const(np.float32(0))
ALIGNS = ("LEFT_RIGHT", "RIGHT_LEFT", "LEFT_LEFT", "RIGHT_RIGHT")


def band(x: Operand, lower: int, upper: int, **options: Any) -> Case:
    """One row of a band given by constants."""
    return case("MatrixBandPart", args=[x, const(lower), const(upper)], **options)


def diag(x: Operand, k: Any, rows: int = -1, columns: int = -1, padding: float = 0, **options: Any) -> Case:
    """One row of matrices made of diagonals."""
    sizes = [const(v) for v in (k, rows, columns)]
    return case("MatrixDiagV3", args=[x, *sizes, const(np.float32(padding))], **options)


BANDS = (
    band(f32(2, 4, 4), -1, 0, dynamic=True),
    band(f32(3, 5), 1, 2),
    band(f32(3, 3), 0, -1, dynamic=True),
    band(f32(3, 5), -1, -1, dynamic=True),
    band(i32(4, 4), 0, 0),
    band(boolean(4, 3), 1, 0),
    band(given([[np.inf, np.nan], [1, -np.inf]]), 0, 0),
    case("MatrixBandPart", args=[f32(3, 5), const(1, DType.i64), const(-1, DType.i64)]),
    case("MatrixBandPart", args=[f32(3, 5), given(-1, DType.i32), given(1, DType.i32)]),
)

DIAGS = (
    case("MatrixDiag", args=[f32(2, 3)], dynamic=True),
    case("MatrixDiag", args=[i64(3)], dynamic=True),
    case("MatrixDiag", args=[boolean(2, 3)]),
    case("MatrixDiag", args=[of(DType.u8, 3, 2)]),
    *(case("MatrixDiag", args=[of(t, 2, 3)]) for t in MOVED),
    case("Diag", args=[f32(3)]),
    case("Diag", args=[i32(2, 3)]),
    case("DiagPart", args=[f32(3, 3)]),
    case("DiagPart", args=[i32(2, 3, 2, 3)]),
    diag(f32(2, 3), 0, dynamic=True),
    diag(f32(2, 3), 0, padding=7, dynamic=True),
    diag(f32(2, 3), 1, dynamic=True),
    diag(f32(3), -1),
    diag(f32(2, 3), 0, rows=3, columns=5),
    diag(f32(2, 3), 2, rows=4),
    *(diag(f32(2, 3, 4), [-1, 1], padding=9, dynamic=a == "LEFT_LEFT", align=a) for a in ALIGNS),
    *(diag(f32(3, 4), [0, 2], rows=4, columns=6, align=a) for a in ALIGNS),
    case("MatrixDiagV2", args=[f32(3, 4), const([-1, 1]), const(4), const(4), f32()]),
    case("MatrixDiagV2", args=[i32(4), const(0), const(-1), const(-1), const(0)]),
)

PARTS = (
    case("MatrixDiagPart", args=[f32(2, 3, 4)], dynamic=True),
    case("MatrixDiagPart", args=[f32(4, 3)]),
    case("MatrixDiagPart", args=[i64(3, 3)]),
    case("MatrixDiagPart", args=[boolean(3, 3)]),
    case("MatrixDiagPartV3", args=[f32(2, 3, 4), const(0), ZERO], dynamic=True),
    case("MatrixDiagPartV3", args=[f32(2, 3, 4), const(1), ZERO], dynamic=True),
    case("MatrixDiagPartV3", args=[f32(4, 3), const([-2, -2]), f32()]),
    *(
        case("MatrixDiagPartV3", args=[f32(2, 3, 4), const([-2, 1]), ZERO], dynamic=a == "LEFT_LEFT", align=a)
        for a in ALIGNS
    ),
    case("MatrixDiagPartV3", args=[f32(3, 4), const([1, 2]), f32()]),
    case("MatrixDiagPartV2", args=[f32(3, 4), const([-1, 1]), const(np.float32(5))]),
)

SETS = (
    case("MatrixSetDiag", args=[f32(2, 3, 4), f32(2, 3)], dynamic=True),
    case("MatrixSetDiag", args=[f32(2, 4, 3), f32(2, 3)]),
    case("MatrixSetDiag", args=[i64(3, 3), i64(3)]),
    case("MatrixSetDiag", args=[boolean(2, 3, 3), boolean(2, 3)]),
    case("MatrixSetDiagV3", args=[f32(2, 3, 4), f32(2, 3), const(0)]),
    case("MatrixSetDiagV3", args=[f32(2, 3, 4), f32(2, 3), const(1)]),
    *(case("MatrixSetDiagV3", args=[f32(2, 3, 4), f32(2, 3, 3), const([-1, 1])], align=a) for a in ALIGNS),
    case("MatrixSetDiagV2", args=[f32(3, 4), f32(2, 3), const([-1, 0])]),
)

CASES: tuple[Case, ...] = (*BANDS, *DIAGS, *PARTS, *SETS)

GAPS = tuple(
    Gap(op, "of graphs before TensorFlow 1.0, which TensorFlow 2 does not run")
    for op in ("BatchMatrixDiag", "BatchMatrixDiagPart", "BatchMatrixSetDiag")
)
