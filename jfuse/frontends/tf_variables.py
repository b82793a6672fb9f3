"""Variables and tables as the importer sees them, and which of them any function writes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.frontends.tf_nodes import Library, called_functions, data_inputs, split_reference

_WRITES = frozenset(
    "AssignVariableOp AssignAddVariableOp AssignSubVariableOp AssignVariableXlaConcatND ResourceStridedSliceAssign "
    "ResourceCountUpTo RngSkip RngReadAndSkip StatefulUniform StatefulUniformInt StatefulUniformFullInt "
    "StatefulStandardNormalV2 StatefulTruncatedNormal StatefulRandomBinomial DestroyResourceOp LookupTableInsertV2 "
    "LookupTableRemoveV2 LookupTableImportV2 InitializeTableV2 InitializeTableFromTextFileV2".split()
)
_WRITE_PREFIXES = ("ResourceScatter", "ResourceApply", "ResourceSparseApply")


@dataclass(eq=False)
class Resource:
    """A captured variable (or table). `array` borrows the variable's memory; None for what is not a variable."""

    name: str
    array: np.ndarray | None
    written: bool = False


def is_write(op: str) -> bool:
    """Whether a TensorFlow op changes the resource that is its first operand."""
    return op in _WRITES or op.startswith(_WRITE_PREFIXES)


@dataclass
class WriteAnalysis:
    """Which arguments of which function are resources that it writes, itself or through what it calls."""

    library: Library
    _known: dict[str, frozenset[int]] = field(default_factory=dict)

    def written_arguments(self, name: str) -> frozenset[int]:
        """Positions of the arguments that function `name` writes."""
        if name not in self._known:
            self._known[name] = frozenset()  # a recursive function adds nothing to itself
            function = self.library.functions[name]
            positions = {arg.name: i for i, arg in enumerate(function.signature.input_arg)}
            self._known[name] = frozenset(self._written(function.node_def, positions))
        return self._known[name]

    def written_placeholders(self, nodes: Iterable[Any]) -> set[str]:
        """The names of the placeholders of a top-level graph that are written."""
        nodes = list(nodes)
        names = [n.name for n in nodes if n.op == "Placeholder"]
        found = self._written(nodes, {name: i for i, name in enumerate(names)})
        return {names[i] for i in found}

    def writes(self, node: Any) -> bool:
        """Whether executing the node changes any resource."""
        if is_write(node.op):
            return True
        return any(self.written_arguments(name) for name in called_functions(node) if name in self.library.functions)

    def _written(self, nodes: Iterable[Any], positions: Mapping[str, int]) -> set[int]:
        aliases = dict(positions)
        found: set[int] = set()
        for node in nodes:
            operands = [split_reference(i)[0] for i in data_inputs(node)]
            if node.op == "Identity" and operands and operands[0] in aliases:
                aliases[node.name] = aliases[operands[0]]
            written = {0} if is_write(node.op) else self._written_operands(node)
            found |= {aliases[operands[i]] for i in written if i < len(operands) and operands[i] in aliases}
        return found

    def _written_operands(self, node: Any) -> set[int]:
        offset = 1 if node.op in ("If", "StatelessIf", "Case", "StatelessCase") else 0
        names = [name for name in called_functions(node) if name in self.library.functions]
        return {i + offset for name in names for i in self.written_arguments(name)}


def borrow_array(variable: Any) -> np.ndarray:
    """The variable's value without a copy where TensorFlow lends its memory (read-only); a copy otherwise."""
    value = variable.read_value()
    try:
        return np.asarray(memoryview(value))
    except (TypeError, ValueError, BufferError):  # bfloat16 and strings have no buffer format
        return np.asarray(value.numpy())
