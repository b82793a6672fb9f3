"""Each layer of Keras by itself, with a dynamic batch: TensorFlow's answers in LiteRT, invoke after invoke."""

from __future__ import annotations

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models.keras_counts import MORE, OFFICIAL
from tests.models.keras_layers import ROWS, Row


@pytest.mark.parametrize(
    ("row", "library"),
    [
        pytest.param(row, library, id=f"{row.id}-{library}", marks=pytest.mark.slow if i or n % 2 else ())
        for n, row in enumerate(ROWS)
        for i, library in enumerate(row.libraries)
    ],
)
def test_layer(row: Row, library: str) -> None:
    lite = jfuse.convert(row.model(library), verify=False)
    check_invokes(lite)
    official = OFFICIAL.get(row.id, {}).get(library)
    if official is not None:
        assert sum(lite.report.operators.values()) <= official + MORE.get(row.id, 0)


def test_ids_are_unique() -> None:
    ids = [row.id for row in ROWS]
    assert sorted(set(ids)) == sorted(ids)
