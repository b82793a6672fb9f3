"""The matrix of recurrent models: every table in one."""

from __future__ import annotations

from tests.models.recurrences import (
    recurrent_keras_lstm,
    recurrent_keras_other,
    recurrent_lingvo,
    recurrent_steps,
    recurrent_tf1,
    recurrent_unknown,
    recurrent_written,
)
from tests.models.recurrences.recurrent_rows import Row

ROWS: tuple[Row, ...] = (
    *recurrent_keras_lstm.ROWS,
    *recurrent_keras_other.ROWS,
    *recurrent_written.ROWS,
    *recurrent_lingvo.ROWS,
    *recurrent_steps.ROWS,
    *recurrent_tf1.ROWS,
    *recurrent_unknown.ROWS,
)
"""All rows; the first of each kind is in the default suite."""


def first_of_each_kind() -> tuple[Row, ...]:
    """One row for each kind of cell or use."""
    found: dict[str, Row] = {}
    for row in ROWS:
        found.setdefault(row.kind, row)
    return tuple(found.values())
