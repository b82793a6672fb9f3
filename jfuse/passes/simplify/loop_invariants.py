"""Binds loop invariants in the bodies of loops and branches: constants, and carried values that never change."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Params, Var
from jfuse.ir.trace import active_trace
from jfuse.ir.walk import substitute_graph
from jfuse.kernels import control
from jfuse.lowering.peephole import GraphView
from jfuse.passes.rewrite import inline


def bind_carried(eqn: Eqn, view: GraphView) -> Sequence[Atom] | None:
    """The results of the equation, recorded again with less to carry; None where there is nothing to bind.

    The result of a value that never changes is its operand. An IF of a constant flag is the branch that it takes. A
    composite keeps its operands, which rules ask for by name.
    """
    bind = _BINDERS.get(eqn.op)
    return None if bind is None else bind(eqn, view)


def _bind_while(eqn: Eqn, view: GraphView) -> Sequence[Atom] | None:
    cond, body = eqn.bodies
    still = {i for i, (out, var) in enumerate(zip(body.outputs, body.inputs, strict=True)) if out is var}
    bound = {i for i in still if isinstance(eqn.inputs[i], Const)}
    read = any(view.readers(eqn.outputs[i]) for i in still)
    if not (bound or read) or len(bound) == len(eqn.inputs):
        return None
    keep = [i for i in range(len(eqn.inputs)) if i not in bound]
    cond, body = (_bound(graph, eqn.inputs, bound) for graph in (cond, body))
    body = replace(body, outputs=tuple(body.outputs[i] for i in keep))
    carried = dict(zip(keep, _record(eqn, keep, keep, (cond, body)), strict=True))
    return [_atom(eqn.inputs[i]) if i in still else carried[i] for i in range(len(eqn.inputs))]


def _bind_scan(eqn: Eqn, view: GraphView) -> Sequence[Atom] | None:
    (body,) = eqn.bodies
    consts, carries = eqn.params["consts"], eqn.params["carries"]
    still = [i for i in range(carries) if body.outputs[i] is body.inputs[consts + i]]
    fixed = [*range(consts), *(consts + i for i in still)]
    bound = {i for i in fixed if isinstance(eqn.inputs[i], Const)}
    if not bound and not still:
        return None
    moving = [i for i in range(consts, len(eqn.inputs)) if i - consts not in still]
    order = [i for i in fixed if i not in bound] + moving
    outputs = [i for i in range(len(eqn.outputs)) if i not in still]
    params = {**eqn.params, "consts": len(fixed) - len(bound), "carries": carries - len(still)}
    body = _bound(replace(body, outputs=tuple(body.outputs[i] for i in outputs)), eqn.inputs, bound)
    body = replace(body, inputs=tuple(eqn.bodies[0].inputs[i] for i in order))
    stacked = dict(zip(outputs, _record(eqn, order, outputs, (body,), params), strict=True))
    return [stacked[i] if i in stacked else _atom(eqn.inputs[consts + i]) for i in range(len(eqn.outputs))]


def _bind_if(eqn: Eqn, view: GraphView) -> Sequence[Atom] | None:
    flag, *operands = eqn.inputs
    if isinstance(flag, Const):
        branch = eqn.bodies[0 if bool(flag.array.reshape(())) else 1]
        return inline(branch, [_atom(o) for o in operands])
    bound = {i for i, operand in enumerate(operands) if isinstance(operand, Const)}
    if not bound:
        return None
    keep = [0, *(i + 1 for i in range(len(operands)) if i not in bound)]
    bodies = tuple(_bound(body, operands, bound) for body in eqn.bodies)
    return _record(eqn, keep, range(len(eqn.outputs)), bodies)


_BINDERS: dict[Op, Callable[[Eqn, GraphView], Sequence[Atom] | None]] = {
    control.while_: _bind_while,
    control.scan: _bind_scan,
    control.if_: _bind_if,
}


def _bound(body: Graph, operands: Sequence[Atom | None], indices: Collection[int]) -> Graph:
    """Replace some inputs of the body by their operands."""
    constants = {body.inputs[i]: _atom(operands[i]) for i in indices}
    inputs = tuple(var for i, var in enumerate(body.inputs) if i not in indices)
    return replace(substitute_graph(body, constants), inputs=inputs)


def _record(
    eqn: Eqn, inputs: Sequence[int], outputs: Sequence[int], bodies: tuple[Graph, ...], params: Params | None = None
) -> Sequence[Atom]:
    """Record the equation with those of its operands and results."""
    results = tuple(Var(eqn.outputs[i].type) for i in outputs)
    operands = tuple(eqn.inputs[i] for i in inputs)
    recorded = replace(
        eqn, inputs=operands, outputs=results, bodies=bodies, params=eqn.params if params is None else params
    )
    active_trace().record(recorded)
    return results


def _atom(atom: Atom | None) -> Atom:
    assert atom is not None, "structured ops have no optional operands"
    return atom
