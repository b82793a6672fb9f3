"""Finds the equation whose result has another scale or zero point than on the other side.

The integers themselves may be alike there (a RESHAPE that states another zero point), or differ in all that follows
alike. So the equation whose integers part first need not be the one to blame.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from jfuse.ir.graph import Graph, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.walk import producers
from jfuse.verification.locate.named_values import name_of

Scales: TypeAlias = Mapping[Var, Quantization | None]
"""How the other side quantizes the results of equations, if known."""


def scales_by_name(graph: Graph, other: Graph) -> Scales:
    """How another graph quantizes the results of the equations of a graph: those of the same node and op."""
    scales = dict(_named(other))
    pairs = ((var, scales[key].type) for key, var in _named(graph) if key in scales)
    return {var: of.quantization for var, of in pairs if of.dtype is var.type.dtype}  # floats have no integers to state


def _named(graph: Graph) -> Iterator[tuple[tuple[Any, ...], Var]]:
    seen: Counter[tuple[str, str]] = Counter()
    for eqn in graph.eqns:
        node = name_of(eqn.source), eqn.op.name
        if node[0]:
            yield from (((*node, seen[node], i), var) for i, var in enumerate(eqn.outputs))
            seen[node] += 1


def stated(scale: Sequence[float] | None, zero_point: Sequence[int] | None, axis: int) -> Quantization | None:
    """The quantization of a tensor of a file; None without scales."""
    if scale is None or not len(scale):
        return None
    points = tuple(map(int, zero_point)) if zero_point is not None and len(zero_point) else (0,)
    return Quantization(tuple(map(float, scale)), points, axis)


def requantized(graph: Graph, number: int, others: Scales) -> tuple[int, Quantization | None] | None:
    """The first equation of a chain that the other side quantizes differently, and the other side's parameters.

    The chain ends with a result or an operand of the equation of this number; None where these are quantized alike.
    """
    made = producers(graph)
    numbers = {id(eqn): n for n, eqn in enumerate(graph.eqns)}
    at = graph.eqns[number]
    odd = next((var for var in at.outputs if _is_odd(var, others)), None)
    while True:
        before = next((a for a in at.inputs if isinstance(a, Var) and a in made and _is_odd(a, others)), None)
        if before is None:
            return None if odd is None else (numbers[id(at)], others[odd])
        at, odd = made[before], before


def _is_odd(var: Var, others: Scales) -> bool:
    if var not in others or not var.type.dtype.is_integer:
        return False
    return _numbers(var.type.quantization) != _numbers(others[var])


def _numbers(quantization: Quantization | None) -> tuple[Any, ...]:
    if quantization is None or not quantization.scale:
        return ()
    axis = quantization.axis if len(quantization.scale) > 1 else 0
    return quantization.scale, quantization.zero_point or (0,) * len(quantization.scale), axis
