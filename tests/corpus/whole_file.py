"""The oracle: LiteRT on a whole file, with its own kernels for all operators."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from ai_edge_litert.interpreter import Interpreter, OpResolverType


class WholeFile:
    """One interpreter, without delegates unless asked for: what the file keeps from call to call is kept."""

    def __init__(self, data: bytes, *, delegates: bool = False) -> None:
        resolver = OpResolverType.AUTO if delegates else OpResolverType.BUILTIN_WITHOUT_DEFAULT_DELEGATES
        self._interpreter = Interpreter(model_content=data, num_threads=1, experimental_op_resolver_type=resolver)
        self._named = bool(self._interpreter.get_signature_list())

    def run(self, key: str, inputs: Mapping[str, np.ndarray], outputs: Sequence[str]) -> dict[str, np.ndarray]:
        """One call. Where the file has no signatures, inputs and outputs are in the order of the file."""
        if self._named:
            results = self._interpreter.get_signature_runner(key)(**inputs)
            return {name: np.array(value) for name, value in results.items()}
        places = [d["index"] for d in self._interpreter.get_input_details()]
        for place, array in zip(places, inputs.values(), strict=True):
            self._interpreter.resize_tensor_input(place, array.shape)
        self._interpreter.allocate_tensors()
        for place, array in zip(places, inputs.values(), strict=True):
            self._interpreter.set_tensor(place, array)
        self._interpreter.invoke()
        results = [np.array(self._interpreter.get_tensor(d["index"])) for d in self._interpreter.get_output_details()]
        return dict(zip(outputs, results, strict=True))
