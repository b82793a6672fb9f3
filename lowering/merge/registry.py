"""Merge rules and where they are kept: `merges` for functions that rewrite an equation together with what feeds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias

from jfuse.ir.graph import Atom, Eqn, Op, Var
from jfuse.ir.types import DType
from jfuse.kernels.op import TflOp


class View(Protocol):
    """What a rule may ask about the graph around its equation."""

    def producer(self, atom: Atom | None, /) -> Eqn | None:
        """The equation that makes a Var; None for constants and inputs of the graph."""

    def readers(self, atom: Atom, /) -> int:
        """How often a Var is read, results of the graph included, or the memory of a constant, views of it included.

        At times too many, never too few.
        """


Merge: TypeAlias = Callable[[Eqn, View], Any]
"""Called with the last equation of the pattern. Returns its result (a tuple where it has several), spelled in ops and
of the same type, or None where the rule does not apply."""

_TABLE: dict[Op, tuple[Merge, ...]] = {}
MERGES: Mapping[Op, tuple[Merge, ...]] = MappingProxyType(_TABLE)
"""The rules by the op of the last equation, in the order in which they are tried."""


def merges(*ops: TflOp) -> Callable[[Merge], Merge]:
    """Register the decorated function for equations of these ops. It must leave fewer or simpler equations."""

    def register(rule: Merge) -> Merge:
        for op in ops:
            _TABLE[op] = (*_TABLE.get(op, ()), rule)
        return rule

    return register


def sole_producer(view: View, atom: Atom | None) -> Eqn | None:
    """The equation that makes a Var which nothing else reads."""
    return view.producer(atom) if isinstance(atom, Var) and view.readers(atom) == 1 else None


def again(eqn: Eqn, *, inputs: tuple[Any, ...] | None = None, **options: Any) -> Any:
    """Record the equation's op once more, with other operands or options."""
    (result,) = eqn.op.run(eqn.inputs if inputs is None else inputs, {**eqn.params, **options}, eqn.bodies)
    return result


def is_plain_float(atom: Atom) -> bool:
    """Whether a tensor is f32 and not quantized: what every fused activation and bias is made for."""
    return atom.type.dtype is DType.f32 and atom.type.quantization is None
