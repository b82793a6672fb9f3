"""Simplification to a fixed point: drop, share, fold and merge, each sweep linear in the number of equations."""

from __future__ import annotations

import operator
from collections.abc import Callable, Collection, Mapping, MutableSet, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Params, Var, arrays_of
from jfuse.ir.trace import active_trace
from jfuse.ir.walk import has_effects, is_same_type, substitute_graph, with_bodies, with_new_bodies
from jfuse.kernels import control
from jfuse.kernels.control import composite, scan
from jfuse.kernels.core.op import draws
from jfuse.lowering.peephole import GRAPH_REWRITES, PEEPHOLE_RULES, GraphView, PeepholeRule
from jfuse.lowering.peephole.registry import rule_name
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_constants, constant_of
from jfuse.passes.context import Context
from jfuse.passes.rewrite import Rewriting, inline, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code

_FOLDED_BYTES = 64 << 10  # a folded result may be this large, or as large as what it is made of
# Constants up to this size are equal by content, larger ones by identity: weights are not read.
_COMPARED_BYTES = 1 << 10
_SWEEPS = 100  # far more than any graph needs; rules that undo each other need more
_LAST = 10  # sweeps, in which rules that undo each other have all been at work


def simplify(
    graph: Graph,
    ctx: Context,
    merges: Mapping[Op, Sequence[PeepholeRule]] = PEEPHOLE_RULES,
    done: dict[Graph, Graph] | None = None,
) -> Graph:
    """An equal graph with fewer and simpler equations; inputs and results keep their names, types and order.

    merges: the rewrite rules by the op of the last equation that they look at. done: what came out for each graph that
    was simplified by them before; this one and its bodies are added.
    """
    rules = _Rules(merges, ctx.rounds_weights, ctx.report.notes)
    return _simplified(graph, rules, {} if done is None else done)


@dataclass(frozen=True)
class _Rules:
    """The rewrite rules, and whether the weights of an equation are to be kept in few bits, which some ask.

    notes: gets a line about rules that undo each other.
    """

    merges: Mapping[Op, Sequence[PeepholeRule]]
    rounds_weights: Callable[[Eqn], bool]
    notes: list[str]


def _simplified(graph: Graph, rules: _Rules, done: dict[Graph, Graph]) -> Graph:
    """The fixed point; where rules undo each other, the shortest of the last graphs, and a note that names them.

    done: what came out for each body so far, so that a body that stays is not walked again.
    """
    simplified = done.get(graph)
    if simplified is not None:
        return simplified
    current, last = graph, list[Graph]()
    applied: set[str] = set()
    for sweep in range(_SWEEPS):
        current = with_bodies(eliminate_dead_code(current), lambda body: _simplified(body, rules, done))
        if sweep >= _SWEEPS - _LAST:
            last.append(current)
        else:
            applied.clear()
        swept = _swept(current, rules, applied)
        if swept is current:
            break
        current = swept
    else:
        current = min(last, key=lambda graph: len(graph.eqns))
        undone = f"{len(applied)} rewrites undo each other, please report it: {', '.join(sorted(applied))}"
        rules.notes.append(f"simplify found no end in graph {graph.name} and kept its shortest form; {undone}")
    done[graph] = done[current] = current
    return current


def _swept(graph: Graph, rules: _Rules, applied: MutableSet[str]) -> Graph:
    """The graph after one sweep, or after the rewrites of whole graphs where that changes nothing.

    applied: the names of the rules that change something are added.
    """
    swept = _Sweep(graph, rules, applied).run()
    if swept is graph:
        for merge in GRAPH_REWRITES:
            before, swept = swept, merge(swept, rules.rounds_weights)
            if swept is not before:
                applied.add(merge.__name__)
    return swept


class _Sweep:
    """One walk over a graph in execution order."""

    def __init__(self, graph: Graph, rules: _Rules, applied: MutableSet[str]) -> None:
        self._state = Rewriting(graph, rules.rounds_weights)
        self._merges = rules.merges
        self._applied = applied
        self._seen: dict[Any, Eqn] = {}

    def run(self) -> Graph:
        """The graph after the walk; the same object where nothing changed."""
        return self._state.run(self._visit)

    def _visit(self, eqn: Eqn) -> Sequence[Any] | None:
        """The equation's results where they can be had more simply."""
        if eqn.effects:
            return None
        if eqn.bodies:
            return None if any(map(has_effects, eqn.bodies)) else bind_carried(eqn, self._state)
        results = None if draws(eqn) else folded(eqn) or self._shared(eqn)
        return self._merged(eqn) if results is None else results

    def _shared(self, eqn: Eqn) -> Sequence[Atom] | None:
        key = _key(eqn)
        first = self._seen.setdefault(key, eqn)
        return None if first is eqn else [self._state.current(out) for out in first.outputs]

    def _merged(self, eqn: Eqn) -> Sequence[Any] | None:
        for rule in self._merges.get(eqn.op, ()):
            results = rule(eqn, self._state)
            if results is not None:
                self._applied.add(rule_name(rule))
                return results if isinstance(results, tuple) else (results,)
        return None


