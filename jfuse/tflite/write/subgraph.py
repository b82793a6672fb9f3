"""One graph as a subgraph of a file: one equation, one operator, in order."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.graph import Atom, Eqn, Graph, State, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns, is_last_reader, producers, use_counts
from jfuse.opaque_ops.state_operands import operand_name, state_operands
from jfuse.tflite.intermediates import empty_intermediates
from jfuse.tflite.names import equation_name
from jfuse.tflite.opaque_options import opaque_table
from jfuse.tflite.options import as_stored, to_table
from jfuse.tflite.runtime.versions import version_of
from jfuse.tflite.schema import custom_code, new_options
from jfuse.tflite.write.buffers import Buffers
from jfuse.tflite.write.distinct_outputs import unprepared
from jfuse.tflite.write.tables import FilledTable, Tables, is_lookup
from jfuse.tflite.write.tensors import WrittenTensors

# -1 for the bias of FULLY_CONNECTED runs from version 1 on, two operands need version 6; what operators ask for that
# are kept as they are is theirs to know.
_KEEP_OMITTED = frozenset({"FULLY_CONNECTED", "CUSTOM"})


class WrittenParts(Protocol):
    """The parts that the subgraphs of one file share. `initial`: the subgraph that sets variables' initial values."""

    buffers: Buffers
    tables: Tables
    initial: int | None
    is_foreign: bool

    def operator_code(self, builtin: str, version: int) -> int:
        """The index of an operator code."""

    def body(self, graph: Graph) -> int:
        """The subgraph index of a body."""


@dataclass(frozen=True)
class TensorNames:
    """Names of the tensors of a subgraph, where they are to be others than those of the nodes.

    names: each once. first: inputs, constants and results whose tensors come before the others, in this order.
    """

    names: Mapping[Atom, str] = field(default_factory=dict)
    first: Sequence[Atom] = ()


