"""Writing a program of TFLite ops as the bytes of a .tflite file: one equation, one operator, in order."""

from __future__ import annotations

import os
import uuid
from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.errors import JfuseError, LowerError
from jfuse.export.metadata import MIN_RUNTIME_VERSION, min_runtime_bytes
from jfuse.export.names import Names, equation_name
from jfuse.export.options import as_stored, to_table
from jfuse.export.schema import BUILTIN_CODES, TENSOR_TYPES, custom_code, custom_name, is_custom, new_options
from jfuse.export.tables import Table, Tables, is_lookup
from jfuse.export.tensor_data import pack
from jfuse.export.versions import version_of
from jfuse.frontends.tf_opaque import CustomOp
from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, producers, use_counts
from jfuse.kernels.op import TflOp, new_states
from jfuse.passes.legal import builtins_only
from jfuse.passes.outputs import unprepared
from jfuse.passes.states.kept import held_in_place

_IDENTIFIER = b"TFL3"
_SCHEMA_VERSION = 3
_ALIGNMENT = 16  # of constant data; the schema's force_align, which delegates and memory-mapped files rely on
_LARGEST_FILE = 2**31 - 2**20  # bytes; offsets are signed 32-bit, and tables need room beside the constants
# -1 for the bias of FULLY_CONNECTED runs from version 1 on, two operands need version 6; what custom kernels ask for is
# theirs to know.
_KEEP_OMITTED = frozenset({"FULLY_CONNECTED", "CUSTOM"})
_PLACEHOLDER = BUILTIN_CODES["PLACEHOLDER_FOR_GREATER_OP_CODES"]


def to_bytes(program: Program, *, description: str = "jfuse") -> bytes:
    """The .tflite file of a program; equal programs give equal bytes.

    Every equation must be of a builtin op, and `prepare_outputs` must have run on every graph.
    """
    builtins_only(program.graphs())
    return _Writer().program(program, description)


