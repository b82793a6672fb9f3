"""The lookup tables of a file: which there are, and the number that each goes by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Const, Eqn, Graph
from jfuse.ir.types import TENSOR_TYPES
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops

# The runtime keeps tables and variables in one list; it numbers variables from 0 on.
_FIRST_NUMBER = 1 << 20


@dataclass(frozen=True)
class FilledTable:
    """A table that is filled once, before the first call."""

    number: int
    keys: Const
    values: Const

    @property
    def options(self) -> Mapping[str, int]:
        """The options of its HASHTABLE operator."""
        dtypes = (TENSOR_TYPES[c.type.dtype] for c in (self.keys, self.values))
        return dict(zip(("tableId", "keyDtype", "valueDtype"), (self.number, *dtypes), strict=True))


class Tables:
    """The tables of some graphs, those with equal contents once."""

    def __init__(self, graphs: Iterable[Graph]) -> None:
        self._found: dict[tuple[str, str], FilledTable] = {}
        for eqn in (e for graph in graphs for e in all_eqns(graph) if is_lookup(e)):
            keys, values = eqn.inputs[:2]
            if not isinstance(keys, Const) or not isinstance(values, Const):
                raise LowerError("a table is computed at run time", where=str(eqn.source) or None)
            number = _FIRST_NUMBER + len(self._found)
            self._found.setdefault((keys.digest, values.digest), FilledTable(number, keys, values))

    def all(self) -> tuple[FilledTable, ...]:
        """All tables, in order of first use."""
        return tuple(self._found.values())

    def of(self, eqn: Eqn) -> FilledTable:
        """The table that an equation looks up in."""
        keys, values = (a for a in eqn.inputs[:2] if isinstance(a, Const))
        return self._found[keys.digest, values.digest]


def is_lookup(eqn: Eqn) -> bool:
    """Whether an equation's first two operands are the contents of a table."""
    return eqn.op is ops.hashtable_find
