"""Rows of lowering/ops/linalg/elimination.py."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.op_cases.case import Case, Gap, Operand, case, f32, given

SYMMETRIC = np.array([[4, 1, -1, 0], [1, 5, 2, 1], [-1, 2, 6, 0.5], [0, 1, 0.5, 3]], np.float32)
ROWS_SWAPPED = [[0.0, 2.0, 1.0], [1.0, 0.0, -1.0], [3.0, 1.0, 0.0]]


def pivoted(*shape: int) -> Operand:
    """Matrices that are far from singular, with their large elements beside the diagonal."""
    rng = np.random.default_rng(shape[-1])
    drawn = rng.uniform(-1, 1, shape) + 3 * np.roll(np.eye(shape[-1]), 1, axis=-1)
    return given(drawn.astype(np.float32))


ADJOINT: dict[str, Any] = {"adjoint": True}
SIDES = ((False, False), (False, True), (True, False), (True, True))
TRIANGLES: tuple[dict[str, Any], ...] = tuple({"lower": lower, "adjoint": adjoint} for lower, adjoint in SIDES)


def solved(op: str, x: Operand, *more: Operand, **options: Any) -> Case:
    """One row of a function of matrices, with an open number of them where there are three.

    1e-5: sums of products over which the pivots are divided, in another order than TensorFlow's.
    """
    return case(op, args=[x, *more], tolerance=1e-5, dynamic=x.shape[:1] == (3,) and len(x.shape) > 2, **options)


CASES: tuple[Case, ...] = (
    *(
        solved(op, pivoted(*shape))
        for op in ("MatrixInverse", "MatrixDeterminant")
        for shape in ((1, 1), (2, 2), (3, 4, 4), (2, 2, 5, 5))
    ),
    solved("MatrixInverse", given(ROWS_SWAPPED), **ADJOINT),
    solved("MatrixDeterminant", given(ROWS_SWAPPED)),
    solved("LogMatrixDeterminant", pivoted(3, 4, 4)),
    solved("MatrixSolve", pivoted(3, 4, 4), f32(3, 4, 2)),
    solved("MatrixSolve", pivoted(3, 3), f32(3, 1), **ADJOINT),
    *(solved("MatrixTriangularSolve", pivoted(3, 3, 3), f32(3, 3, 2), **options) for options in TRIANGLES),
    solved("Cholesky", given(np.stack([SYMMETRIC, SYMMETRIC * 2, SYMMETRIC + 1]))),
    solved("Cholesky", given([[4.0]])),
)

GAPS = (Gap("BatchMatrixTriangularSolve", "of graphs before TensorFlow 1.0, which TensorFlow 2 does not run"),)
