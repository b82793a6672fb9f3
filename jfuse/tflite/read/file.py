"""Reading a .tflite file as a program: one operator, one equation.

Types are derived anew from the operators and compared with those that the file states.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Protocol

from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer, JfuseError, LowerError
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.dims import SymbolNames
from jfuse.ir.graph import FileFacts, Graph, Program, Signature, State, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import TensorType
from jfuse.kernels import ops as _declared  # noqa: F401 - declares every op, so that `find_op` knows it
from jfuse.tflite.mapped_file import read_file
from jfuse.tflite.metadata import DESCRIPTION
from jfuse.tflite.opaque_options import named_subgraphs
from jfuse.tflite.read.buffers import ReadBuffers
from jfuse.tflite.read.external import ExternalBuffers
from jfuse.tflite.read.fields import checked_index, options_of, text
from jfuse.tflite.read.flatbuffer_reader import read_root
from jfuse.tflite.read.metadata import written_by_others
from jfuse.tflite.read.states import StateNames, SubgraphStates, first_values
from jfuse.tflite.read.subgraph import Subgraph
from jfuse.tflite.read.tables import Contents, filled_tables
from jfuse.tflite.schema import BUILTIN_NAMES, custom_code

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_MOST_PLACES = 10  # in a message
_CUSTOM = schema.BuiltinOperator.CUSTOM


def load_tflite(
    source: bytes | str | os.PathLike[str], *, beside: Path | None = None, limits: Limits = DEFAULT_LIMITS
) -> Program:
    """The program in a .tflite file, given as its bytes or its path. Constants are views of the file.

    Weights in other files are looked for in its folder and below, so such a file must be given as its path.
    beside: the path that the bytes were read from. limits: what it may take.

    Raises BadFlatbuffer where the bytes are no valid file, LowerError where they hold what the IR cannot say.
    """
    is_path = not isinstance(source, bytes)
    path = Path(source) if is_path else beside  # type: ignore[arg-type]
    data, mapped = read_file(path) if is_path and path is not None else (source, None)
    place = "the bytes" if path is None else str(path)
    folder = None if path is None else path.parent
    try:
        model = _unpacked(data, place)
        try:
            program = File(model, data, folder, limits=limits).program()
        except LowerError:  # what a file does with variables and tables is not always said by values
            program = File(model, data, folder, resources=True, limits=limits).program()
    except JfuseError as error:
        error.where = _shortened(f"{place}, {error.where}" if error.where and error.where != place else place)
        raise
    except Exception as error:  # whatever a check missed: a corrupt table can make anything of any field
        raise BadFlatbuffer("the file is corrupt", where=place, found=f"{type(error).__name__}: {error}") from error
    if mapped is None:
        return program
    return replace(program, facts=replace(program.facts, mapped=(*program.facts.mapped, mapped)))


def _unpacked(data: Any, place: str) -> Any:
    """The generated module's objects for all tables; vectors are views of the bytes."""
    if len(data) < 8 or bytes(data[4:8]) != _IDENTIFIER:
        identifier = bytes(data[4:8])
        raise BadFlatbuffer(
            "this is no .tflite file", where=place, expected=f"{_IDENTIFIER!r} at byte 4", found=identifier
        )
    model = read_root(data, schema.Model)
    if model.version != _SCHEMA_VERSION:
        raise BadFlatbuffer("the schema's version differs", where=place, expected=_SCHEMA_VERSION, found=model.version)
    return model


