"""The carried values of recurrences, with their places: the states that one call could hand to the next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import all_eqns, producers
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan, scan_parts

_MOVES = ("joins", "renames", "permutes", "splits")


@dataclass(frozen=True)
class Carry:
    """One carried value of an equation: the operand that it starts from, and the result that it ends as.

    result: None where the equation does not give it. role: what to call it, "h" or "c" where that is known.
    """

    operand: int
    result: int | None
    role: str


@dataclass(frozen=True)
class CarryingEqn:
    """An equation that steps through sequences, and what it carries.

    hidden: it carries something that starts from a constant of its own, which no operand gives.
    backwards: it steps through the inputs of the graph from the last to the first.
    """

    eqn: Eqn
    carries: tuple[Carry, ...]
    hidden: bool
    backwards: bool


def recurrences(graph: Graph, made: Mapping[Var, Eqn]) -> Iterator[CarryingEqn]:
    """The recurrences of a graph, in order; those in loops and branches are left out.   made: who makes which Var."""
    for eqn in graph.eqns:
        if eqn.op is scan and _steps(eqn):
            yield CarryingEqn(eqn, tuple(_own(eqn)), False, eqn.params["reverse"] or _is_reversed(eqn, made))
        elif eqn.op is composite:
            (body,) = eqn.bodies
            scans = [e for e in body.eqns if e.op is scan and _steps(e)]
            if scans:
                carries, hidden = _through(eqn, body, scans)
                yield CarryingEqn(eqn, tuple(carries), hidden, _runs_backwards(eqn, body, scans, made))


def inner_recurrences(graph: Graph) -> Iterator[Eqn]:
    """The recurrences in loops and branches, which start anew whenever these run."""
    for eqn in graph.eqns:
        if eqn.op is not composite:
            yield from (e for body in eqn.bodies for e in all_eqns(body) if e.op is scan and _steps(e))


def _steps(eqn: Eqn) -> bool:
    """Whether a scan carries something, and reads the steps of something that is computed."""
    _, carries, xs = scan_parts(eqn.inputs, eqn.params)
    return bool(carries) and any(isinstance(x, Var) for x in xs)


def _own(eqn: Eqn) -> Iterator[Carry]:
    consts = eqn.params["consts"]
    for i, role in enumerate(_roles(eqn)):
        yield Carry(consts + i, i, role)


def _roles(eqn: Eqn) -> list[str]:
    """Name the carries of a scan: h is multiplied by weights, or returned at every step; a second one is c."""
    (body,) = eqn.bodies
    _, carries, _ = scan_parts(body.inputs, eqn.params)
    if len(carries) == 1:
        return ["h"]
    collected = set(body.outputs[len(carries) :])
    multiplied = _reaching_products(body)
    for chosen in ([v in multiplied for v in carries], [a in collected for a in body.outputs[: len(carries)]]):
        if len(carries) == 2 and sum(chosen) == 1:
            return ["h" if is_h else "c" for is_h in chosen]
    return [f"state_{i}" for i in range(len(carries))]


def _reaching_products(body: Graph) -> set[Atom]:
    """Collect the values that a matrix product reads, directly or moved, joined or cast."""
    values: set[Atom] = set()
    for eqn in reversed(body.eqns):
        product = eqn.op.product == "matrices"
        is_moved = eqn.op.moves in _MOVES or eqn.op is ops.cast
        if product or (is_moved and values.intersection(eqn.outputs)):
            values.update(a for a in eqn.inputs if isinstance(a, Var))
    return values


def _through(eqn: Eqn, body: Graph, scans: Sequence[Eqn]) -> tuple[list[Carry], bool]:
    """List the carries of a composite's scans by its own operands and results; also whether one starts inside it."""
    inputs = {var: i for i, var in enumerate(body.inputs)}
    results = {atom: i for i, atom in reversed(list(enumerate(body.outputs)))}
    carries, hidden = [], False
    for inner in scans:
        for carry in _own(inner):
            start, end = inner.inputs[carry.operand], inner.outputs[carry.result or 0]
            if isinstance(start, Var) and start in inputs:
                name = eqn.params["arguments"][inputs[start]] if eqn.params["arguments"] else carry.role
                carries.append(Carry(inputs[start], results.get(end), _role(name)))
            else:
                hidden = True
    return carries, hidden


def _role(argument: str) -> str:
    for prefix in ("initial_", "init_"):
        argument = argument.removeprefix(prefix)
    return argument


def _runs_backwards(eqn: Eqn, body: Graph, scans: Sequence[Eqn], made: Mapping[Var, Eqn]) -> bool:
    outer = dict(zip(body.inputs, eqn.inputs, strict=True))
    return any(e.params["reverse"] or _is_reversed(e, {**made, **producers(body)}, outer) for e in scans)


def _is_reversed(eqn: Eqn, made: Mapping[Var, Eqn], outer: Mapping[Var, Atom | None] | None = None) -> bool:
    """Whether the steps that a scan reads were put in reverse order, followed back through what keeps steps apart."""
    _, _, xs = scan_parts(eqn.inputs, eqn.params)
    return any(_reversed_along(x, 0, made, outer or {}) for x in xs)


def _reversed_along(atom: Atom | None, axis: int, made: Mapping[Var, Eqn], outer: Mapping[Var, Atom | None]) -> bool:
    turned = False
    while isinstance(atom, Var):
        eqn = made.get(atom)
        if eqn is None:
            if atom not in outer:
                return turned
            atom = outer[atom]
            continue
        if _reverses(eqn, axis):
            turned = not turned
        elif eqn.op is ops.transpose and isinstance(eqn.inputs[1], Const):
            axis = int(eqn.inputs[1].array[axis])
        elif not _keeps_axes(eqn):
            return turned
        atom = next((a for a in eqn.inputs if isinstance(a, Var) and a.type.rank == atom.type.rank), None)
    return turned


def _reverses(eqn: Eqn, axis: int) -> bool:
    if eqn.op is ops.reverse_v2 and isinstance(eqn.inputs[1], Const):
        rank = eqn.outputs[0].type.rank
        return axis in {int(a) % rank for a in np.ravel(eqn.inputs[1].array)}
    if eqn.op is ops.strided_slice and isinstance(strides := eqn.inputs[3], Const):
        return axis < strides.array.size and int(strides.array[axis]) < 0
    return eqn.op.builtin == "REVERSE_SEQUENCE" and eqn.params.get("seq_dim") == axis


def _keeps_axes(eqn: Eqn) -> bool:
    """Whether each step of the result is computed from the same step of an operand of equal rank."""
    return eqn.op.elementwise or eqn.op.product == "matrices"
