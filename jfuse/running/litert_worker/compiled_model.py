"""Files in LiteRT's CompiledModel, as the worker process runs them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes  # noqa: F401  before LiteRT, as for its interpreter
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel

Arrays = dict[str, np.ndarray]


class Loaded:
    """One file in CompiledModel, on the CPU with one thread.   data: u8[n]; types: of each signature's outputs by name

    Buffers are written and read as bytes: Python's know fewer element types than the runtime does.
    """

    def __init__(self, begin: Callable[[int], None], data: Any, types: dict[str, dict[str, str]]) -> None:
        self._data, self._types = bytes(data), types
        self._model = CompiledModel.from_buffer(self._data)

    def call(self, key: str, inputs: Arrays) -> Arrays:
        """The outputs of one call of a signature by name; what the file keeps goes on to the next."""
        model, number = self._model, self._model.get_signature_index(key)
        names = model.get_signature_list()[key]
        details = model.get_input_tensor_details(key)
        for place, name in enumerate(names["inputs"]):
            if tuple(details[name]["shape"]) != inputs[name].shape:
                model.resize_input_tensor(place, inputs[name].shape, number)
        before, after = model.create_input_buffers(number), model.create_output_buffers(number)
        for name, buffer in zip(names["inputs"], before, strict=True):
            buffer.write(np.frombuffer(inputs[name].tobytes(), np.int8))
        model.run_by_index(number, before, after)
        details = model.get_output_tensor_details(key)
        return {
            name: _read(buffer, details[name]["shape"], np.dtype(self._types[key][name]))
            for name, buffer in zip(names["outputs"], after, strict=True)
        }

    def reset(self) -> None:
        """Load the file anew, without what it kept from call to call."""
        self._model = CompiledModel.from_buffer(self._data)


def _read(buffer: Any, shape: list[int], dtype: np.dtype[Any]) -> np.ndarray:
    count = int(np.prod(shape)) * dtype.itemsize
    return np.frombuffer(buffer.read(count, np.int8).tobytes(), dtype).reshape(shape)
