"""Reads the states of a .tflite file: variables, and state tensors that no operator writes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import numpy as np

from jfuse.base.errors import BadFlatbuffer, LowerError
from jfuse.ir.graph import Atom, Const, State, Var
from jfuse.ir.states import reset_value
from jfuse.ir.types import DType
from jfuse.tflite.read.fields import options_of, text
from jfuse.tflite.read.tensors import ReadTensors
from jfuse.tflite.schema import VARIABLES

ON_VARIABLES = frozenset(VARIABLES)
"""Builtins without an equation: in the IR a variable is a value."""

_MOST_ELEMENTS = 2**28  # of a state tensor: a file need not hold any of them


class StateReader(Protocol):
    """One subgraph, as these functions look at it. Tensors go by their index."""

    where: str  # the subgraph, for messages
    tensors: ReadTensors

    def calls(self) -> Iterable[tuple[str, Any]]:
        """The operators with the names of their builtins."""

    def read(self, index: int) -> Atom:
        """The Var or Const that a tensor holds by now."""

    def state_name(self, index: int) -> str:
        """A name for a state tensor, which no other state of the file has."""

    @property
    def inputs(self) -> Sequence[int]:
        """The tensors that a caller gives."""

    @property
    def is_foreign(self) -> bool:
        """Whether another program wrote the file."""


@dataclass
class StateNames:
    """The names of the state tensors of a file, each once: subgraphs have names of their own."""

    variables: Mapping[str, State]
    tensors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def unique(self, name: str, place: tuple[int, int]) -> str:
        """`name`, with a number behind it where a variable or a tensor at another place (subgraph, tensor) has it."""
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        free = (c for c in candidates if c not in self.variables and self.tensors.get(c, place) == place)
        free_name = next(free)
        self.tensors[free_name] = place
        return free_name


@dataclass
class SubgraphStates:
    """The states of one subgraph while its operators are recorded. Bodies have none."""

    reader: StateReader
    handles: Mapping[int, str] = field(default_factory=dict)  # tensor -> the variable's name
    kept: Mapping[int, str] = field(default_factory=dict)  # state tensor -> the state's name
    once: Collection[int] = ()  # those of them that an operator writes in the first call alone
    states: tuple[State, ...] = ()
    values: dict[str, Atom] = field(default_factory=dict)  # of variables, by name

    @classmethod
    def of(cls, reader: StateReader, variables: Mapping[str, State] | None) -> SubgraphStates:
        """The states of a signature's subgraph, in the order of their tensors.

        An input is none, though it is marked as a variable tensor: the caller writes it before every call.
        variables: what the file's variables begin with, by name; None where they are no states.
        """
        handles = {} if variables is None else _handles(reader)
        state_of: dict[int, State] = {}
        for index, name in handles.items():
            if variables is None or name not in variables:
                raise LowerError(f"the variable {name!r} has no first value", where=reader.where, expected="CALL_ONCE")
            if variables[name] not in state_of.values():
                state_of[index] = variables[name]
        once = _written_once(reader)
        written = {*_written_before_read(reader), *reader.inputs} - once.keys()
        for i in (i for i in reader.tensors.variables() if i not in written):
            first = once[i] if i in once else _first_value(reader, i)
            state_of[i] = State(reader.state_name(i), first, "variable" if i in once else "tensor")
        tensors = [i for i in state_of if i not in handles]
        states = tuple(state_of[index] for index in sorted(state_of))
        return cls(reader, handles, {index: state_of[index].name for index in tensors}, once, states)

    def start(self, variables: Sequence[Var]) -> dict[int, Atom]:
        """Let the states be these; the tensors that they are in."""
        now = dict(zip((s.name for s in self.states), variables, strict=True))
        self.values = {name: now[name] for name in self.handles.values()}
        return {index: now[name] for index, name in self.kept.items()}

    def after(self, bound: Mapping[int, Atom]) -> list[Atom]:
        """The values of the states after all operators, in order.   bound: the value of each tensor then"""
        now = {**self.values, **{name: bound[index] for index, name in self.kept.items()}}
        return [now[s.name] for s in self.states]

    def record(self, builtin: str, operator: Any, where: str) -> dict[int, Atom]:
        """One operator on variables: a read gives what the variable holds by now, as the tensor that it writes."""
        if builtin not in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
            return {}
        handle, *value = self.reader.tensors.exactly(operator.inputs, 1 if builtin == "READ_VARIABLE" else 2, where)
        if handle not in self.handles:
            raise LowerError(
                "a variable is used in a loop or branch of the file", where=where, expected="operators of the signature"
            )
        name = self.handles[handle]
        held = self.values[name]
        if not value:
            (result,) = self.reader.tensors.exactly(operator.outputs, 1, where)
            self.reader.tensors.compare(result, held.type)
            return {result: held}
        atom = self.reader.read(value[0])
        if atom.type != held.type:
            raise BadFlatbuffer(
                f"the variable {name!r} changes its type", where=where, expected=str(held.type), found=str(atom.type)
            )
        self.values[name] = atom
        return {}


def _written_before_read(reader: StateReader) -> set[int]:
    """The tensors that an operator writes before any reads them: what they held in the call before is lost."""
    read: set[int] = set()
    written: set[int] = set()
    for _, operator in reader.calls():
        read.update(reader.tensors.places(operator.inputs, optional=True))
        written.update(i for i in reader.tensors.places(operator.outputs) if i not in read)
    return written


def updated_states(tensors: ReadTensors, operator: Any) -> tuple[int, ...]:
    """The operands in state tensors, by position, that an operator may write in place: all, or those that it marks."""
    places = tensors.places(operator.inputs, optional=True)
    positions = [position for position, index in enumerate(places) if index != -1 and tensors.is_variable(index)]
    marks = operator.mutatingVariableInputs
    if marks is None or not len(marks):
        return tuple(positions)
    if len(marks) != len(places):
        raise BadFlatbuffer(
            "an operator does not say of each operand whether it writes it", expected=len(places), found=len(marks)
        )
    return tuple(position for position in positions if marks[position])


def first_values(reader: StateReader) -> dict[str, State]:
    """Read the constants that the subgraph of a CALL_ONCE assigns to variables, by name. LowerError if computed."""
    handles = _handles(reader)
    variables = {}
    for builtin, operator in reader.calls():
        if builtin != "ASSIGN_VARIABLE":
            continue
        handle, value = reader.tensors.exactly(operator.inputs, 2, f"{reader.where} ({builtin})")
        initial = reader.tensors.constant(value)
        if initial is None or handle not in handles:
            raise LowerError("the first value of a variable is computed", where=reader.where, expected="a constant")
        variables[handles[handle]] = State(handles[handle], initial)
    return variables


def _handles(reader: StateReader) -> dict[int, str]:
    names_of = {}
    for builtin, operator in reader.calls():
        if builtin == "VAR_HANDLE" and (table := options_of(builtin, operator)) is not None:
            where = f"{reader.where} ({builtin})"
            names = [text(name, where) for name in (table.container, table.sharedName)]
            (handle,) = reader.tensors.exactly(operator.outputs, 1, where)
            names_of[handle] = "/".join(filter(None, names))
    return names_of


def _written_once(reader: StateReader) -> dict[int, Const]:
    """Read the constants that a DEQUANTIZE writes to state tensors: the runtime runs it only in the first call.

    Measured on LiteRT 2.3.0; so the fused LSTMs of official files with f16 weights keep their states between calls.
    """
    constants = {}
    for builtin, operator in reader.calls():
        if builtin != "DEQUANTIZE":
            continue
        where = f"{reader.where} ({builtin})"
        (result,) = reader.tensors.exactly(operator.outputs, 1, where)
        (operand,) = reader.tensors.exactly(operator.inputs, 1, where)
        const = reader.tensors.constant(operand) if reader.tensors.is_variable(result) else None
        if const is not None and const.type.dtype in (DType.f16, DType.bf16):
            constants[result] = Const(const.array.astype(np.float32))
    return constants


def _first_value(reader: StateReader, index: int) -> Const:
    # Of the size that the runtime allocates, whatever the file calls open: no change of an input's size changes it.
    tensor_type = replace(reader.tensors.element(index), shape=reader.tensors.allocated(index))
    if math.prod(tensor_type.shape) > _MOST_ELEMENTS:
        where = f"{reader.where} tensor {index}"
        raise BadFlatbuffer("a state is larger than any memory", where=where, found=str(tensor_type))
    value, dtype = reset_value(tensor_type), tensor_type.dtype
    if dtype.is_integer and int(np.array(value).astype(dtype.numpy)) != value:
        where = f"{reader.where} tensor {index}"
        raise BadFlatbuffer("the zero point of a state is none of its numbers", where=where, found=str(tensor_type))
    array = np.full(tensor_type.shape, value, dtype.numpy)
    return Const(array, None, tensor_type.quantization)
