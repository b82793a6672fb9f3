"""One subgraph of a .tflite file: what its tensors hold, and its operators recorded as equations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np

from jfuse.base.errors import BadFlatbuffer, JfuseError, LowerError, TypeMismatch
from jfuse.ir.dims import SymbolNames, is_known
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, at_source
from jfuse.ir.types import DType, TensorType
from jfuse.opaque_ops.state_operands import operand_name, state_operands
from jfuse.opaque_ops.tf_op import CustomOp
from jfuse.tflite.intermediates import without_empty
from jfuse.tflite.names import source_of
from jfuse.tflite.read.buffers import ReadBuffers
from jfuse.tflite.read.fields import options_of, text
from jfuse.tflite.read.metadata import debug_index
from jfuse.tflite.read.operators import Results, equation, opaque, state_types
from jfuse.tflite.read.states import ON_VARIABLES, StateNames, SubgraphStates, updated_states
from jfuse.tflite.read.tables import ON_TABLES, Contents, lookup_operands
from jfuse.tflite.read.tensors import ReadTensors
from jfuse.tflite.runtime.versions import own_version
from jfuse.tflite.schema import is_custom

# Variables and tables of a .tflite file where they stay resources: operators with an effect, in the file's order.
# So are files read in which a variable is used within a loop or a branch, or begins with a value that is computed.

ON_RESOURCES = ON_VARIABLES | ON_TABLES | {"HASHTABLE_FIND", "HASHTABLE_SIZE"}
"""Builtins that make, read or change a resource."""

_EFFECT = "resources"
_HANDLES = frozenset({"VAR_HANDLE", "HASHTABLE"})


def effects_of(eqn: Eqn) -> tuple[str, ...]:
    """The effect of an equation that works on resources, or one of whose bodies does."""
    builtin = eqn.op.builtin
    works = builtin in ON_RESOURCES - _HANDLES
    return (_EFFECT,) if works or any(inner.effects for body in eqn.bodies for inner in body.eqns) else ()


class ReadParts(Protocol):
    """The parts that the subgraphs of one file share. `resources`: variables and tables stay resources."""

    resources: bool
    names: SymbolNames
    subgraphs: Sequence[Any]
    buffers: ReadBuffers
    is_foreign: bool

    @property
    def state_names(self) -> StateNames:
        """The variables of the file, by the name that all subgraphs share."""

    @property
    def tables(self) -> Mapping[int, Contents]:
        """The contents of the file's tables, by their number."""

    def builtin(self, operator: Any, where: str | None = None) -> str:
        """The name of an operator's builtin."""

    def code(self, operator: Any, where: str | None = None) -> Any:
        """The table of an operator's code."""

    def body(self, index: int, types: Sequence[TensorType] | None) -> Graph:
        """A subgraph as the body of an equation with operands of these types."""


