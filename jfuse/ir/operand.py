"""What an op declares of one of its operands."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Operand:
    """One operand of an op's signature."""

    name: str
    static: bool = False
    shape_only: bool = False
    measure: bool = False
    optional: bool = False
    variadic: bool = False

    @property
    def decides_size(self) -> bool:
        """Whether the sizes of the results may follow from the operand's value."""
        return self.static or self.measure
