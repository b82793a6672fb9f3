"""Dead code: equations nobody reads, and what loops and branches carry for nobody."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TypeVar
from weakref import WeakSet

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import has_effects, producers, with_new_bodies
from jfuse.kernels import control

T = TypeVar("T")


def eliminate_dead_code(graph: Graph) -> Graph:
    """The graph without equations that nobody reads, in bodies too; the same object where there are none.

    Equations with effects stay, and so does the interface of a composite.
    """
    if graph in _CLEAN:
        return graph
    read = {atom for atom in graph.outputs if isinstance(atom, Var)}
    live: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        effects = bool(eqn.effects) or any(has_effects(body) for body in eqn.bodies)
        if not effects and not any(out in read for out in eqn.outputs):
            continue
        slim = _slim(eqn, [out in read for out in eqn.outputs]) if eqn.bodies else eqn
        read.update(atom for atom in slim.inputs if isinstance(atom, Var))
        live.append(slim)
    eqns = tuple(reversed(live))
    unchanged = len(eqns) == len(graph.eqns) and all(map(operator.is_, eqns, graph.eqns))
    if not unchanged:
        return replace(graph, eqns=eqns)
    _CLEAN.add(graph)
    return graph


_CLEAN: WeakSet[Graph] = WeakSet()  # graphs without dead code: passes ask at each level of bodies in bodies


def needed_inputs(body: Graph, outputs: Iterable[int], carried: Mapping[int, int]) -> set[int]:
    """The inputs of a body on which some outputs depend, over any number of turns, or that its effects read.

    carried: input -> the output that it gets in the next turn.
    """
    made_by = producers(body)
    index = {var: i for i, var in enumerate(body.inputs)}
    pending: list[Atom | None] = [body.outputs[o] for o in outputs]
    pending += [a for e in body.eqns if e.effects or any(map(has_effects, e.bodies)) for a in e.inputs]
    seen: set[Var] = set()
    while pending:
        atom = pending.pop()
        if not isinstance(atom, Var) or atom in seen:
            continue
        seen.add(atom)
        if atom not in index:
            pending.extend(made_by[atom].inputs)
        elif index[atom] in carried:
            pending.append(body.outputs[carried[index[atom]]])
    return {index[var] for var in seen if var in index}


def _slim(eqn: Eqn, read: Sequence[bool]) -> Eqn:
    if eqn.op is control.while_:
        slim = _slim_while(eqn, read)
    elif eqn.op is control.scan:
        slim = _slim_scan(eqn, read)
    elif eqn.op is control.if_:
        slim = _slim_if(eqn, read)
    else:
        slim = eqn
    return with_new_bodies(slim, eliminate_dead_code)


def _slim_while(eqn: Eqn, read: Sequence[bool]) -> Eqn:
    cond, body = eqn.bodies
    needed_carries = {i for i, r in enumerate(read) if r} | needed_inputs(cond, [0], {})
    keep = sorted(needed_carries | needed_inputs(body, needed_carries, {i: i for i in range(len(read))}))
    if len(keep) == len(read):
        return eqn
    cond = replace(cond, inputs=_at(cond.inputs, keep))
    body = replace(body, inputs=_at(body.inputs, keep), outputs=_at(body.outputs, keep))
    return replace(eqn, inputs=_at(eqn.inputs, keep), outputs=_at(eqn.outputs, keep), bodies=(cond, body))


def _slim_scan(eqn: Eqn, read: Sequence[bool]) -> Eqn:
    (body,) = eqn.bodies
    consts, carries = eqn.params["consts"], eqn.params["carries"]
    needed_carries = {i for i, r in enumerate(read) if r}
    needed = needed_inputs(body, needed_carries, {consts + i: i for i in range(carries)})
    needed |= {consts + i for i in needed_carries if i < carries}
    first_x = consts + carries
    if not is_known(eqn.params["length"]) and not any(i >= first_x for i in needed):
        needed.add(first_x)  # the number of steps is known from a step input alone
    if len(needed) == len(eqn.inputs) and all(read[carries:]):
        return eqn
    inputs = sorted(needed)
    outputs = [i for i in range(len(read)) if (consts + i in needed if i < carries else read[i])]
    counts = {"consts": sum(i < consts for i in inputs), "carries": sum(consts <= i < first_x for i in inputs)}
    return replace(
        eqn,
        inputs=_at(eqn.inputs, inputs),
        outputs=_at(eqn.outputs, outputs),
        params={**eqn.params, **counts},
        bodies=(replace(body, inputs=_at(body.inputs, inputs), outputs=_at(body.outputs, outputs)),),
    )


def _slim_if(eqn: Eqn, read: Sequence[bool]) -> Eqn:
    outputs = [i for i, r in enumerate(read) if r]
    needed = sorted(set().union(*(needed_inputs(body, outputs, {}) for body in eqn.bodies)))
    if len(outputs) == len(read) and len(needed) == len(eqn.inputs) - 1:
        return eqn
    bodies = tuple(replace(b, inputs=_at(b.inputs, needed), outputs=_at(b.outputs, outputs)) for b in eqn.bodies)
    inputs = (eqn.inputs[0], *_at(eqn.inputs[1:], needed))
    return replace(eqn, inputs=inputs, outputs=_at(eqn.outputs, outputs), bodies=bodies)


def _at(items: Sequence[T], indices: Sequence[int]) -> tuple[T, ...]:
    return tuple(items[i] for i in indices)
