"""Limits of case distinctions: each constant of the body is in the replacement, or has samples on both sides.

A saturation at 100 is not explained by a RELU6, nor a clip at 5 by one at 10: each constant has its own counterpart.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import scan
from jfuse.kernels.nn.activation import LIMITS
from jfuse.lowering.rule_tools.case_distinctions import CLIPS, run_time_switches, switch_of

_CLOSE = 1e-6  # relative: constants are rounded to f32
_MOST = 16  # constants of one equation
_ENDLESS = 1e30  # what is clipped there is clipped to what f32 holds


@dataclass(frozen=True)
class WatchedLimits:
    """A graph that gives the values that are compared with `limits`, one for each; `hidden` are limits without any."""

    graph: Graph
    limits: tuple[float, ...]
    hidden: tuple[float, ...]


def limits_of(graph: Graph) -> frozenset[float]:
    """The sizes of the constants but 0 that a graph's case distinctions at run time compare floats with."""
    return frozenset(abs(value) for _, eqn in run_time_switches(graph) for value, _ in _compared(eqn))


def all_limits(graph: Graph) -> frozenset[float]:
    """Those of all case distinctions of a graph, options of operators among them."""
    return frozenset(abs(value) for eqn in all_eqns(graph) for value, _ in _compared(eqn))


def stated_limits(graph: Graph) -> frozenset[float]:
    """Those that fused operators have as options: within the operator no sample is seen."""
    recurrent = (eqn for eqn in all_eqns(graph) if eqn.op.cell)
    return frozenset(abs(value) for eqn in recurrent for value, _ in _compared(eqn))


def without(limits: Iterable[float], others: Iterable[float]) -> list[float]:
    """The limits that are none of the others, up to rounding."""
    known = list(others)
    return [a for a in limits if not any(abs(a - b) <= _CLOSE * max(a, b) for b in known)]


def watched(graph: Graph, limits: Iterable[float]) -> WatchedLimits:
    """The graph with what it compares with these limits, in loops too, of every step; not what branches compare."""
    wanted = frozenset(limits)
    switches = frozenset(eqn for _, eqn in run_time_switches(graph))
    extended, compared = _watched(graph, wanted, switches)
    values = tuple(value for value, _ in compared)
    return WatchedLimits(
        replace(extended, outputs=tuple(a for _, a in compared)), values, tuple(without(wanted, map(abs, values)))
    )


def _watched(
    graph: Graph, limits: frozenset[float], switches: frozenset[Eqn]
) -> tuple[Graph, list[tuple[float, Atom]]]:
    eqns: list[Eqn] = []
    limited: list[tuple[float, Atom]] = []
    for eqn in graph.eqns:
        compared = _compared(eqn) if eqn in switches else ()
        limited += [(value, atom) for value, atom in compared if abs(value) in limits and isinstance(atom, Var)]
        if eqn.op is scan:
            body, inner = _watched(eqn.bodies[0], limits, switches)
            length = eqn.params["length"]
            more = [Var(TensorType((length, *a.type.shape), a.type.dtype)) for _, a in inner]
            body = replace(body, outputs=(*body.outputs, *(a for _, a in inner)))
            limited += [(value, var) for (value, _), var in zip(inner, more, strict=True)]
            eqn = replace(eqn, bodies=(body,), outputs=(*eqn.outputs, *more))
        eqns.append(eqn)
    return replace(graph, eqns=tuple(eqns)), limited


def _ends_of(activation: str) -> set[float]:
    """The sizes of the limits of an activation, but 0."""
    return {abs(end) for end in LIMITS.get(activation, ()) if end and np.isfinite(end)}


def _compared(eqn: Eqn) -> Iterator[tuple[float, Atom | None]]:
    """The constants that an equation compares with, each with what is compared, where that is an operand or result."""
    first = eqn.inputs[0] if eqn.inputs else None
    for name in CLIPS:
        if limit := eqn.params.get(name):
            yield float(limit), None
    activation = eqn.params.get("fused_activation_function", "NONE")
    yield from ((value, None) for value in _ends_of(activation))
    yield from ((value, first) for value in _ends_of(str(eqn.op.builtin)))
    if not eqn.op.elementwise or eqn.op.selects or switch_of(eqn) not in ("clip", "compare") or len(eqn.inputs) != 2:
        return
    for atom, other in (eqn.inputs, eqn.inputs[::-1]):
        if isinstance(atom, Const) and atom.type.dtype.is_float:
            values = np.unique(atom.array.reshape(-1)[:_MOST].astype(np.float64))
            yield from ((float(v), other) for v in values if 0 < abs(v) < _ENDLESS)