def write_atomic(path: str | os.PathLike[str], data: bytes) -> None:
    """Write a file under a temporary name beside it, then rename."""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise JfuseError("the file cannot be written", where=str(target), found=error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


class _Writer:
    """What the subgraphs of one file share: buffers, operator codes, and the index of each body."""

    def __init__(self) -> None:
        self.buffers: list[Any] = [schema.BufferT()]  # the first one is empty: tensors without data name it
        self.size = 0
        self._buffer_of: dict[str, int] = {}
        self._code_of: dict[tuple[str, int], int] = {}
        self._subgraphs: list[Any] = []
        self._index_of: dict[int, int] = {}
        self.initial: int | None = None  # the subgraph that gives variables their first values, and fills tables
        self.tables = Tables(())

    def program(self, program: Program, description: str) -> bytes:
        """The bytes of the whole file."""
        graphs = program.graphs()
        self._index_of = {id(graph): i for i, graph in enumerate(graphs)}  # entry subgraphs come first
        self._subgraphs = [None] * len(graphs)
        entries: dict[int, tuple[list[int], list[int]]] = {}
        in_place = held_in_place(program)
        self.tables = Tables(graphs)
        self._add_initial(tuple(s for s in program.states() if s.name not in in_place))
        for graph in graphs:
            named = next(s for s in program.signatures if s.graph is graph)
            writer = _SubgraphWriter(self, graph, input_names=named.input_names, states=named.states, in_place=in_place)
            self._subgraphs[self._index_of[id(graph)]] = writer.finish()
            entries[id(graph)] = (writer.inputs, writer.outputs)
        model = schema.ModelT()
        model.version = _SCHEMA_VERSION
        model.description = description
        model.subgraphs = self._subgraphs
        model.operatorCodes = [_operator_code(builtin, version) for builtin, version in self._code_of]
        model.signatureDefs = self._signatures(program.signatures, entries)
        oldest = min_runtime_bytes(code for code in self._code_of if not is_custom(code[0]))
        model.metadata = [schema.MetadataT(MIN_RUNTIME_VERSION, self._add_buffer(oldest))]
        model.buffers = self.buffers
        return self._finish(model)

    def _add_initial(self, variables: Sequence[State]) -> None:
        """Add the subgraph that gives variables their first values and fills tables, where there are any."""
        tables = self.tables.all()
        if variables or tables:
            self.initial = len(self._subgraphs)
            writer = _SubgraphWriter(self, Graph("initial_states", (), (), ()))
            self._subgraphs.append(writer.finish_initial(variables, tables))

    def constant_buffer(self, const: Const) -> int:
        """The buffer that holds a constant; equal constants share one."""
        if const.type.size == 0 and const.array.dtype != object:
            return 0  # no bytes: the runtime cannot tell such a constant from other tensors
        found = self._buffer_of.get(const.digest)
        if found is None:
            self._reserve(const.array.nbytes)  # before `pack`, which may copy
            found = self._buffer_of[const.digest] = self._add_buffer(pack(const.array, const.type.dtype))
        return found

    def operator_code(self, builtin: str, version: int) -> int:
        """The index of an operator code.   builtin: its name, or `custom_code(…)`"""
        return self._code_of.setdefault((builtin, version), len(self._code_of))

    def body(self, graph: Graph) -> int:
        """The subgraph index of a body; equations that share a graph share its subgraph."""
        if id(graph) not in self._index_of:
            self._index_of[id(graph)] = len(self._subgraphs)
            self._subgraphs.append(None)
            self._subgraphs[self._index_of[id(graph)]] = _SubgraphWriter(self, graph, is_body=True).finish()
        return self._index_of[id(graph)]

    def _add_buffer(self, data: np.ndarray) -> int:
        self._reserve(data.size)
        self.size += data.size + _ALIGNMENT
        self.buffers.append(_AlignedBuffer(data))
        return len(self.buffers) - 1

    def _reserve(self, size: int) -> None:
        if self.size + size > _LARGEST_FILE:
            raise LowerError(
                "the constants do not fit into one file",
                expected="less than 2 GiB in all",
                remedy="convert parts of the model, or store weights in a narrower type",
            )

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

    def _finish(self, model: Any) -> bytes:
        # The builder grows by doubling and copying, so it starts with room for all constants and for the tables.
        builder = flatbuffers.Builder(min(self.size + 2**16, _LARGEST_FILE))
        builder.Finish(model.Pack(builder), _IDENTIFIER)
        return bytes(memoryview(builder.Bytes)[builder.Head() :])


class _SubgraphWriter:
    """One graph as a subgraph: its tensors, operators and names."""

    def __init__(
        self,
        file: _Writer,
        graph: Graph,
        *,
        input_names: Sequence[str] = (),
        is_body: bool = False,
        states: Sequence[State] = (),
        in_place: Container[str] = (),
    ) -> None:
        copies = unprepared(graph, is_body=is_body, states=len(states))
        if copies:
            raise JfuseError(
                f"results {copies} of {graph.name} are inputs, constants or repeated",
                remedy="run prepare_outputs on the graph before the export",
            )
        self._file = file
        self._graph = graph
        self._names = Names()
        self._tensors: list[Any] = []
        self._tensor_of: dict[Var, int] = {}
        self._constant_of: dict[str, int] = {}
        self._producers = producers(graph)
        self._uses = use_counts(graph)
        self._operators: list[Any] = []
        inputs, outputs = len(graph.inputs) - len(states), len(graph.outputs) - len(states)
        for i, var in enumerate(graph.inputs[:inputs]):
            name = input_names[i] if i < len(input_names) else var.name or f"{graph.name}/input_{i}"
            self._tensor_of[var] = self._add_tensor(name, var.type)
        self._kept = frozenset(v for v, s in zip(graph.inputs[inputs:], states, strict=True) if s.name in in_place)
        looked_up = [eqn for eqn in all_eqns(graph) if is_lookup(eqn)]
        if not is_body and (looked_up or len(self._kept) < len(states)):
            # In each subgraph: whichever runs first gives the first values.
            self._operators.append(self._plain_operator("CALL_ONCE", [], [], initSubgraphIndex=file.initial))
        handles = [self._state(s, v) for s, v in zip(states, graph.inputs[inputs:], strict=True)]
        tables = dict.fromkeys(file.tables.of(eqn) for eqn in graph.eqns if is_lookup(eqn))
        self._table_of = {table.number: self._table(table) for table in tables}
        self._operators += [self._operator(as_stored(eqn)) for eqn in graph.eqns]
        for handle, var, after in zip(handles, graph.inputs[inputs:], graph.outputs[outputs:], strict=True):
            if handle is not None and after is not var:
                self._operators.append(self._plain_operator("ASSIGN_VARIABLE", [handle, self._tensor(after, "")], []))
        self.inputs = [self._tensor_of[var] for var in graph.inputs[:inputs]]
        self.outputs = [self._tensor(atom, "") for atom in graph.outputs[:outputs]]

    def finish(self) -> Any:
        """The subgraph's table."""
        table = schema.SubGraphT()
        table.name = self._graph.name
        table.tensors = self._tensors
        table.operators = self._operators
        table.inputs = np.array(self.inputs, np.int32)
        table.outputs = np.array(self.outputs, np.int32)
        return table

    def finish_initial(self, variables: Sequence[State], tables: Sequence[Table]) -> Any:
        """The subgraph's table, of the one that gives variables their first values and fills tables."""
        for variable in variables:
            operands = [self._handle(variable), self._tensor(variable.initial, f"{variable.name}/initial")]
            self._operators.append(self._plain_operator("ASSIGN_VARIABLE", operands, []))
        for table in tables:
            contents = [self._tensor(c, f"table_{table.number}/contents") for c in (table.keys, table.values)]
            self._operators.append(self._plain_operator("HASHTABLE_IMPORT", [self._table(table), *contents], []))
        return self.finish()

    def _state(self, state: State, var: Var) -> int | None:
        """The handle of the variable that holds a state, read if an equation needs it; None for one kept in place."""
        if var in self._kept:
            self._tensor_of[var] = self._add_tensor(state.name, var.type)
            return None
        handle = self._handle(state)
        if self._uses[var]:
            self._tensor_of[var] = self._add_tensor(f"{state.name}/read", var.type)
            self._operators.append(self._plain_operator("READ_VARIABLE", [handle], [self._tensor_of[var]]))
        return handle

    def _handle(self, state: State) -> int:
        handle = self._add_tensor(state.name, TensorType((), DType.resource))
        self._operators.append(self._plain_operator("VAR_HANDLE", [], [handle], sharedName=state.name))
        return handle

    def _table(self, table: Table) -> int:
        handle = self._add_tensor(f"table_{table.number}", TensorType((1,), DType.resource))
        self._operators.append(self._plain_operator("HASHTABLE", [], [handle], **table.options))
        return handle

    def _plain_operator(self, builtin: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> Any:
        """An operator that stands for no equation."""
        table = schema.OperatorT()
        table.opcodeIndex = self._file.operator_code(builtin, 1)
        table.inputs, table.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        _, table.builtinOptionsType, table.builtinOptions = new_options(builtin)
        for name, value in options.items():
            setattr(table.builtinOptions, name, value)
        return table

    def _operator(self, eqn: Eqn) -> Any:
        builtin = str(getattr(eqn.op, "builtin", None))
        updates = new_states(eqn)
        table = schema.OperatorT()
        if isinstance(eqn.op, CustomOp):
            table.opcodeIndex = self._file.operator_code(custom_code(eqn.op.code), eqn.params["version"])
            table.customOptions = np.frombuffer(eqn.params["options"], np.uint8) if eqn.params["options"] else None
        else:
            table.opcodeIndex = self._file.operator_code(builtin, version_of(eqn))
        table.inputs = np.array(self._operands(eqn, keep_all=bool(updates) or builtin in _KEEP_OMITTED), np.int32)
        for operand, position in updates.items():
            self._update_in_place(eqn, operand, position)
        results = [(i, var) for i, var in enumerate(eqn.outputs) if i not in updates.values()]
        for i, var in results:
            self._tensor_of[var] = self._add_tensor(equation_name(eqn) + (f":{i}" if i else ""), var.type)
        table.outputs = np.array([self._tensor_of[var] for _, var in results], np.int32)
        if isinstance(eqn.op, CustomOp):
            return table
        union, number, options = to_table(eqn, builtin, [self._file.body(body) for body in eqn.bodies])
        if union == 1:
            table.builtinOptionsType, table.builtinOptions = number, options
        else:
            table.builtinOptions2Type, table.builtinOptions2 = number, options
        return table

    def _operands(self, eqn: Eqn, *, keep_all: bool) -> list[int]:
        """Tensor indices, -1 for omitted operands.

        Omitted ones at the end are left off, as kernels ask how many operands there are (CONV_2D for its bias), except
        for recurrent ops, whose operands are told by their fixed number, and for those of `_KEEP_OMITTED`.
        """
        places = [
            -1 if atom is None else self._tensor(atom, _operand_name(eqn, i))
            for i, atom in enumerate(eqn.inputs)
            if i > 1 or not is_lookup(eqn)
        ]
        if is_lookup(eqn):
            return [self._table_of[self._file.tables.of(eqn).number], *places]
        while places and places[-1] == -1 and not keep_all:
            places.pop()
        return places

    def _tensor(self, atom: Atom, name: str) -> int:
        if isinstance(atom, Var):
            if atom not in self._tensor_of:
                raise JfuseError("a variable is read before it is bound", where=self._graph.name, found=repr(atom))
            return self._tensor_of[atom]
        found = self._constant_of.get(atom.digest)
        if found is None:
            found = self._add_tensor(atom.name or name, atom.type, self._file.constant_buffer(atom))
            self._constant_of[atom.digest] = found
        return found

    def _add_tensor(self, name: str, tensor_type: TensorType, buffer: int = 0) -> int:
        table = schema.TensorT()
        table.name = self._names.unique(name)
        table.type = TENSOR_TYPES[tensor_type.dtype]
        table.buffer = buffer
        table.hasRank = True
        table.shape = np.array([d if is_known(d) else 1 for d in tensor_type.shape], np.int32)
        if not tensor_type.is_static:
            table.shapeSignature = np.array([d if is_known(d) else -1 for d in tensor_type.shape], np.int32)
        table.quantization = _quantization(tensor_type)
        self._tensors.append(table)
        return len(self._tensors) - 1

    def _update_in_place(self, eqn: Eqn, operand: str, position: int) -> None:
        """Let the result at `position` live in the tensor of the operand, which the op overwrites."""
        assert isinstance(eqn.op, TflOp), "only builtins keep states"
        state = eqn.inputs[eqn.op.operand_index(operand)]
        reason = self._why_not_state(state)
        if reason or not isinstance(state, Var):
            raise LowerError(
                f"the operand {operand} of {eqn.op.name} cannot be a state that is updated in place",
                where=str(eqn.source) or None,
                expected="a tensor that an equation writes for this op alone",
                found=reason,
                remedy="run the state pass before the export",
            )
        index = self._tensor_of[state]
        self._tensors[index].isVariable = True
        self._tensor_of[eqn.outputs[position]] = index

    def _why_not_state(self, state: Atom | None) -> str:
        if not isinstance(state, Var):
            return "a constant"
        writer = self._producers.get(state)
        if writer is None:
            if state in self._kept:
                return ""
            return f"an input of {self._graph.name}"
        if writer.outputs.index(state) in new_states(writer).values():
            return f"the final state of {writer.op.name}"
        if self._uses[state] != 1:
            return f"a tensor that is read in {self._uses[state]} places"
        return ""


class _AlignedBuffer(schema.BufferT):  # type: ignore[misc]
    """A buffer whose data starts at a multiple of 16 bytes. The generated `Pack` ignores the schema's force_align."""

    def __init__(self, data: np.ndarray) -> None:
        super().__init__()
        self.data = data

    def Pack(self, builder: Any) -> Any:
        """Write the data and the table that points to it."""
        builder.StartVector(1, self.data.size, _ALIGNMENT)
        head = builder.head - self.data.size
        builder.head = head
        builder.Bytes[head : head + self.data.size] = self.data.data
        data = builder.EndVector()
        schema.BufferStart(builder)
        schema.BufferAddData(builder, data)
        return schema.BufferEnd(builder)


def _operator_code(builtin: str, version: int) -> Any:
    table = schema.OperatorCodeT()
    code = BUILTIN_CODES[builtin.partition(" ")[0]]
    table.customCode = custom_name(builtin)
    table.builtinCode = code
    table.deprecatedBuiltinCode = min(code, _PLACEHOLDER)  # the only field that runtimes before 2.4 read
    table.version = version
    return table


def _operand_name(eqn: Eqn, index: int) -> str:
    declared = getattr(eqn.op, "operands", ())
    name = declared[min(index, len(declared) - 1)].name if declared else "operand"
    return f"{equation_name(eqn)}/{name}"


def _tensor_maps(signature: Signature, names: Sequence[str], tensors: Sequence[int]) -> list[Any]:
    if len(names) != len(tensors) or len(set(names)) != len(names):
        raise LowerError(
            f"signature {signature.key!r} needs one name for each input and output",
            expected=len(tensors),
            found=list(names),
        )
    return [schema.TensorMapT(name, index) for name, index in zip(names, tensors, strict=True)]


def _quantization(tensor_type: TensorType) -> Any:
    table = schema.QuantizationParametersT()  # empty for float tensors: readers of every age take it
    if tensor_type.quantization is not None:
        table.scale = np.array(tensor_type.quantization.scale, np.float32)
        table.zeroPoint = np.array(tensor_type.quantization.zero_point, np.int64)
        table.quantizedDimension = tensor_type.quantization.axis
    return table
