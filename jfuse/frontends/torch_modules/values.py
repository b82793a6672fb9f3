"""Record the result of each operator in one run of an exported program by PyTorch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from jfuse.frontends.torch_modules.tensors import array_of
from jfuse.frontends.torch_modules.walker import place_of


def values_of(program: Any, tensors: Mapping[str, Any]) -> dict[str, tuple[np.ndarray, ...]]:
    """The results of each operator that are all tensors, by its place, for the program's tensors by name."""
    import torch

    values_by_node: dict[str, tuple[np.ndarray, ...]] = {}

    class Recording(torch.fx.Interpreter):  # type: ignore[misc]
        def run_node(self, node: Any) -> Any:
            result = super().run_node(node)
            parts = result if isinstance(result, list | tuple) else (result,)
            if node.op == "call_function" and parts and all(isinstance(part, torch.Tensor) for part in parts):
                values_by_node[place_of(node)] = tuple(map(array_of, parts))
            return result

    held = {**program.state_dict, **program.constants}
    arguments = []
    for spec in program.graph_signature.input_specs:
        if spec.arg.name in tensors:
            arguments.append(tensors[spec.arg.name])
        else:
            arguments.append(spec.arg.value if spec.kind.name == "USER_INPUT" else held[spec.target])
    with torch.no_grad():
        Recording(program.graph_module).run(*arguments)
    return values_by_node
