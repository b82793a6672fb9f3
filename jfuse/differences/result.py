"""Differences between two models."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from jfuse.base.json_form import JsonFormat

MOST_LINES = 12
"""Of one kind, as text; JSON has all."""
_TITLES = {
    "signature": "signatures",
    "input": "inputs",
    "output": "outputs",
    "state": "states",
    "operator": "operators without a counterpart",
    "order": "the order of operators",
    "type": "types of results",
    "option": "options",
    "operand": "operands",
    "constant": "constants",
    "quantization": "quantization",
    "metadata": "metadata",
}


@dataclass(frozen=True)
class Finding:
    """One difference.   kind: one of `_TITLES`; where: the signature, and the operator; a, b: "" where a side lacks it

    largest: max|a - b| of a constant's numbers as they are stored, where both have one of the same shape.
    """

    kind: str
    where: str
    a: str
    b: str
    largest: float | None = None

    def __str__(self) -> str:
        place = f"{self.where}: " if self.where else ""
        if not self.a or not self.b:
            return f"{place}only in {'B' if not self.a else 'A'}: {self.a or self.b}"
        far = "" if self.largest is None else f", at most {self.largest:.3g} apart"
        return f"{place}{self.a} / {self.b}{far}"


@dataclass(frozen=True)
class ModelDiff:
    """The result of `jfuse.diff`.   operators: how many of each kind A and B have, where that differs

    matched: how many operators have a counterpart.
    """

    a: str
    b: str
    findings: tuple[Finding, ...]
    operators: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    matched: int = 0
    json_also: ClassVar = {"equal": "equal"}

    @property
    def equal(self) -> bool:
        """Whether there is no difference."""
        return not self.findings

    def lines(self) -> list[str]:
        """The differences by kind; long lists are cut."""
        if self.equal:
            return [f"{self.a} and {self.b} are equal: {self.matched} operators"]
        found = [f"A: {self.a}", f"B: {self.b}", f"{self.matched} operators have a counterpart"]
        if self.operators:
            counts = ", ".join(f"{op} {a}/{b}" for op, (a, b) in self.operators.items())
            found.append(f"operators, A/B: {counts}")
        for kind, count in Counter(finding.kind for finding in self.findings).items():
            rows = [str(finding) for finding in self.findings if finding.kind == kind]
            found += [f"{_TITLES[kind]}: {count}", *(f"  {row}" for row in rows[:MOST_LINES])]
            found += [f"  … and {count - MOST_LINES} more"] if count > MOST_LINES else []
        return found

    def to_json(self) -> dict[str, Any]:
        """Everything, as dicts, lists, texts and numbers."""
        return FORMAT.content(self)

    def __str__(self) -> str:
        return "\n".join(self.lines())


FORMAT = JsonFormat("jfuse.diff", 1, ModelDiff)
