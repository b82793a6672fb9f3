"""Files without signatures, as old converters write them: given one, so that they can be called by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

from jfuse.ir.graph import Program

_IN_FILE = 1  # Buffer.offset above this tells that the data lies behind the flatbuffer, where nothing may be moved


def with_signature(data: bytes, program: Program) -> bytes:
    """The file with a signature for its first subgraph, the program's; as it is where it has signatures.

    program: what the file was read as. Everything else stays as it is.
    """
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    if model.signatureDefs or any(buffer.offset > _IN_FILE for buffer in model.buffers):
        return data
    (signature,) = program.signatures
    table = schema.SignatureDefT()
    table.signatureKey, table.subgraphIndex = signature.key, 0
    table.inputs = _maps(signature.input_names, model.subgraphs[0].inputs)
    table.outputs = _maps(signature.output_names, model.subgraphs[0].outputs)
    model.signatureDefs = [table]
    builder = flatbuffers.Builder(len(data) + 2**16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def _maps(names: Sequence[str], tensors: Sequence[int]) -> list[Any]:
    return [schema.TensorMapT(name, int(tensor)) for name, tensor in zip(names, tensors, strict=True)]
