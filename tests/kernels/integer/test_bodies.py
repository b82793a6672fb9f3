"""Integer bodies against LiteRT and tflite-micro, in every bit: drawn shapes, scales and zero points, and extremes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import get_args

import numpy as np
import pytest

from jfuse.kernels.core.integer_types import Rounding
from tests.kernels.integer.oracles import drawn, file_of, in_runtime, on_xla
from tests.kernels.integer.rows import ROWS, Row

_QUICK = frozenset({"ADD", "CONV_2D", "FULLY_CONNECTED", "LSTM", "LSTM in tflite-micro", "QUANTIZE", "SOFTMAX", "SVDF"})


def _cases() -> Iterator[object]:
    """One graph of some ops on the default path, and more in every rounding, which are slow."""
    for name, row in ROWS.items():
        yield pytest.param(row, row.roundings[0], 1, id=name, marks=() if name in _QUICK else pytest.mark.slow)
        for rounding in row.roundings:
            yield pytest.param(row, rounding, row.many, id=f"{name}-{rounding}-many", marks=pytest.mark.slow)


@pytest.mark.parametrize(("row", "rounding", "count"), list(_cases()))
def test_equal_in_every_bit(row: Row, rounding: Rounding, count: int) -> None:
    if rounding == "tflm":
        pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    rng = np.random.default_rng(count)
    for _ in range(count):
        graph = row.draw(rng)
        calls = drawn(rng, graph, row.states)
        wanted = in_runtime(file_of(graph, row.states), rounding, calls)
        found = on_xla(graph, rounding, calls, row.states)
        for call, other in zip(found, wanted, strict=True):
            for a, b in zip(call, other, strict=True):
                np.testing.assert_array_equal(a, b, err_msg=str(graph))


def test_every_rounding_is_tried() -> None:
    assert {r for row in ROWS.values() for r in row.roundings} == set(get_args(Rounding))


@pytest.mark.parametrize(
    ("name", "rounding"), [("LSTM of one step", "tflm"), ("LSTM with a norm", "tflm"), ("SUM", "reference")]
)
def test_what_no_body_computes(name: str, rounding: Rounding) -> None:
    graph = ROWS[name].draw(np.random.default_rng(0))
    assert all(not eqn.op.takes_integers(eqn, rounding) for eqn in graph.eqns)
    assert any(eqn.op.takes_integers(eqn, "xnnpack") for eqn in graph.eqns)
