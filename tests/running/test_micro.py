"""The arena that is told is the one that a program needs: tflite-micro's interpreter in an array of that size."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from jfuse.running.micro import has_micro, measured_arena
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

RUN = """
import sys, numpy as np
from tflite_micro.python.tflite_micro import runtime
found = runtime.Interpreter.from_bytes(open(sys.argv[1], "rb").read(), arena_size=int(sys.argv[2]))
for _ in range(3):
    details = found.get_input_details(0)
    found.set_input(np.zeros(details["shape"], details["dtype"]), 0)
    found.invoke()
"""


def of_many_small(x: Any) -> Any:
    """Many operators on few numbers: planning takes more memory than what stays."""
    for i in range(20):
        x = ops.add(ops.tanh(x), np.full((1, 4), i, np.float32))
    return x


def of_few_large(x: Any) -> Any:
    """Two operators on many numbers, which stay."""
    return ops.tanh(ops.neg(x))


@pytest.mark.skipif(not has_micro(), reason="the wheel is for Python 3.11 alone")
@pytest.mark.parametrize(("function", "size"), [(of_many_small, 4), (of_few_large, 500)])
def test_the_interpreter_runs_in_the_arena_and_not_in_less(
    function: Callable[[Any], Any], size: int, tmp_path: Path
) -> None:
    of = program(function, f32(1, size))
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(of))
    arena, note = measured_arena(of, path.read_bytes())
    assert arena is not None, note
    assert arena.needed % 16 == 0
    assert arena.on_32_bits < arena.needed

    def ends_with(size: int) -> int:
        command = [sys.executable, "-c", RUN, str(path), str(size)]
        return subprocess.run(command, capture_output=True, check=False, timeout=60).returncode

    assert ends_with(arena.needed) == 0
    assert ends_with(arena.needed - 64) != 0
