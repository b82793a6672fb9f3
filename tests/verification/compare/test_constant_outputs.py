"""Outputs, and places on their axes, that are NaN or the same in all calls are told."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.verification.compare.constant_outputs import ConstantOutputs

GRAPH = trace_graph(lambda x: ops.tanh(x), [TensorType((2,), DType.f32)])
KNOWN = {"k": Signature("k", GRAPH, ("x",), ("y",))}


def numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape).astype(np.float32)


def with_channel(array: np.ndarray, channel: int, value: float) -> np.ndarray:
    changed = array.copy()
    changed[..., channel] = value
    return changed


def notes(calls: Sequence[np.ndarray]) -> list[str]:
    found = ConstantOutputs()
    for array in calls:
        found.learn("k", "y", array)
    return list(found.notes(KNOWN))


SAME = [numbers(2, 8), numbers(2, 8) + 1]
OPEN = [numbers(1, 8), numbers(3, 8), numbers(2, 8)]


@pytest.mark.parametrize("calls", [SAME, OPEN, [numbers(0, 8), numbers(2, 8)], [numbers(2, 8), numbers(0, 8)]])
def test_what_moves_is_not_told(calls: Sequence[np.ndarray]) -> None:
    assert notes(calls) == []


@pytest.mark.parametrize("calls", [SAME, OPEN])
def test_channels_of_nan(calls: Sequence[np.ndarray]) -> None:
    wanted = f"'y' of 'k' is NaN at 1 of 8 places of axis 1 (3) in all {len(calls)} calls that were compared"
    assert notes([with_channel(a, 3, np.nan) for a in calls]) == [wanted]
    assert notes([with_channel(calls[0], 3, np.nan), *calls[1:]]) == []


@pytest.mark.parametrize("calls", [SAME, OPEN])
def test_constant_channels(calls: Sequence[np.ndarray]) -> None:
    wanted = f"'y' of 'k' is the same at 1 of 8 places of axis 1 (0) in all {len(calls)} calls that were compared"
    assert notes([with_channel(a, 0, 2.0) for a in calls]) == [wanted]
    assert notes([with_channel(a, 0, i) for i, a in enumerate(calls)]) == []


def test_constant_steps_that_differ_among_themselves() -> None:
    first = np.concatenate([np.arange(6, dtype=np.float32).reshape(1, 2, 3), numbers(1, 2, 3)], 1)
    second = np.concatenate([first[:, :2], first[:, 2:] + 1], 1)
    assert notes([first, second]) == [
        "'y' of 'k' is the same at 2 of 4 places of axis 1 (0, 1) in all 2 calls that were compared"
    ]


def test_many_places_are_counted() -> None:
    calls = [np.concatenate([np.full((2, 20), np.nan, np.float32), a], 1) for a in SAME]
    assert notes(calls) == [
        "'y' of 'k' is NaN at 20 of 28 places of axis 1 (0, 1, 2, 3, 4, 5, 6, 7, …) in all 2 calls that were compared"
    ]


def test_integers_agree_by_chance() -> None:
    assert notes([np.array([[0, 1], [0, 2]]), np.array([[0, 3], [0, 4]])]) == []
