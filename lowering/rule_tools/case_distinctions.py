"""Finds case distinctions (comparisons, selects, clips, rounding), which a proof by sampling could miss."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from jfuse.ir.graph import Eqn, Graph, Source, Var
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import EXACT
from jfuse.kernels.core.op import builtin_ops

CLIPS = ("cell_clip", "proj_clip")


def switch_of(eqn: Eqn) -> str | None:
    """The family of the case distinction that an equation makes between values, None where it makes none."""
    switch = eqn.op.switch
    if switch != "cast":
        return switch
    cuts = any(a is not None and a.type.dtype.is_float for a in eqn.inputs)
    return switch if cuts and not any(o.type.dtype.is_float for o in eqn.outputs) else None


def makes_integers(eqn: Eqn) -> bool:
    """Whether an equation casts floats to integers."""
    return switch_of(eqn) == "cast" and eqn.outputs[0].type.dtype.is_integer


def families(graph: Graph) -> frozenset[str]:
    """The families of all case distinctions in a graph, those of fused activations and clips included."""
    switches = {switch_of(eqn) for eqn in all_eqns(graph)}
    switches |= {_of_activation(eqn) for eqn in all_eqns(graph)}
    switches |= {"clip" for eqn in all_eqns(graph) if any(eqn.params.get(name) for name in CLIPS)}
    return frozenset(f for f in switches if f is not None)


def run_time_switches(graph: Graph, constant: Collection[Var] = ()) -> Iterator[tuple[str, Eqn]]:
    """The case distinctions that depend on run-time data (not only on shapes, or on inputs that are `constant`)."""
    varying = {var for var in graph.inputs if var not in constant}
    for eqn in graph.eqns:
        if not any(a in varying for i, a in enumerate(eqn.inputs) if not _is_shape_only(eqn, i)):
            continue
        varying.update(eqn.outputs)
        if eqn.op.selects and eqn.inputs[0] not in varying:
            continue  # the same choice for all data
        family = switch_of(eqn) or _of_activation(eqn)
        if family is not None:
            yield family, eqn
        if eqn.params.get("name") in EXACT:
            continue  # how its body approximates an analytic function is not the user's case distinction
        for body in eqn.bodies:
            yield from run_time_switches(body)


def place_of(eqn: Eqn) -> str:
    """The op and the node that it came from."""
    return f"{eqn.op.name} at {eqn.source}" if eqn.source != Source() else eqn.op.name


def _of_activation(eqn: Eqn) -> str | None:
    name = eqn.params.get("fused_activation_function", "NONE")
    op = builtin_ops().get(name)
    return None if op is None else op.switch


def _is_shape_only(eqn: Eqn, place: int) -> bool:
    return eqn.op.operand_at(place).shape_only
