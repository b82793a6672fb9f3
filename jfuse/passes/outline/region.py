"""A part of a graph that computes one value from others, and the functions that it may be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.walk import producers, users

Function: TypeAlias = Callable[..., Any]
"""Operands -> the result, in ops."""


@dataclass(frozen=True)
class Meaning:
    """A function that accelerators know by name, and the part of a graph that may compute it.

    name, attributes: as the runtime's compilers read them. function: its definition, written in ops.
    inputs: the values that the part reads. output: its result.
    spelled: called with a function of the operands and the inputs; computes the output by that function and by moves.
    """

    name: str
    attributes: Mapping[str, float | int]
    function: Function
    inputs: tuple[Var, ...]
    output: Var
    spelled: Callable[..., Any]


@dataclass(frozen=True)
class Surroundings:
    """A graph with the producer and the readers of each value."""

    graph: Graph
    made: Mapping[Var, Eqn]
    read: Mapping[Var, Sequence[Eqn]]

    @classmethod
    def of(cls, graph: Graph) -> Surroundings:
        """The surroundings of the values of a graph."""
        return cls(graph, producers(graph), users(graph))

    def part(self, inputs: Sequence[Var], output: Var) -> Graph | None:
        """The graph that computes `output` from `inputs`; None where it reads more, or others read what is inside."""
        needed, eqns = {output}, list[Eqn]()
        for eqn in reversed(self.graph.eqns):
            if needed.isdisjoint(eqn.outputs) or any(out in inputs for out in eqn.outputs):
                continue
            eqns.append(eqn)
            needed.update(a for a in eqn.inputs if isinstance(a, Var) and a not in inputs)
        inside = {out for eqn in eqns for out in eqn.outputs}
        whole = needed <= inside and not any(eqn.effects or eqn.bodies for eqn in eqns)
        hidden = inside - {output}
        leaks = any(v in self.graph.outputs or any(e not in eqns for e in self.read.get(v, ())) for v in hidden)
        if not eqns or not whole or leaks:
            return None
        return replace(self.graph, name="part", inputs=tuple(inputs), eqns=tuple(reversed(eqns)), outputs=(output,))