class File:
    """The parts that the subgraphs of one file share: buffers, operator codes, symbol names and the graphs read so far.

    folder: the file's folder, if that is known.
    resources: variables and tables stay resources, and their operators stay opaque ones with an effect.
    """

    def __init__(
        self,
        model: Any,
        data: Any,
        folder: Path | None,
        *,
        resources: bool = False,
        limits: Limits = DEFAULT_LIMITS,
    ) -> None:
        self._limits = limits
        self.resources = resources
        self.names = SymbolNames()
        self._model = model
        self.subgraphs: Sequence[Any] = model.subgraphs or ()
        _need_few(self.subgraphs, limits)
        self._first = _first_places(self.subgraphs)
        self._external = external = ExternalBuffers(
            model.externalBufferGroups or (), model.externalBuffers or (), folder
        )
        self.buffers = ReadBuffers(model.buffers or (), data, external, limits)
        self.is_foreign = text(model.description, "the description") != DESCRIPTION
        self._signatures: Sequence[Any] = model.signatureDefs or ()
        self._codes: Sequence[Any] = model.operatorCodes or ()
        self._entries: dict[int, tuple[Graph, tuple[State, ...]]] = {}
        self._bodies: dict[Any, Graph] = {}
        self._open: list[int] = []

    @cached_property
    def state_names(self) -> StateNames:
        """The variables of the file, by the name that all subgraphs share, as CALL_ONCE makes them."""
        return StateNames({k: v for reader in self._called_once() for k, v in first_values(reader).items()})

    @cached_property
    def tables(self) -> dict[int, Contents]:
        """The contents of the tables of the file, by the number that all subgraphs share, as CALL_ONCE fills them."""
        return {k: v for reader in self._called_once() for k, v in filled_tables(reader).items()}

    def _called_once(self) -> list[Subgraph]:
        operators = [o for table in self.subgraphs for o in table.operators or () if self.builtin(o) == "CALL_ONCE"]
        calls = [named_subgraphs(options_of("CALL_ONCE", operator)) for operator in operators]
        return [self.subgraph(i) for i in dict.fromkeys(chain.from_iterable(calls))]

    def program(self) -> Program:
        """All signatures; a file without any has one for its first subgraph."""
        if not self.subgraphs:
            raise BadFlatbuffer("the file has no subgraph")
        if self._signatures:
            signatures = tuple(signature(self, table) for table in self._signatures)
        else:
            signatures = (unnamed_signature(self, 0, "serving_default"),)
        return Program(signatures, facts=self._facts())

    def _facts(self) -> FileFacts:
        """Read the parts of the file besides its signatures."""
        named = {self._first[i] for i in self._named_by_operators() if 0 <= i < len(self._first)}
        idle = set(self._first) - set(self._entries) - named
        uncalled = tuple(unnamed_signature(self, index, "") for index in sorted(idle))
        order = tuple(sorted(self._entries).index(index) for index in self._entries)
        description, metadata = written_by_others(self._model, self.buffers)
        in_order = list(order) == sorted(order)
        return FileFacts(description, metadata, uncalled, () if in_order else order, self._external.mapped())

    def _named_by_operators(self) -> set[int]:
        """The subgraphs that an operator of any subgraph names."""
        operators = (operator for table in self.subgraphs for operator in table.operators or ())
        tables = (table for o in operators for table in (o.builtinOptions, o.builtinOptions2))
        return {index for table in tables for index in named_subgraphs(table)}

    def builtin(self, operator: Any, where: str | None = None) -> str:
        """The name of an operator's builtin."""
        code = self.code(operator, where)
        number = max(
            code.builtinCode, code.deprecatedBuiltinCode
        )  # readers take the larger one, old files have the second
        if number not in BUILTIN_NAMES:
            raise BadFlatbuffer("an operator code is none of the schema's", where=where, found=number)
        return BUILTIN_NAMES[number] if number != _CUSTOM else custom_code(text(code.customCode))

    def code(self, operator: Any, where: str | None = None) -> Any:
        """The table of an operator's code."""
        return self._codes[checked_index(operator.opcodeIndex, len(self._codes), "operator code", where)]

    def subgraph(self, index: int, where: str | None = None) -> Subgraph:
        """A reader of a subgraph; of the first place of one that the file lists several times."""
        return Subgraph(self, self._first[checked_index(index, len(self.subgraphs), "subgraph", where)])

    def body(self, index: int, types: Sequence[TensorType] | None) -> Graph:
        """A subgraph as the body of an equation with operands of these types; of those that it states for None."""
        reader = self.subgraph(index)
        index = reader.index
        if index in self._open:
            raise BadFlatbuffer("a subgraph calls itself", where=reader.where)
        if len(self._open) > self._limits.nesting:
            raise BadFlatbuffer(
                "loops and branches lie too deep in each other",
                where=reader.where,
                expected=f"at most {self._limits.nesting} levels",
                remedy="limits=jfuse.Limits(nesting=…)",
            )
        types = reader.input_types() if types is None else types
        if len(types) != len(reader.inputs):
            raise BadFlatbuffer(
                "a body takes another number of operands",
                where=reader.where,
                expected=len(types),
                found=len(reader.inputs),
            )
        variables = reader.variables(types)
        # Symbols belong to one entry: equalities that a body states there hold there alone.
        entry = None if all(t.is_static for t in types) else self._open[0]
        key = (index, tuple(types), entry)
        if key not in self._bodies:
            self._bodies[key] = self._traced(reader, variables)
        return self._bodies[key]

    def entry(self, index: int) -> tuple[Graph, tuple[State, ...]]:
        """A subgraph that a signature names, and what it keeps between calls."""
        index = self._first[index]
        if index not in self._entries:
            reader = self.subgraph(index)
            reader.held = SubgraphStates.of(reader, None if self.resources else self.state_names.variables)
            inputs = reader.variables(reader.input_types())
            states = [Var(state.initial.type, state.name) for state in reader.held.states]
            self._entries[index] = (self._traced(reader, [*inputs, *states]), reader.held.states)
        return self._entries[index]

    def _traced(self, reader: Subgraph, variables: Sequence[Var]) -> Graph:
        self._open.append(reader.index)
        try:
            return replace(trace_graph(reader.record, variables, reader.graph_name, self.names), debug=reader.debug)
        finally:
            self._open.pop()


