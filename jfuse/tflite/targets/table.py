"""Tables of operators, as `bench/target_tables.py` makes them from the runtimes themselves."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

from jfuse.ir.graph import Eqn
from jfuse.ir.types import DType

_FOLDER = Path(__file__).with_name("tables")


@dataclass(frozen=True)
class Entry:
    """One operator of a table.

    types: pairs of the element types of the first operand and of the first result, "-" for none; None for any.
    rank: the largest number of axes; None for any. no_integers: quantized types, as `integers_of` says them, that no
    kernel takes, or not rightly.
    """

    types: frozenset[tuple[str, str]] | None = None
    rank: int | None = None
    no_integers: frozenset[str] = frozenset()


@dataclass(frozen=True)
class OperatorTable:
    """The operators of one runtime.   source: where the table comes from"""

    runtime: str
    source: str
    operators: Mapping[str, Entry]

    def why_not(self, eqn: Eqn, *, quantized_only: bool = False) -> str | None:
        """Explain why an equation cannot run in the runtime; None where the table has it.

        quantized_only: the types of the table are those of quantized tensors; else they are those of plain numbers
        alone.
        """
        entry = self.operators.get(str(eqn.op.builtin))
        if entry is None:
            return f"{self.runtime} has no {eqn.op.builtin}"
        rank = max((a.type.rank for a in (*eqn.inputs, *eqn.outputs) if a is not None), default=0)
        if entry.rank is not None and rank > entry.rank:
            return f"{self.runtime} takes {entry.rank} axes at most, not {rank}"
        integers = integers_of(eqn)
        if integers in entry.no_integers:
            return f"{self.runtime} has no {eqn.op.builtin} for quantized {integers}"
        if entry.types is None or (integers is not None and not quantized_only):
            return None
        pair = _types(eqn, quantized_only)
        if pair in entry.types:
            return None
        alike = {f"{a} to {b}" for a, b in entry.types if a != b and (b, a) not in entry.types}
        taken = ", ".join(sorted(alike | {a for a, b in entry.types if a == b}, key=_order))
        types = f"{pair[0]} to {pair[1]}" if pair[0] != pair[1] else pair[0]
        return f"{self.runtime} takes {taken}, not {types}"


def integers_of(eqn: Eqn) -> str | None:
    """The quantized types of an equation as `integer_types` says them; None where there are none.

    Those of its result decide which kernel runs; those of its operands, where it compares or searches.
    """
    read = [a.type for a in eqn.inputs if a is not None and a.type.quantization is not None and eqn.op.scales is None]
    types = [v.type for v in eqn.outputs if v.type.quantization is not None] or read
    return integer_types(types[0].dtype, *(t.dtype for t in read)) if types else None


def integer_types(activations: DType, *others: DType) -> str:
    """Quantized types by which kernels differ: "i8", or "i16 by i8" where an operand is narrower than activations."""
    narrowest = min(others, key=_bits, default=activations)
    is_narrower = _bits(narrowest) < _bits(activations)
    return f"{activations.value} by {narrowest.value}" if is_narrower else activations.value


def _bits(integer: DType) -> int:
    return int(integer.value[1:])


def _types(eqn: Eqn, quantized_only: bool) -> tuple[str, str]:
    """The types of the first operand and of the first result.

    quantized_only: of the first quantized operand, where there is one: SPLIT has the axis before it.
    """
    operands = [a for a in eqn.inputs if a is not None]
    data = [a for a in operands if quantized_only and a.type.quantization is not None] or operands
    result = eqn.outputs[0].type.dtype.value if eqn.outputs else "-"
    return data[0].type.dtype.value if data else "-", result


def _order(text: str) -> tuple[int, str]:
    names = [d.value for d in DType]
    first = text.split()[0]
    return (names.index(first) if first in names else -1, text)


def _pairs(entry: Mapping[str, Any]) -> frozenset[tuple[str, str]] | None:
    """The pairs of types of an entry, which names them, or the types that each tensor may have."""
    if "each" in entry:
        return frozenset(product(entry["each"], repeat=2))
    return None if "types" not in entry else frozenset((a, b) for a, b in entry["types"])


@cache
def table_of(runtime: str) -> OperatorTable:
    """The operators that a runtime has, by its name in `RUNTIMES`; read once."""
    data = json.loads((_FOLDER / f"{runtime}.json").read_text(encoding="ascii"))
    operators = {
        name: Entry(
            _pairs(entry),
            entry.get("rank"),
            frozenset(entry.get("no_integers", ())),
        )
        for name, entry in data["operators"].items()
    }
    return OperatorTable(runtime, data["source"], operators)
