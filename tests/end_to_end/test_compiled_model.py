"""Files for CompiledModel: it loads them, and answers like TensorFlow in call after call, as Interpreter does."""

from __future__ import annotations

from pathlib import Path

import pytest

import jfuse
from jfuse.tflite.targets.compiled_model import why_not_loaded
from tests.end_to_end.invokes import TOLERANCE, check_invokes
from tests.models.recurrences.recurrent import first_of_each_kind
from tests.models.recurrences.recurrent_rows import Row
from tests.slow import slow_but

QUICK = ("keras-lstm", "keras-gru")
ROWS = first_of_each_kind()
BASIC = {"lstm": "basic_lstm"}


@pytest.mark.parametrize("row", slow_but(lambda row: row.name in QUICK, ROWS), ids=str)
def test_each_kind_of_recurrence(row: Row, tmp_path: Path) -> None:
    source = row.build(tmp_path)
    lite = jfuse.convert(source, verify=False, **row.options, target="compiled-model")
    assert why_not_loaded(lite.program) == []
    check_invokes(lite, row.draw, row.tolerance or TOLERANCE, reset=row.options.get("state") == "reset", compiled=True)
