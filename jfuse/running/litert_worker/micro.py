"""Files in tflite-micro's interpreter, as the worker process runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tflite_micro.python.tflite_micro import runtime


class Loaded:
    """One file in tflite-micro.   data: u8[n]; arena: its memory in bytes; outputs: how many there are"""

    def __init__(self, begin: Callable[[int], None], data: Any, arena: int, outputs: int) -> None:
        self._data = bytes(data)
        self._interpreter = runtime.Interpreter.from_bytes(self._data, arena_size=arena)
        self._outputs = outputs

    def call(self, inputs: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs of one call, in the file's order; what it keeps goes on to the next."""
        for number, array in enumerate(inputs):
            self._interpreter.set_input(array, number)
        self._interpreter.invoke()
        return [self._interpreter.get_output(number) for number in range(self._outputs)]

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self._interpreter.reset()

    def runs_in(self, arena: int, inputs: list[np.ndarray]) -> bool:
        """Whether a new interpreter in so many bytes answers two calls. Some kernels end the process without memory."""
        try:
            interpreter = runtime.Interpreter.from_bytes(self._data, arena_size=arena)
            for _ in range(2):
                for number, array in enumerate(inputs):
                    interpreter.set_input(array, number)
                interpreter.invoke()
        except (RuntimeError, ValueError):
            return False
        return True

    def tell_arena(self) -> None:
        """Let the interpreter print its own account of its memory to the standard error."""
        self._interpreter.print_allocations()
