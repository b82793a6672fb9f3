"""What is measured of integers on tflite-micro: one wrong answer is enough, whatever else is right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from bench.runtimes import micro_integers
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

pytest.importorskip("tflite_micro", reason="the wheel is for Python 3.11 alone")

TIMES = np.random.default_rng(0).normal(size=(2, 3, 4)).astype(np.float32)


def tried(function: Callable[..., Any], *draws: np.ndarray) -> dict[str, bool]:
    """By quantized types, whether all trials were right.   draws: the input of one after the other"""
    made = program(function, f32(*draws[0].shape))
    found: dict[str, dict[str, bool]] = {}
    for x in draws:
        micro_integers.try_integers(made, to_bytes(made), [x], lambda data, given: True, found)
    return next(iter(found.values()))


def in_this_process(work: Callable[[], bool]) -> bool:
    """What the function returns; no kernel that is tried here ends a process."""
    try:
        return work()
    except RuntimeError:
        return False


@pytest.mark.slow
def test_kernels_that_answer_wrongly_are_told_from_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(micro_integers, "in_a_process", in_this_process)
    monkeypatch.setattr(micro_integers, "FACTORS", (1,))
    small, wide = np.zeros((2, 2, 3), np.float32), np.linspace(-9, 9, 12, dtype=np.float32).reshape(2, 2, 3)
    blocks, paddings = np.array([2, 2], np.int32), np.array([[0, 0], [0, 2]], np.int32)
    images = np.linspace(11, 29, 32, dtype=np.float32).reshape(1, 4, 4, 2)
    into_blocks = tried(lambda x: ops.space_to_batch_nd(x, blocks, paddings), images)
    assert into_blocks == {"i8": False, "i16": False}  # pads with the integer 0; has no such kernel
    assert tried(ops.relu6, small, wide) == {"i8": True, "i16": True}
    assert tried(lambda x: ops.batch_matmul(x, TIMES), wide) == {"i8": True, "i16 by i8": False}  # has no such kernel
