"""Writing a program of TFLite ops as the bytes of a .tflite file: one equation, one operator, in order."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from types import MappingProxyType
from typing import Any

import flatbuffers
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import LowerError
from jfuse.ir.graph import FileFacts, Graph, Program, Signature, State
from jfuse.tflite.metadata import BUFFER_LOCATION, DESCRIPTION, MIN_RUNTIME_VERSION, OUTSIDE, min_runtime_bytes
from jfuse.tflite.schema import BUILTIN_CODES, custom_name, is_custom
from jfuse.tflite.write.buffers import MOST_INSIDE, Buffers, Builder, padding
from jfuse.tflite.write.subgraph import SubgraphWriter, TensorNames
from jfuse.tflite.write.tables import Tables

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_ROOM = 2**24  # bytes for the tables before the builder grows by doubling and copying
_PLACEHOLDER = BUILTIN_CODES["PLACEHOLDER_FOR_GREATER_OP_CODES"]


def to_bytes(
    program: Program,
    *,
    most_inside: int = MOST_INSIDE,
    tensor_names: Mapping[str, TensorNames] = MappingProxyType({}),
) -> bytes:
    """The .tflite file of a program; equal programs give equal bytes.

    Every equation must be of a builtin op (the gate `builtins_only`), and `prepare_outputs` must have run on every
    graph, unless the program is another program's file.
    most_inside: bytes of data from which on it lies behind the flatbuffer, which cannot hold more than 2 GiB.
    tensor_names: by signature key; without, inputs are named as in the signature and outputs after their operator.
    """
    return file_parts(program, most_inside=most_inside, tensor_names=tensor_names).joined()


@dataclass(frozen=True)
class FileParts:
    """A file as buffers that follow each other: a large one need not be in memory as a whole.

    size: bytes of all together. made: gives the buffers, from the first to the last, at each call.
    """

    size: int
    made: Callable[[], Iterator[Any]]

    def __iter__(self) -> Iterator[Any]:
        return self.made()

    def joined(self) -> bytes:
        """The whole file."""
        file = io.BytesIO()  # a join would hold all parts at once, and then their copy
        for part in self:
            file.write(part)
        return file.getvalue()


def file_parts(
    program: Program,
    *,
    most_inside: int = MOST_INSIDE,
    tensor_names: Mapping[str, TensorNames] = MappingProxyType({}),
) -> FileParts:
    """The bytes of `to_bytes`, in parts."""
    return FileWriter(tensor_names).program(program, most_inside)


class FileWriter:
    """The parts that the subgraphs of one file share: buffers, operator codes, and the index of each body."""

    def __init__(self, tensor_names: Mapping[str, TensorNames] = MappingProxyType({})) -> None:
        self._tensor_names = tensor_names
        self.buffers = Buffers()
        self._code_of: dict[tuple[str, int], int] = {}
        self._subgraphs: list[Any] = []
        self._index_of: dict[int, int] = {}
        self.initial: int | None = None  # the subgraph that gives variables their first values, and fills tables
        self.is_foreign = False  # results are as another program wrote them
        self.tables = Tables(())

    def program(self, program: Program, most_inside: int = MOST_INSIDE) -> FileParts:
        """The bytes of the whole file, in parts."""
        self.is_foreign = program.facts.description is not None
        graphs = program.in_file_order()
        named = replace(program, signatures=(*program.signatures, *program.facts.uncalled))
        self._index_of = {id(graph): i for i, graph in enumerate(graphs)}  # entry subgraphs come first
        self._subgraphs = [None] * len(graphs)
        entries: dict[int, tuple[list[int], list[int]]] = {}
        in_place = {s.name for s in named.states() if s.home == "tensor"}
        self.tables = Tables(graphs)
        self._add_initial(tuple(s for s in named.states() if s.name not in in_place))
        for graph in graphs:
            first = next(s for s in named.signatures if s.graph is graph)
            writer = SubgraphWriter(
                self,
                graph,
                input_names=first.input_names,
                states=first.states,
                in_place=in_place,
                named=self._tensor_names.get(first.key),
            )
            self._subgraphs[self._index_of[id(graph)]] = writer.finish()
            entries[id(graph)] = (writer.inputs, writer.outputs)
        model = schema.ModelT()
        model.version = _SCHEMA_VERSION
        model.description = DESCRIPTION if program.facts.description is None else program.facts.description
        model.subgraphs = self._subgraphs
        model.operatorCodes = [_operator_code(builtin, version) for builtin, version in self._code_of]
        model.signatureDefs = self._signatures(program.signatures, entries)
        is_inside = self.buffers.size <= most_inside
        model.metadata = self._metadata(program.facts, outside=not is_inside)
        return self._inside(model) if is_inside else self._outside(model)

    def _metadata(self, facts: FileFacts, *, outside: bool) -> list[Any]:
        entries = [(name, data.array) for name, data in facts.metadata]
        oldest = min_runtime_bytes((code for code in self._code_of if not is_custom(code[0])), outside=outside)
        if not self.is_foreign and all(name != MIN_RUNTIME_VERSION for name, _ in entries):
            entries.append((MIN_RUNTIME_VERSION, oldest))
        if outside:
            entries.append((BUFFER_LOCATION, OUTSIDE))
        return [schema.MetadataT(name, self.buffers.add(data)) for name, data in entries]

    def _add_initial(self, variables: Sequence[State]) -> None:
        """Add the subgraph that gives variables their first values and fills tables, where there are any."""
        tables = self.tables.all()
        if variables or tables:
            self.initial = len(self._subgraphs)
            writer = SubgraphWriter(self, Graph("initial_states", (), (), ()))
            self._subgraphs.append(writer.finish_initial(variables, tables))

    def operator_code(self, builtin: str, version: int) -> int:
        """The index of an operator code.   builtin: its name, or `custom_code(…)`"""
        return self._code_of.setdefault((builtin, version), len(self._code_of))

    def body(self, graph: Graph) -> int:
        """The subgraph index of a body; equations that share a graph share its subgraph."""
        if id(graph) not in self._index_of:
            self._index_of[id(graph)] = len(self._subgraphs)
            self._subgraphs.append(None)
            self._subgraphs[self._index_of[id(graph)]] = SubgraphWriter(self, graph, is_body=True).finish()
        return self._index_of[id(graph)]

    def _signatures(
        self, signatures: Sequence[Signature], entries: Mapping[int, tuple[list[int], list[int]]]
    ) -> list[Any]:
        keys = [s.key for s in signatures]
        if len(set(keys)) != len(keys):
            raise LowerError("two signatures have one key", found=keys)
        tables = []
        for signature in signatures:
            inputs, outputs = entries[id(signature.graph)]
            table = schema.SignatureDefT()
            table.signatureKey = signature.key
            table.subgraphIndex = self._index_of[id(signature.graph)]
            table.inputs = _tensor_maps(signature, signature.input_names, inputs)
            table.outputs = _tensor_maps(signature, signature.output_names, outputs)
            tables.append(table)
        return tables

    def _inside(self, model: Any) -> FileParts:
        """The file with all data in the flatbuffer."""
        model.buffers = self.buffers.inside()
        packed = _packed(model, self.buffers.size)
        return FileParts(packed.Offset(), packed.parts)

    def _outside(self, model: Any) -> FileParts:
        """The file with all data behind the flatbuffer, whose length does not depend on where that is."""
        model.buffers = self.buffers.outside(2)
        size = _packed(model).Offset()
        fill = padding(size)
        model.buffers = self.buffers.outside(size + len(fill))
        packed = _packed(model)
        whole = packed.Offset() + len(fill) + self.buffers.size_behind
        return FileParts(whole, lambda: chain(packed.parts(), [fill], self.buffers.parts()))


def _packed(model: Any, data_bytes: int = 0) -> Builder:
    builder = Builder(min(data_bytes + _ROOM, flatbuffers.Builder.MAX_BUFFER_SIZE))
    builder.Finish(model.Pack(builder), _IDENTIFIER)
    return builder


def _operator_code(builtin: str, version: int) -> Any:
    table = schema.OperatorCodeT()
    code = BUILTIN_CODES[builtin.partition(" ")[0]]
    table.customCode = custom_name(builtin)
    table.builtinCode = code
    table.deprecatedBuiltinCode = min(code, _PLACEHOLDER)  # the only field that runtimes before 2.4 read
    table.version = version
    return table


def _tensor_maps(signature: Signature, names: Sequence[str], tensors: Sequence[int]) -> list[Any]:
    if len(names) != len(tensors) or len(set(names)) != len(names):
        raise LowerError(
            f"signature {signature.key!r} needs one name for each input and output",
            expected=len(tensors),
            found=list(names),
        )
    return [schema.TensorMapT(name, index) for name, index in zip(names, tensors, strict=True)]
