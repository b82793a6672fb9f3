"""All rows, by family. A new family adds its line here."""

from __future__ import annotations

from tests.op_cases import activation, array, elementwise, gather, matmul, reduce, slicing
from tests.op_cases.case import Case, Gap

FAMILIES: dict[str, tuple[Case, ...]] = {
    "activation": activation.CASES,
    "array": array.CASES,
    "elementwise": elementwise.CASES,
    "gather": gather.CASES,
    "matmul": matmul.CASES,
    "reduce": reduce.CASES,
    "slicing": slicing.CASES,
}

GAPS: tuple[Gap, ...] = ()
