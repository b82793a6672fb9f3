"""The flatbuffer of the entry TFLITE_METADATA.   Source: tflite-support, metadata_schema.fbs, version 1.1.0"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import flatbuffers
import numpy as np

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Program
from jfuse.tflite.model_metadata import NAME, Metadata, TensorMetadata
from jfuse.tflite.write.flat_table import Field, offsets, table

_IDENTIFIER = b"M001"
_FIRST_PARSER, _WITH_VOCABULARY = "1.0.0", "1.0.1"
_FILE_TYPES = {"labels": 2, "value_labels": 3, "vocabulary": 5}
_CONTENTS = {"feature": 1, "image": 2}
_COLOURS = {"": 0, "rgb": 1, "grayscale": 2}
_NORMALIZATION = 1  # in the union ProcessUnitOptions


def with_metadata(program: Program, metadata: Metadata) -> Program:
    """The program with the entry; one that it has goes. Raises JfuseError for a tensor that no signature has."""
    data = metadata_bytes(program, metadata)
    others = tuple(entry for entry in program.facts.metadata if entry[0] != NAME)
    facts = replace(program.facts, metadata=(*others, (NAME, Const(np.frombuffer(data, np.uint8)))))
    return replace(program, facts=facts)


def metadata_bytes(program: Program, metadata: Metadata) -> bytes:
    """The flatbuffer: a table for each subgraph that a signature names, in the order of the file."""
    _need_known("input", metadata.inputs, [n for s in program.signatures for n in s.input_names])
    _need_known("output", metadata.outputs, [n for s in program.signatures for n in s.output_names])
    writer = _Writer(flatbuffers.Builder(1024))
    graphs = []
    for graph in program.in_file_order():
        named = next((s for s in program.signatures if s.graph is graph), None)
        if named is not None:
            inputs = [writer.tensor(name, metadata.inputs.get(name)) for name in named.input_names]
            outputs = [writer.tensor(name, metadata.outputs.get(name)) for name in named.output_names]
            graphs.append(writer.subgraph(named.key, inputs, outputs))
    return writer.finished(metadata, graphs)


def _need_known(kind: str, given: Mapping[str, TensorMetadata], names: Sequence[str]) -> None:
    if wrong := [name for name in given if name not in names]:
        raise JfuseError(
            f"metadata: no signature has an {kind} {wrong[0]!r}", expected=", ".join(dict.fromkeys(names)) or "none"
        )


class _Writer:
    def __init__(self, builder: flatbuffers.Builder) -> None:
        self._builder = builder

    def finished(self, metadata: Metadata, graphs: Sequence[int]) -> bytes:
        """The bytes of the whole."""
        tensors = (*metadata.inputs.values(), *metadata.outputs.values())
        parser = _WITH_VOCABULARY if any(t.vocabulary is not None for t in tensors) else _FIRST_PARSER
        subgraphs = offsets(self._builder, graphs)
        files = self._files([(Path(path), 0) for path in metadata.files])
        texts = ((0, metadata.name), (1, metadata.description), (2, metadata.version), (4, metadata.author))
        places = [*self._texts((*texts, (5, metadata.license), (7, parser))), (3, "offset", subgraphs), *files]
        self._builder.Finish(table(self._builder, places, 8), _IDENTIFIER)
        return bytes(self._builder.Output())

    def subgraph(self, name: str, inputs: Sequence[int], outputs: Sequence[int]) -> int:
        """The place of a SubGraphMetadata."""
        vectors: list[Field] = [(2 + i, "offset", offsets(self._builder, of)) for i, of in enumerate((inputs, outputs))]
        return table(self._builder, [*self._texts(((0, name),)), *vectors], 7)

    def tensor(self, name: str, known: TensorMetadata | None) -> int:
        """The place of a TensorMetadata."""
        known = known or TensorMetadata()
        fields = self._texts(((0, known.name or name), (1, known.description)))
        if known.dimension_names:
            names = [self._builder.CreateString(text) for text in known.dimension_names]
            fields.append((2, "offset", offsets(self._builder, names)))
        if known.content:
            fields.append((3, "offset", self._content(known)))
        if known.mean:
            fields.append((4, "offset", offsets(self._builder, [self._normalization(known)])))
        if known.minimum or known.maximum:
            vectors = ((0, known.maximum), (1, known.minimum))
            fields.append((5, "offset", table(self._builder, self._floats(vectors), 2)))
        fields += self._files([(path, _FILE_TYPES[kind]) for kind, path in known.files().items()])
        return table(self._builder, fields, 7)

    def _content(self, known: TensorMetadata) -> int:
        colour: list[Field] = [(0, "i8", _COLOURS[known.colour_space])] if known.content == "image" else []
        properties = table(self._builder, colour, 2 if known.content == "image" else 0)
        return table(self._builder, [(0, "u8", _CONTENTS[known.content]), (1, "offset", properties)], 3)

    def _normalization(self, known: TensorMetadata) -> int:
        options = table(self._builder, self._floats(((0, known.mean), (1, known.std))), 2)
        return table(self._builder, [(0, "u8", _NORMALIZATION), (1, "offset", options)], 2)

    def _floats(self, vectors: Sequence[tuple[int, Sequence[float]]]) -> list[Field]:
        return [
            (slot, "offset", int(self._builder.CreateNumpyVector(np.array(values, np.float32))))
            for slot, values in vectors
            if len(values)
        ]

    def _files(self, files: Sequence[tuple[Path, int]]) -> list[Field]:
        """Slot 6 of tensors and of the model: AssociatedFiles."""
        if not files:
            return []
        tables = [table(self._builder, [*self._texts(((0, path.name),)), (2, "i8", kind)], 4) for path, kind in files]
        return [(6, "offset", offsets(self._builder, tables))]

    def _texts(self, texts: Sequence[tuple[int, str]]) -> list[Field]:
        return [(slot, "offset", int(self._builder.CreateString(text))) for slot, text in texts if text]
