"""What a .tflite file keeps between calls, read as states: variables, and state tensors that no operator writes."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from jfuse.errors import BadFlatbuffer, LowerError
from jfuse.ir.graph import Atom, Const, State, Var
from jfuse.ir.types import DType, TensorType

ON_VARIABLES = frozenset({"CALL_ONCE", "VAR_HANDLE", "READ_VARIABLE", "ASSIGN_VARIABLE"})
"""Builtins that stand for no equation: in the IR a variable is a value."""


class Reader(Protocol):
    """One subgraph, as these functions look at it. Tensors go by their index."""

    @property
    def where(self) -> str:
        """The subgraph, for messages."""

    def calls(self) -> Iterable[tuple[str, Any]]:
        """The operators with the names of their builtins."""

    def places(self, vector: Any) -> tuple[int, ...]:
        """The tensors that an operator names."""

    def read(self, index: int) -> Atom:
        """What a tensor holds."""

    def state_tensors(self) -> Sequence[int]:
        """The tensors that are marked as variable."""

    def declared(self, index: int) -> tuple[tuple[int, ...], DType]:
        """The shape, -1 where it is open, and the dtype of a tensor."""

    def state_name(self, index: int) -> str:
        """A name for a state tensor, which no other state of the file has."""

    def compare(self, index: int, derived: TensorType) -> None:
        """Raise BadFlatbuffer where the file states another type."""


@dataclass
class StateNames:
    """The names of the state tensors of a file, each once: subgraphs have names of their own."""

    variables: Mapping[str, State]
    tensors: dict[str, tuple[int, int]] = field(default_factory=dict)

    def unique(self, name: str, place: tuple[int, int]) -> str:
        """`name`, with a number behind it where a variable or a tensor at another place (subgraph, tensor) has it."""
        candidates = itertools.chain([name], (f"{name}_{i}" for i in itertools.count(1)))
        free = (c for c in candidates if c not in self.variables and self.tensors.get(c, place) == place)
        found = next(free)
        self.tensors[found] = place
        return found


@dataclass
class Held:
    """What the states of one subgraph hold while its operators are recorded. Without states in a body."""

    reader: Reader
    handles: Mapping[int, str] = field(default_factory=dict)  # tensor -> the variable's name
    kept: Mapping[int, str] = field(default_factory=dict)  # state tensor without a writer -> the state's name
    states: tuple[State, ...] = ()
    values: dict[str, Atom] = field(default_factory=dict)  # of variables, by name

    @classmethod
    def of(cls, reader: Reader, variables: Mapping[str, State]) -> Held:
        """The states of a signature's subgraph, in the order of their tensors."""
        handles = _handles(reader)
        found: dict[int, State] = {}
        for index, name in handles.items():
            if name not in variables:
                raise LowerError(f"the variable {name!r} has no first value", where=reader.where, expected="CALL_ONCE")
            if variables[name] not in found.values():
                found[index] = variables[name]
        written = {i for _, operator in reader.calls() for i in reader.places(operator.outputs)}
        kept = [index for index in reader.state_tensors() if index not in written]
        found |= {index: State(reader.state_name(index), Const(_zeros(reader, index))) for index in kept}
        states = tuple(found[index] for index in sorted(found))
        return cls(reader, handles, {index: found[index].name for index in kept}, states)

    def start(self, variables: Sequence[Var]) -> dict[int, Atom]:
        """Let the states be these; the tensors that they are in."""
        now = dict(zip((s.name for s in self.states), variables, strict=True))
        self.values = {name: now[name] for name in self.handles.values()}
        return {index: now[name] for index, name in self.kept.items()}

    def after(self, bound: Mapping[int, Atom]) -> list[Atom]:
        """What the states are after all operators, in order.   bound: what the tensors hold then."""
        now = {**self.values, **{name: bound[index] for index, name in self.kept.items()}}
        return [now[s.name] for s in self.states]

    def record(self, builtin: str, operator: Any, where: str) -> dict[int, Atom]:
        """One operator on variables: a read gives what the variable holds by now, as the tensor that it writes."""
        if builtin not in ("READ_VARIABLE", "ASSIGN_VARIABLE"):
            return {}
        handle, *value = self.reader.places(operator.inputs)
        if handle not in self.handles:
            raise LowerError(
                "a variable is used in a loop or branch of the file", where=where, expected="operators of the signature"
            )
        name = self.handles[handle]
        held = self.values[name]
        if not value:
            (result,) = self.reader.places(operator.outputs)
            self.reader.compare(result, held.type)
            return {result: held}
        atom = self.reader.read(value[0])
        if atom.type != held.type:
            raise BadFlatbuffer(
                f"the variable {name!r} changes its type", where=where, expected=str(held.type), found=str(atom.type)
            )
        self.values[name] = atom
        return {}


def first_values(reader: Reader) -> dict[str, State]:
    """What the subgraph of a CALL_ONCE assigns to variables, by name; LowerError where it computes that."""
    handles = _handles(reader)
    found = {}
    for builtin, operator in reader.calls():
        if builtin != "ASSIGN_VARIABLE":
            continue
        handle, value = reader.places(operator.inputs)
        initial = reader.read(value)
        if not isinstance(initial, Const) or handle not in handles:
            raise LowerError("the first value of a variable is computed", where=reader.where, expected="a constant")
        found[handles[handle]] = State(handles[handle], initial)
    return found


def _handles(reader: Reader) -> dict[int, str]:
    found = {}
    for builtin, operator in reader.calls():
        if builtin == "VAR_HANDLE" and (table := operator.builtinOptions) is not None:
            names = (getattr(table, field, None) or b"" for field in ("container", "sharedName"))
            found[reader.places(operator.outputs)[0]] = b"/".join(filter(None, names)).decode()
    return found


def _zeros(reader: Reader, index: int) -> np.ndarray:
    shape, dtype = reader.declared(index)
    if any(d < 0 for d in shape):
        raise LowerError("a state of open size is kept between calls", where=f"{reader.where} tensor {index}")
    return np.zeros(shape, dtype.numpy)