class Subgraph:
    """One subgraph, read in the active trace."""

    def __init__(self, file: ReadParts, index: int) -> None:
        table = file.subgraphs[index]
        self.index = index
        self.where = f"subgraph {index}"
        self.graph_name = text(table.name, self.where) or f"subgraph_{index}"
        self.operators: Sequence[Any] = table.operators or ()
        self.tensors = ReadTensors(table.tensors or (), file.buffers, self.where)
        self.inputs = self.tensors.places(table.inputs)
        self.outputs = self.tensors.places(table.outputs)
        self.debug = debug_index(table, self.where)
        self._file = file
        self._bound: dict[int, Atom] = {}
        self._unwritten: set[int] = set()  # state tensors that hold by now what the call before left in them
        self.held = SubgraphStates(self)
        if len(set(self.inputs)) != len(self.inputs):
            raise BadFlatbuffer("an input is listed twice", where=self.where)

    def calls(self) -> Iterator[tuple[str, Any]]:
        """The operators with the names of their builtins."""
        return ((self._file.builtin(operator), operator) for operator in self.operators)

    def state_name(self, index: int) -> str:
        """A name for a state tensor, which no other state of the file has."""
        name = source_of(self.tensors.name(index)).node or f"state_{self.index}_{index}"
        return self._file.state_names.unique(name, (self.index, index))

    @property
    def is_foreign(self) -> bool:
        """Whether another program wrote the file."""
        return self._file.is_foreign

    def input_types(self) -> list[TensorType]:
        """The stated types of the inputs."""
        return [self._type(index) for index in self.inputs]

    def variables(self, types: Sequence[TensorType]) -> list[Var]:
        """The inputs, of types that may say more of their sizes than the file does."""
        inputs = []
        for index, stated in zip(self.inputs, types, strict=True):
            own = self.tensors.element(index)
            self.tensors.compare(index, stated, stated=own.quantization is not None or stated.quantization is not None)
            stated = replace(stated, quantization=own.quantization, holds=own.holds)
            inputs.append(Var(stated, self.tensors.name(index)))
        return inputs

    def record(self, *variables: Var) -> tuple[Atom | None, ...]:
        """Record all operators in the active trace; the results, then what the states hold after them."""
        count = len(self.inputs)
        self._unwritten = set(self.held.kept)
        self._bound = {**dict(zip(self.inputs, variables[:count], strict=True)), **self.held.start(variables[count:])}
        for number, operator in enumerate(self.operators):
            self._record(operator, f"{self.where} operator {number}")
        return (*(self.read(index) for index in self.outputs), *self.held.after(self._bound))

    def _record(self, operator: Any, where: str) -> None:
        builtin = self._file.builtin(operator, where)
        where = f"{where} ({builtin})"
        if not self._file.resources and builtin in ON_VARIABLES:
            self._bound |= self.held.record(builtin, operator, where)
            return
        if not self._file.resources and builtin in ON_TABLES:
            return
        outputs = self.tensors.places(operator.outputs)
        if builtin == "DEQUANTIZE" and outputs and outputs[0] in self.held.once:
            return  # the first value of a state
        operands = self._operands(builtin, operator)
        if not set(self.tensors.places(operator.inputs, optional=True)).isdisjoint(outputs):
            raise BadFlatbuffer("an operator has an operand for its result", where=where)  # LiteRT refuses it as well
        trace = active_trace()
        count = len(trace.eqns)
        try:
            with at_source(source_of(self.tensors.name(outputs[0])) if outputs else source_of(";")):
                results = self._results(operator, outputs)
                if is_custom(builtin):
                    self._custom(operator, operands, results)
                elif self._file.resources and builtin in ON_RESOURCES:
                    opaque(builtin, options_of(builtin, operator), operands, results, self._file.body)
                else:
                    equation(builtin, operator, operands, results, self._file.body)
        except TypeMismatch as error:
            raise BadFlatbuffer(
                error.message, where=where, expected=error.expected, found=error.found, context=error.context
            ) from error
        except JfuseError as error:
            error.where = where if error.where is None else f"{where}, {error.where}"
            raise
        except Exception as error:  # whatever a check missed: a corrupt option can make anything of a kernel
            message = f"{type(error).__name__}: {error}"
            raise BadFlatbuffer("an operator cannot be read", where=where, found=message) from error
        assert len(trace.eqns) == count + 1, "one operator is one equation"
        self._keep(operator, outputs, where)

    def _results(self, operator: Any, outputs: Sequence[int]) -> Results:
        tensors = self.tensors
        return Results(
            len(outputs),
            lambda i: tensors.element(outputs[i]),
            lambda i: self._result_type(outputs[i]),
            lambda i, derived, stated: tensors.compare(outputs[i], derived, stated=stated),
            any(tensors.quantization(i) is not None for i in outputs),
            updated_states(tensors, operator),
        )

    def _type(self, index: int) -> TensorType:
        """The stated type of a tensor: each open dimension is a symbol of its own, B for axis 0 and N for others."""
        return self.tensors.type(index, self._file.names)

    def _result_type(self, index: int) -> TensorType:
        """As `_type`; where the file says no rank, it may have any."""
        type_ = self._type(index)
        return type_ if self.tensors.has_rank(index) else replace(type_, ranked=False)

    def _operands(self, builtin: str, operator: Any) -> list[Atom | None]:
        if builtin == "HASHTABLE_FIND" and not self._file.resources:
            return lookup_operands(self, self._file.tables, operator)
        return [None if i == -1 else self.read(i) for i in self.tensors.places(operator.inputs, optional=True)]

    def _custom(self, operator: Any, operands: list[Atom | None], results: Results) -> None:
        code = self._file.code(operator)
        record_custom(text(code.customCode), code.version, operator, operands, results, self._file.buffers)

    def _keep(self, operator: Any, outputs: Sequence[int], where: str) -> None:
        """Keep what the file says of an operator besides, and bind its results."""
        trace = active_trace()
        (eqn,) = trace.take_back(len(trace.eqns) - 1)
        updates = state_operands(eqn)
        plain = [i for i in range(len(eqn.outputs)) if i not in updates.values()]
        if len(plain) != len(outputs):
            raise BadFlatbuffer(
                "an operator has another number of outputs", where=where, expected=len(plain), found=len(outputs)
            )
        names = {position: self.tensors.name(index) for position, index in zip(plain, outputs, strict=True)}
        stated = [Var(self._type(i), self.tensors.name(i)) for i in self.tensors.places(operator.intermediates)]
        intermediates = without_empty(eqn, stated)
        results = tuple(Var(v.type, names.get(i), v.value) for i, v in enumerate(eqn.outputs))
        effects = () if not self._file.resources else effects_of(eqn)
        debug = debug_index(operator, where)
        eqn = replace(eqn, outputs=results, intermediates=intermediates, effects=effects, debug=debug)
        version = self._file.code(operator).version
        same = eqn.op.code is not None or own_version(eqn) == version
        eqn = eqn if same else replace(eqn, version=version)
        trace.record(eqn)
        self._bind(eqn, operator, dict(zip(plain, outputs, strict=True)), where)

    def _bind(self, eqn: Eqn, operator: Any, outputs: dict[int, int], where: str) -> None:
        """Bind the results to the operator's outputs, and new states to the tensors that they overwrite."""
        for position, index in outputs.items():
            result = eqn.outputs[position]
            if index in self._bound and index not in self._unwritten:
                raise BadFlatbuffer("a tensor is written twice", where=self.tensors.place(index))
            if index in self._unwritten:
                self._unwritten.remove(index)
                for size, dim in zip(self.tensors.allocated(index), result.type.shape, strict=False):
                    active_trace().equate(dim, size)
            self.tensors.compare(index, result.type, stated=result.type.quantization is not None)
            for stated, dim in zip(self.tensors.declared(index)[0], result.type.shape, strict=False):
                if stated > 0 and not is_known(dim):  # what reads a result may need a size that only the file tells
                    active_trace().equate(dim, stated)
            self._bound[index] = result
        inputs = self.tensors.places(operator.inputs, optional=True)
        for operand, position in state_operands(eqn).items():
            if not self.tensors.is_variable(inputs[operand]):
                raise BadFlatbuffer(f"the state {operand_name(eqn, operand)} is no variable tensor", where=where)
            self._bound[inputs[operand]] = eqn.outputs[position]

    def read(self, index: int) -> Atom:
        """Return the current value of a tensor."""
        if index in self._bound:
            return self._bound[index]
        if self.tensors.is_variable(index):
            raise LowerError(
                "a state is kept from one turn of a loop or branch to the next",
                where=self.tensors.place(index),
                expected="a state that an operator writes before it is read",
            )
        constant = self.tensors.constant(index)
        if constant is None and not self._file.resources and self.tensors.declared(index)[1] is DType.resource:
            where = self.tensors.place(index)
            raise LowerError("a variable or table is an operand", where=where, expected="what it holds")
        if constant is None:
            raise BadFlatbuffer("a tensor is read before it is written", where=self.tensors.place(index))
        return constant


# Custom operators of a .tflite file: kept as they are, options and all, with the types that the file states.


def record_custom(
    name: str,
    version: int,
    operator: Any,
    operands: Sequence[Atom | None],
    results: Results,
    buffers: ReadBuffers,
) -> Sequence[Var]:
    """The results of a custom operator, its new states among them, recorded in the active trace."""
    types = (*results.types(), *state_types(operands, results.updated))
    params = {"options": _options(operator, buffers), "version": version, "updates": results.updated}
    return active_trace().append(CustomOp(name, types), operands, types, params)


def _options(operator: Any, buffers: ReadBuffers) -> bytes:
    start, size = int(operator.largeCustomOptionsOffset), int(operator.largeCustomOptionsSize)
    behind = buffers.behind(start, size, "the options of a custom operator lie")
    data = operator.customOptions if behind is None else behind
    return b"" if data is None else bytes(np.asarray(data, np.uint8))
