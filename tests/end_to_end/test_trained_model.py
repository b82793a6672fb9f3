"""A model that was trained: what int8 costs it in accuracy, and that XLA tells the classes of each runtime."""

from __future__ import annotations

import pytest

from bench.trained import measure


@pytest.mark.slow
def test_int8_costs_less_than_half_a_point_and_xla_tells_so() -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    found = measure(2000)
    rows = found["rows"]
    floats = rows.pop("float")["accuracy"]
    assert floats > 0.9  # it has learned something
    assert found["agree"] == {"LiteRT": True, "tflite-micro": True}
    assert all(rows[name]["accuracy"] > floats - 0.005 for name in rows if rows[name]["samples"] == 2000)
    assert rows["tflite-micro"]["samples"] == 500
