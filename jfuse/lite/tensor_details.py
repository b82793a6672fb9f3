"""Tensor details as the official interpreter returns them: name, index, shape, dtype, quantization."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.ir.types import DTYPES, DType
from jfuse.tflite.read.fields import text
from jfuse.tflite.read.flatbuffer_reader import read_root

Details = dict[str, Any]


class FileTensors:
    """The tensors of a file's subgraphs, and which of them each signature names."""

    def __init__(self, data: Any) -> None:
        model = read_root(data, schema.Model)
        self._subgraphs: Sequence[Any] = model.subgraphs or ()
        self._signatures = {text(s.signatureKey): s for s in model.signatureDefs or ()}

    def inputs(self, subgraph: int) -> list[int]:
        """The indices of a subgraph's inputs."""
        return [int(i) for i in self._subgraphs[subgraph].inputs]

    def outputs(self, subgraph: int) -> list[int]:
        """The indices of a subgraph's outputs."""
        return [int(i) for i in self._subgraphs[subgraph].outputs]

    def count(self, subgraph: int) -> int:
        """How many tensors a subgraph has. Raises ValueError for one that the file has not."""
        if subgraph >= len(self._subgraphs):
            raise ValueError(f"Invalid subgraph_index provided: {subgraph}; the file has {len(self._subgraphs)}.")
        return len(self._subgraphs[subgraph].tensors or ())

    def subgraph_of(self, key: str) -> int:
        """The subgraph that a signature names; the first one for a file without signatures."""
        return int(self._signatures[key].subgraphIndex) if key in self._signatures else 0

    def signature_list(self) -> dict[str, dict[str, list[str]]]:
        """The names of each signature's inputs and outputs, in alphabetical order as in the official interpreter."""
        return {
            key: {"inputs": sorted(self.names(key, "inputs")), "outputs": sorted(self.names(key, "outputs"))}
            for key in self._signatures
        }

    def names(self, key: str, side: str) -> dict[str, int]:
        """The tensors of a signature's inputs or outputs, by name."""
        return {text(m.name): int(m.tensorIndex) for m in getattr(self._signatures[key], side) or ()}

    def details(self, subgraph: int, index: int, shape: Sequence[int] | None = None) -> Details:
        """One tensor, as `Interpreter.get_tensor_details` of the official interpreter has it.

        shape: its present sizes; None for those of the file.
        """
        table = self._subgraphs[subgraph].tensors[index]
        stated = np.array([] if table.shape is None else table.shape, np.int32)
        signature = table.shapeSignature
        quantization = table.quantization
        scales = np.array([] if quantization is None or quantization.scale is None else quantization.scale, np.float32)
        zeros = [] if quantization is None or quantization.zeroPoint is None else quantization.zeroPoint
        zero_points = np.array(zeros if len(zeros) or not len(scales) else [0] * len(scales), np.int32)
        is_one = len(scales) == 1
        return {
            "name": text(table.name),
            "index": index,
            "shape": stated if shape is None else np.array(shape, np.int32),
            "shape_signature": stated if signature is None or not len(signature) else np.array(signature, np.int32),
            "dtype": _numpy_type(int(table.type)),
            "quantization": (float(scales[0]), int(zero_points[0])) if is_one else (0.0, 0),
            "quantization_parameters": {
                "scales": scales,
                "zero_points": zero_points,
                "quantized_dimension": 0 if quantization is None else int(quantization.quantizedDimension),
                "block_size": 0,
            },
            "sparsity_parameters": {},
        }


def _numpy_type(code: int) -> type[np.generic]:
    dtype = DTYPES[code]
    return np.bytes_ if dtype is DType.string else dtype.numpy.type
