"""What each operator of an exported program gives, in one run by PyTorch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.frontends.torch_modules.tensors import array_of
from jfuse.frontends.torch_modules.walker import place_of


def values_of(program: Any, tensors: Sequence[Any]) -> dict[str, tuple[np.ndarray, ...]]:
    """The results of each operator that are all tensors, by its place, for the program's tensors in order."""
    import torch

    found: dict[str, tuple[np.ndarray, ...]] = {}

    class Recording(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            parts = result if isinstance(result, list | tuple) else (result,)
            if node.op == "call_function" and parts and all(isinstance(part, torch.Tensor) for part in parts):
                found[place_of(node)] = tuple(map(array_of, parts))
            return result

    given = iter(tensors)
    held = {**program.state_dict, **program.constants}
    arguments = []
    for spec in program.graph_signature.input_specs:
        if spec.kind.name != "USER_INPUT":
            arguments.append(held[spec.target])
        else:
            arguments.append(next(given) if type(spec.arg).__name__ == "TensorArgument" else spec.arg.value)
    with torch.no_grad():
        Recording(program.graph_module).run(*arguments)
    return found
