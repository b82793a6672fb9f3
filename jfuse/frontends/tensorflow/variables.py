"""Variables and tables as the importer sees them: which of them any function writes, and their current values.

A variable that is written is a value: each read gives the current one, each write sets it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import same, substitute_dim
from jfuse.ir.graph import Var
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType
from jfuse.lowering.rule_tools.query import type_of
from jfuse.tf_nodes.attributes import (
    Library,
    called_functions,
    data_inputs,
    operands_before_arguments,
    split_reference,
)

_WRITES = frozenset(
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp AssignVariableXlaConcatND ResourceStridedSliceAssign "
    "ResourceCountUpTo RngSkip RngReadAndSkip StatefulUniform StatefulUniformInt StatefulUniformFullInt "
    "StatefulStandardNormalV2 StatefulTruncatedNormal StatefulRandomBinomial DestroyResourceOp LookupTableInsertV2 "
    "LookupTableRemoveV2 LookupTableImportV2 InitializeTableV2 InitializeTableFromTextFileV2 LookupTableInsert "
    "LookupTableImport InitializeTable InitializeTableFromTextFile".split()
)
TABLES = frozenset(
    "HashTable HashTableV2 MutableHashTable MutableHashTableV2 MutableDenseHashTable MutableDenseHashTableV2 "
    "AnonymousHashTable AnonymousMutableHashTable AnonymousMutableDenseHashTable".split()
)
"""The nodes by which a function makes a table itself."""
_WRITE_PREFIXES = ("ResourceScatter", "ResourceApply", "ResourceSparseApply")


@dataclass(eq=False)
class Resource:
    """A captured variable (or table). `array` is its value at import; None for other resources.

    written: some function of the model may change it. variable: gives TensorFlow's own. handle: gives that of a table,
    as it was made. is_made_here: whether a node of the function makes the table.
    """

    name: str
    array: np.ndarray | None
    written: bool = False
    variable: Callable[[], Any] | None = None
    handle: Callable[[], Any] | None = None
    is_made_here: bool = False

    @property
    def is_state(self) -> bool:
        """Whether it is a variable that may change."""
        return self.written and self.array is not None

    @property
    def is_filled_inside(self) -> bool:
        """Whether it is a table that the function itself fills, or changes."""
        return self.written and self.array is None


@dataclass
class TableContents:
    """Constants in a table that the function fills; after the first lookup nothing may be added."""

    keys: np.ndarray
    values: np.ndarray
    looked_up: bool = False


@dataclass
class Variables:
    """Current values of the written variables at one point of the walk.

    live: those whose values some result needs; writes of others are left out. read: those that were read so far, by
    any walk that shares this set. tables: those that the function fills; None for contents that are not known.
    in_body: of a loop or branch, which may run or not.
    """

    live: frozenset[Resource] = frozenset()
    read: set[Resource] = field(default_factory=set)
    current: dict[Resource, Any] = field(default_factory=dict)
    tables: dict[Resource, TableContents | None] = field(default_factory=dict)
    in_body: bool = False

    def value(self, resource: Resource) -> Any:
        """Current value of a variable. Raises LowerError for other resources."""
        if resource.array is None:
            raise LowerError(f"{resource.name!r} is a table or another resource that TFLite cannot hold")
        if not resource.is_state:
            return resource.array
        self.read.add(resource)
        return self.current[resource]

    def assign(self, resource: Resource, value: Any) -> None:
        """Let the variable hold `value` from now on; raises LowerError where its type is another one."""
        assert resource.array is not None, "only variables are live"
        _expect_type(type_of(resource.array), type_of(value), resource.name)
        self.current[resource] = value

    def within(self, values: Mapping[Resource, Any]) -> Variables:
        """The variables as a body sees them at its start, where some have the given values."""
        return Variables(self.live, self.read, {**self.current, **values}, self.tables, in_body=True)

    def computed(self, operands: Iterable[Any]) -> list[Resource]:
        """The resources among `operands` that hold values computed at run time, each once."""
        resources = [o for o in operands if isinstance(o, Resource) and isinstance(self.current.get(o), Var)]
        return list(dict.fromkeys(resources))


def _expect_type(wanted: TensorType, found: TensorType, name: str) -> None:
    trace = active_trace()
    fits = wanted.dtype is found.dtype and wanted.rank == found.rank
    for size, other in zip(wanted.shape, found.shape, strict=False):
        trace.equate(size, other)
        fits &= same(size, substitute_dim(other, trace.sizes)) is True
    if not fits:
        raise LowerError(
            f"the variable {name!r} is given a value of another type",
            expected=str(wanted),
            found=str(found),
            remedy="a state of the file keeps its shape: pad it, or make it an input and a result of the function",
        )


def is_write(op: str) -> bool:
    """Whether a TensorFlow op changes the resource that is its first operand."""
    return op in _WRITES or op.startswith(_WRITE_PREFIXES)


@dataclass
class WriteAnalysis:
    """Finds the resource arguments that each function writes, itself or through a call."""

    library: Library
    _known: dict[str, frozenset[int]] = field(default_factory=dict)

    def written_arguments(self, name: str) -> frozenset[int]:
        """Positions of the arguments that function `name` writes."""
        for called in self._callees_first(name):
            function = self.library.functions[called]
            positions = {arg.name: i for i, arg in enumerate(function.signature.input_arg)}
            self._known[called] = frozenset(self._written(function.node_def, positions))
        return self._known[name]

    def _callees_first(self, name: str) -> Iterator[str]:
        """The functions not known yet that a function calls, by others too, and itself: each behind its callees."""
        waiting = [(name, False)]
        while waiting:
            at, is_ready = waiting.pop()
            if is_ready:
                yield at
            elif at not in self._known:
                self._known[at] = frozenset()  # a recursive function adds nothing to itself
                waiting.append((at, True))
                waiting += [(n, False) for node in self.library.functions[at].node_def for n in self._called(node)]

    def written_placeholders(self, nodes: Iterable[Any]) -> set[str]:
        """The names of the placeholders of a top-level graph that are written."""
        nodes = list(nodes)
        names = [n.name for n in nodes if n.op == "Placeholder"]
        positions = self._written(nodes, {name: i for i, name in enumerate(names)})
        return {names[i] for i in positions}

    def writers(self, nodes: Iterable[Any], given: Mapping[str, Any], live: frozenset[Resource]) -> list[str]:
        """The names of the nodes that write a live variable, themselves or through a call, in their order.

        given: the values of the placeholders or arguments, resources among them. Tables are always live.
        """
        nodes, resources = list(nodes), {n: v for n, v in given.items() if isinstance(v, Resource)}
        aliases: dict[str, Resource | None] = {n: v for n, v in resources.items() if v in live or v.is_filled_inside}
        aliases |= {node.name: None for node in nodes if node.op in TABLES}
        names = []
        for node in nodes if aliases else ():
            operands = [split_reference(i)[0] for i in data_inputs(node)]
            if node.op == "Identity" and operands and operands[0] in aliases:
                aliases[node.name] = aliases[operands[0]]
            elif any(operands[i] in aliases for i in self.written_operands(node) if i < len(operands)):
                names.append(node.name)
        return names

    def written_resources(self, function: str, arguments: Sequence[Any]) -> list[Resource]:
        """The resources among the arguments of a function that it writes, each once."""
        candidates = (arguments[i] for i in sorted(self.written_arguments(function)))
        return list(dict.fromkeys(r for r in candidates if isinstance(r, Resource)))

    def written_operands(self, node: Any) -> set[int]:
        """Positions of the operands that the node writes, itself or through a call."""
        return {0} if is_write(node.op) else self._written_operands(node)

    def _written(self, nodes: Iterable[Any], positions: Mapping[str, int]) -> set[int]:
        aliases = dict(positions)
        found: set[int] = set()
        for node in nodes:
            positions_written = self.written_operands(node)
            if not positions_written and node.op != "Identity":
                continue
            operands = [split_reference(i)[0] for i in data_inputs(node)]
            if node.op == "Identity" and operands and operands[0] in aliases:
                aliases[node.name] = aliases[operands[0]]
            written = (operands[i] for i in positions_written if i < len(operands))
            found |= {aliases[name] for name in written if name in aliases}
        return found

    def _written_operands(self, node: Any) -> set[int]:
        offset = operands_before_arguments(node.op)
        return {i + offset for name in self._called(node) for i in self.written_arguments(name)}

    def _called(self, node: Any) -> list[str]:
        return [name for name in (*called_functions(node), node.op) if name in self.library.functions]


def borrow_array(variable: Any) -> np.ndarray:
    """The variable's value without a copy where TensorFlow lends its memory (read-only); a copy otherwise."""
    value = variable.read_value()
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError):  # bfloat16 and strings have no buffer format
        return np.asarray(value.numpy())