def _shortened(where: str) -> str:
    """A place without its middle, where bodies lie deep in each other."""
    parts = where.split(", ")
    return where if len(parts) <= _MOST_PLACES else ", ".join((*parts[:3], "…", *parts[-3:]))


def _first_places(subgraphs: Sequence[Any]) -> list[int]:
    """For each subgraph where the file lists its table first: one table may stand there many times."""
    places: dict[int, int] = {}
    return [places.setdefault(id(table), number) for number, table in enumerate(subgraphs)]


def _need_few(subgraphs: Sequence[Any], limits: Limits) -> None:
    """Raise BadFlatbuffer where the file has more operators than may be read."""
    distinct = {id(table): table for table in subgraphs}
    count = sum(len(table.operators or ()) for table in distinct.values())
    if count > limits.equations:
        raise BadFlatbuffer(
            "the file has too many operators",
            expected=f"at most {limits.equations:,}",
            found=f"{count:,}",
            remedy="limits=jfuse.Limits(equations=…)",
        )


# The signatures of a .tflite file: the names by which its inputs and outputs are called.


class Entries(Protocol):
    """The subgraphs of a file that signatures name."""

    def subgraph(self, index: int, where: str | None = None) -> Subgraph:
        """The reader of the subgraph with that index.   where: what names it, for an error where there is none"""

    def entry(self, index: int) -> tuple[Graph, tuple[State, ...]]:
        """A subgraph as a graph, and what it keeps between calls."""


def unnamed_signature(file: Entries, index: int, key: str) -> Signature:
    """A signature for a subgraph for which the file has none: by the names of its tensors."""
    reader = file.subgraph(index)
    names = [[reader.tensors.name(i) for i in places] for places in (reader.inputs, reader.outputs)]
    graph, states = file.entry(index)
    return Signature(key, graph, _unique(names[0]), _unique(names[1]), states)


def signature(file: Entries, table: Any) -> Signature:
    """A signature as the program has it, of its table in the file; BadFlatbuffer where names do not fit the tensors."""
    key = text(table.signatureKey)
    where = f"signature {key!r}"
    reader = file.subgraph(int(table.subgraphIndex), where)
    graph, states = file.entry(reader.index)
    inputs = _names_in_order(table.inputs or (), reader.inputs, f"{where}, inputs")
    outputs = _names_in_order(table.outputs or (), reader.outputs, f"{where}, outputs")
    return Signature(key, graph, inputs, outputs, states)


def _names_in_order(maps: Sequence[Any], places: Sequence[int], where: str) -> tuple[str, ...]:
    """The names of the tensors at `places`; the file may list them in any order."""
    names: dict[int, list[str]] = {}
    for entry in maps:
        names.setdefault(int(entry.tensorIndex), []).append(text(entry.name, where))
    if sorted(places) != sorted(index for index, group in names.items() for _ in group):
        raise BadFlatbuffer(
            "a signature does not name each tensor once", where=where, expected=sorted(places), found=sorted(names)
        )
    in_order = tuple(names[place].pop(0) for place in places)
    if len(set(in_order)) != len(in_order):
        raise BadFlatbuffer("two tensors of a signature have one name", where=where, found=in_order)
    return in_order


def _unique(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(name if names.count(name) == 1 and name else f"{name}_{i}" for i, name in enumerate(names))