def _key(eqn: Eqn) -> Any:
    """Equal for equations that compute the same: op, operands, parameters and result types."""
    params = tuple((name, _exact(value)) for name, value in eqn.params.items())
    return eqn.op, tuple(map(_operand, eqn.inputs)), params, tuple(out.type for out in eqn.outputs)


def _operand(atom: Atom | None) -> Any:
    if not isinstance(atom, Const):
        return atom
    if atom.array.nbytes <= _COMPARED_BYTES and atom.array.dtype != object:
        return atom.digest
    return atom.memory, atom.type, atom.array.strides  # views of one array, as sources hand out a weight at each use


def _exact(value: Any) -> Any:
    """A key that tells 1 from True and 0.0 from -0.0, which are equal in Python."""
    if isinstance(value, tuple):
        return tuple(map(_exact, value))
    return (type(value), repr(value)) if isinstance(value, bool | int | float) else value


def folded(eqn: Eqn) -> Sequence[np.ndarray] | None:
    """The results of an equation on constants; None where it has others, or they would grow the file."""
    arrays = arrays_of(eqn.inputs)
    if not eqn.op.is_kernel or not arrays or any(isinstance(a, Var) for a in arrays):
        return None
    limit = max(_FOLDED_BYTES, sum(a.nbytes for a in arrays if isinstance(a, np.ndarray)))
    if any(not all(map(is_known, out.type.shape)) or _size(out) > limit for out in eqn.outputs):
        return None
    return eqn.op.run(arrays, eqn.params, ())


def _size(var: Var) -> int:
    return int(var.type.size) * var.type.dtype.numpy.itemsize


# Binds loop invariants in the bodies of loops and branches: constants, and carried values that never change.


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


# Choices that are decided before the model runs: selects by one constant, products with ones.

_LARGEST = 1 << 16  # elements of a constant that is looked at; paddings have one for each row and step

Done = dict[Any, Graph]


def fold_selects(graph: Graph) -> Graph:
    """The graph with the chosen value for each select whose condition is one constant, in bodies too.

    Cells are called with paddings and masks that are zeros of whatever batch, in one step or in all: they would be read
    as masked steps; and with dropout masks of ones, a product for each gate.
    """
    return _settled(graph, {}, {})


def _settled(graph: Graph, given: Known, done: Done) -> Graph:
    """given: inputs that hold one value, as a scalar. done: what came out so far, so that shared bodies stay shared."""
    key = (graph, tuple((var, value.item()) for var, value in given.items()))
    if key not in done:
        known = broadcast_constants(graph, given)
        settled = rewrite(graph, lambda eqn: _chosen(eqn, known))
        eqns = tuple(_with_settled_bodies(eqn, known, done) for eqn in settled.eqns)
        same = all(map(operator.is_, eqns, settled.eqns))
        done[key] = settled if same else replace(settled, eqns=eqns)
    return done[key]


def _chosen(eqn: Eqn, known: Known) -> Sequence[Any] | None:
    """The value that a select or a product surely is, where that has the result's shape."""
    chosen: Atom | None = None
    if eqn.op.product == "elements" and eqn.params["fused_activation_function"] == "NONE":
        x, y = eqn.inputs
        chosen = x if _value(y, known) == 1 else y if _value(x, known) == 1 else None
    elif eqn.op.selects:
        condition, yes, no = eqn.inputs
        value = _value(condition, known)
        chosen = None if value is None else yes if value.item() else no
    fits = chosen is not None and is_same_type(chosen.type, eqn.outputs[0].type)
    return [chosen] if fits else None


def _with_settled_bodies(eqn: Eqn, known: Known, done: Done) -> Eqn:
    if not eqn.bodies:
        return eqn
    unchanging: Sequence[Atom | None] = ()
    if eqn.op is scan:  # its constants, and sequences whose steps are all equal; not its carries
        first, last = eqn.params["consts"], eqn.params["consts"] + eqn.params["carries"]
        unchanging = [a if not first <= i < last else None for i, a in enumerate(eqn.inputs)]
    elif eqn.op is composite:
        unchanging = eqn.inputs

    def settled(body: Graph) -> Graph:
        values = {var: _value(a, known) for var, a in zip(body.inputs, unchanging, strict=False)}
        return _settled(body, {var: value for var, value in values.items() if value is not None}, done)

    return with_new_bodies(eqn, settled)


def _value(atom: Atom | None, known: Mapping[Var, np.ndarray]) -> np.ndarray | None:
    """The one value of all elements, as a scalar; None where there are several, or none is known."""
    array = None if atom is None else constant_of(atom, known)
    if array is None or not 0 < array.size <= _LARGEST or array.dtype.kind not in "bif":
        return None
    first = array.reshape(-1)[0]
    return np.asarray(first) if (array == first).all() else None