class SubgraphWriter:
    """One graph as a subgraph: its tensors, operators and names."""

    def __init__(
        self,
        file: WrittenParts,
        graph: Graph,
        *,
        input_names: Sequence[str] = (),
        is_body: bool = False,
        states: Sequence[State] = (),
        in_place: Container[str] = (),
        named: TensorNames | None = None,
    ) -> None:
        copies = [] if file.is_foreign else unprepared(graph, is_body=is_body, states=len(states))
        if copies:
            raise JfuseError(
                f"results {copies} are inputs, constants or repeated",
                where=f"the graph {graph.name}",
                remedy="jfuse.lower(model), which gives each result a tensor of its own",
            )
        self._file = file
        self._graph = graph
        named = self._named = TensorNames() if named is None else named
        self._tensors = WrittenTensors(file.buffers, graph.name, named.names)
        self._producers = producers(graph)
        self._uses = use_counts(graph)
        self._operators: list[Any] = []
        inputs, outputs = len(graph.inputs) - len(states), len(graph.outputs) - len(states)
        for atom in named.first:
            self._tensors.bind(atom, "") if isinstance(atom, Var) else self._tensors.of(atom, "")
        for i, var in enumerate(graph.inputs[:inputs]):
            if var not in self._tensors.places:
                self._tensors.bind(var, input_names[i] if i < len(input_names) else f"{graph.name}/input_{i}")
        self._kept = frozenset(v for v, s in zip(graph.inputs[inputs:], states, strict=True) if s.name in in_place)
        if not is_body and (len(self._kept) < len(states) or any(map(is_lookup, all_eqns(graph)))):
            # In each subgraph: whichever runs first gives the first values.
            self._operators.append(self._plain_operator("CALL_ONCE", [], [], initSubgraphIndex=file.initial))
        self._overwritten = {
            after: var
            for var, after in zip(graph.inputs[inputs:], graph.outputs[outputs:], strict=True)
            if var in self._kept and isinstance(after, Var)
        }
        handles = [self._state(s, v) for s, v in zip(states, graph.inputs[inputs:], strict=True)]
        tables = dict.fromkeys(file.tables.of(eqn) for eqn in graph.eqns if is_lookup(eqn))
        self._table_of = {table.number: self._table(table) for table in tables}
        self._operators += [self._operator(as_stored(eqn)) for eqn in graph.eqns]
        for handle, var, after in zip(handles, graph.inputs[inputs:], graph.outputs[outputs:], strict=True):
            if handle is not None and after is not var:
                operands = [handle, self._tensors.of(after, "")]
                self._operators.append(self._plain_operator("ASSIGN_VARIABLE", operands, []))
        self.inputs = [self._tensors.places[var] for var in graph.inputs[:inputs]]
        self.outputs = [self._tensors.of(atom, "") for atom in graph.outputs[:outputs]]
        for place, atom in zip(self.outputs, graph.outputs, strict=False):
            if atom in named.names:  # also where a state's tensor is the result
                self._tensors.tables[place].name = named.names[atom]

    def finish(self) -> Any:
        """The finished subgraph, as the schema's object `SubGraphT`."""
        table = schema.SubGraphT()
        table.name = self._graph.name
        if self._graph.debug is not None:
            table.debugMetadataIndex = self._graph.debug
        table.tensors = self._tensors.tables
        table.operators = self._operators
        table.inputs = np.array(self.inputs, np.int32)
        table.outputs = np.array(self.outputs, np.int32)
        return table

    def finish_initial(self, variables: Sequence[State], tables: Sequence[FilledTable]) -> Any:
        """The subgraph's table, of the one that gives variables their first values and fills tables."""
        for variable in variables:
            operands = [self._handle(variable), self._tensors.of(variable.initial, f"{variable.name}/initial")]
            self._operators.append(self._plain_operator("ASSIGN_VARIABLE", operands, []))
        for table in tables:
            contents = [self._tensors.of(c, f"table_{table.number}/contents") for c in (table.keys, table.values)]
            self._operators.append(self._plain_operator("HASHTABLE_IMPORT", [self._table(table), *contents], []))
        return self.finish()

    def _state(self, state: State, var: Var) -> int | None:
        """The handle of the variable that holds a state, read if an equation needs it; None for one kept in place."""
        if var in self._kept:
            place = self._tensors.places[var] = self._tensors.add(state.name, var.type)
            self._tensors.tables[place].isVariable = True
            return None
        handle = self._handle(state)
        if self._uses[var]:
            name = self._named.names.get(var, f"{state.name}/read")
            place = self._tensors.places[var] = self._tensors.add(name, var.type)
            self._operators.append(self._plain_operator("READ_VARIABLE", [handle], [place]))
        return handle

    def _handle(self, state: State) -> int:
        handle = self._tensors.add(state.name, TensorType((), DType.resource))
        self._operators.append(self._plain_operator("VAR_HANDLE", [], [handle], sharedName=state.name))
        return handle

    def _table(self, table: FilledTable) -> int:
        handle = self._tensors.add(f"table_{table.number}", TensorType((1,), DType.resource))
        self._operators.append(self._plain_operator("HASHTABLE", [], [handle], **table.options))
        return handle

    def _plain_operator(self, builtin: str, inputs: Sequence[int], outputs: Sequence[int], **options: Any) -> Any:
        """An operator without an equation."""
        table = schema.OperatorT()
        table.opcodeIndex = self._file.operator_code(builtin, 1)
        table.inputs, table.outputs = np.array(inputs, np.int32), np.array(outputs, np.int32)
        _, table.builtinOptionsType, table.builtinOptions = new_options(builtin)
        for name, value in options.items():
            setattr(table.builtinOptions, name, value)
        return table

    def _operator(self, eqn: Eqn) -> Any:
        updates = state_operands(eqn)
        table = schema.OperatorT()
        keep_all = bool(updates) or eqn.op.is_kept or _builtin(eqn) in _KEEP_OMITTED
        table.inputs = np.array(self._operands(eqn, keep_all=keep_all), np.int32)
        for operand, position in updates.items():
            self._update_in_place(eqn, operand, position)
        if updates and not eqn.op.is_kernel:  # nothing else says which operands are its states
            table.mutatingVariableInputs = np.isin(np.arange(len(table.inputs)), list(updates))
        results = [(i, var) for i, var in enumerate(eqn.outputs) if i not in updates.values()]
        name = equation_name(eqn)
        places = [self._result(var, name + (f":{i}" if i else "")) for i, var in results]
        table.outputs = np.array(places, np.int32)
        intermediates = eqn.intermediates or empty_intermediates(eqn)
        if intermediates:
            table.intermediates = self._tensors.intermediates(intermediates, f"{name}/intermediate")
        self._write_options(eqn, table)
        if eqn.debug is not None:
            table.debugMetadataIndex = eqn.debug
        return table

    def _result(self, var: Var, name: str) -> int:
        """The tensor of a result: one of its own, or the state's that it is the new value of."""
        if var not in self._overwritten:
            return self._tensors.places[var] if var in self._tensors.places else self._tensors.bind(var, name)
        place = self._tensors.places[var] = self._tensors.places[self._overwritten[var]]
        return place

    def _write_options(self, eqn: Eqn, table: Any) -> None:
        """The operator's code and options."""
        if eqn.op.code is not None:
            table.opcodeIndex = self._file.operator_code(custom_code(eqn.op.code), eqn.params["version"])
            table.customOptions = np.frombuffer(eqn.params["options"], np.uint8) if eqn.params["options"] else None
            return
        builtin = _builtin(eqn)
        version = version_of(eqn) if eqn.version is None else eqn.version
        table.opcodeIndex = self._file.operator_code(builtin, version)
        bodies = [self._file.body(body) for body in eqn.bodies]
        if eqn.op.is_kept:
            union, number, options = opaque_table(builtin, eqn.params["options"], bodies)
        else:
            union, number, options = to_table(eqn, builtin, bodies)
        if union == 1:
            table.builtinOptionsType, table.builtinOptions = number, options
        else:
            table.builtinOptions2Type, table.builtinOptions2 = number, options

    def _operands(self, eqn: Eqn, *, keep_all: bool) -> list[int]:
        """Tensor indices, -1 for omitted operands.

        Omitted ones at the end are left off, as kernels ask how many operands there are (CONV_2D for its bias).
        Recurrent ops, whose kernels expect a fixed number, and those of `_KEEP_OMITTED` keep them.
        """
        places = [
            -1 if atom is None else self._tensors.of(atom, _operand_name(eqn, i))
            for i, atom in enumerate(eqn.inputs)
            if i > 1 or not is_lookup(eqn)
        ]
        if is_lookup(eqn):
            return [self._table_of[self._file.tables.of(eqn).number], *places]
        while places and places[-1] == -1 and not keep_all:
            places.pop()
        return places

    def _update_in_place(self, eqn: Eqn, operand: int, position: int) -> None:
        """Let the result at `position` live in the tensor of the operand, which the op overwrites."""
        state = eqn.inputs[operand]
        reason = self._why_not_state(eqn, state)
        if reason or not isinstance(state, Var):
            raise LowerError(
                f"the operand {operand_name(eqn, operand)} of {eqn.op.name} cannot be a state that is updated in place",
                where=str(eqn.source) or None,
                expected="a tensor that an equation writes for this op alone",
                found=reason,
                remedy="run the state pass before the export",
            )
        index = self._tensors.places[state]
        self._tensors.tables[index].isVariable = True
        self._tensors.places[eqn.outputs[position]] = index

    def _why_not_state(self, eqn: Eqn, state: Atom | None) -> str:
        if not isinstance(state, Var):
            return "a constant"
        computed_or_given = state in self._producers or state not in self._kept
        if self._file.is_foreign and computed_or_given and is_last_reader(self._graph, eqn, state):
            return ""  # as another program wrote it; a caller gives the input anew for each call
        writer = self._producers.get(state)
        if writer is None:
            if state in self._kept:
                return ""
            return f"an input of {self._graph.name}"
        if writer.outputs.index(state) in state_operands(writer).values():
            return f"the final state of {writer.op.name}"
        if self._uses[state] != 1:
            return f"a tensor that is read in {self._uses[state]} places"
        return ""


def _builtin(eqn: Eqn) -> str:
    return str(eqn.op.builtin)


def _operand_name(eqn: Eqn, index: int) -> str:
    name = eqn.op.operand_at(index).name if eqn.op.operands else "operand"
    return f"{equation_name(eqn)}/{name}"
