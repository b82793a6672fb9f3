"""The rows of tests/op_cases as small files, for what tries operators in other runtimes and compilers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from jfuse.ir.graph import Program
from jfuse.tflite.read.file import load_tflite
from tests.op_cases import FAMILIES
from tests.op_cases.runners import file_of


class RowFile(NamedTuple):
    """A row that TFLite can say: as a program, its file, and its inputs in their order."""

    program: Program
    data: bytes
    inputs: list[np.ndarray]


def row_files() -> Iterator[RowFile]:
    """A file for each row. Rows that TFLite cannot say, as the tests expect of some, are left out."""
    for case in (case for cases in FAMILIES.values() for case in cases):
        try:
            data = file_of(case, dynamic=False)
            program = load_tflite(data)
        except Exception:  # whatever the row is there to show
            continue
        yield RowFile(program, data, list(case.inputs))
