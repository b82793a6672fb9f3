"""Gives values that LiteRT would overwrite before they are read memory of their own.

A RESHAPE shares its operand's memory, and an ADD writes its result over an operand that nothing else reads. LiteRT's
arena planner looks for other readers of that operand, and of the value in whose memory all of them began, but not of
those in between: of `m = mul(sin(x), 2)` in the memory of the sine, `add(reshape(m), 5)` overwrites m (LiteRT 2.3.0,
tflite/arena_planner.cc, IdentifyInPlaceTensors). Delegates plan their own memory.

The basic LSTM writes into two of its operands whatever else reads them. Delegates run operators in another order, so
that even an earlier reader may come after it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from jfuse.ir.dims import is_known, product
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import producers, use_counts, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.opaque_ops.state_operands import overwritten_operands
from jfuse.tflite.runtime.row import InPlace
from jfuse.tflite.runtime.table import litert_of

_SCALAR_BYTES = 4  # of a value that the planner never has overwritten


def memory_apart(graph: Graph) -> Graph:
    """Promise that no operator overwrites a value that a later one reads, in bodies too."""
    return _apart(graph, {}, is_loop=False)


def _apart(graph: Graph, done: dict[int, Graph], *, is_loop: bool) -> Graph:
    """is_loop: whether it is the body of a WHILE, which writes the inputs anew before each turn."""
    loops = {id(eqn.bodies[1]) for eqn in graph.eqns if eqn.op is while_}

    def body(inner: Graph) -> Graph:
        if id(inner) not in done:  # equations that share a body go on sharing it
            done[id(inner)] = _apart(inner, done, is_loop=id(inner) in loops)
        return done[id(inner)]

    graph = _with_own_operands(with_bodies(graph, body), frozenset(graph.inputs) if is_loop else frozenset())
    plan = _Plan(graph)
    eqns = tuple(e for place, eqn in enumerate(graph.eqns) for e in plan.placed(place, eqn))
    return replace(graph, eqns=eqns) if len(eqns) > len(graph.eqns) else graph


def _with_own_operands(graph: Graph, free: frozenset[Var]) -> Graph:
    """The graph with a copy of each operand that an operator overwrites, unless it is made for that operator alone.

    free: inputs that may be overwritten.
    """
    if not any(map(overwritten_operands, graph.eqns)):
        return graph
    counts, made = use_counts(graph), producers(graph)

    def is_its_own(atom: Atom) -> bool:
        if not isinstance(atom, Var):
            return False
        maker = made.get(atom)
        is_free = atom in free if maker is None else _in_place(maker) is None
        return is_free and counts[atom] == 1

    eqns: list[Eqn] = []
    for eqn in graph.eqns:
        inputs = list(eqn.inputs)
        for place in overwritten_operands(eqn):
            atom = inputs[place]
            if isinstance(atom, Var) and not is_its_own(atom):
                eqns.append(_copy(atom, eqn))
                inputs[place] = eqns[-1].outputs[0]
        eqns.append(replace(eqn, inputs=tuple(inputs)))
    return replace(graph, eqns=tuple(eqns))


class _Plan:
    """Whose memory each value has, as LiteRT's arena planner decides it in the order of the operators."""

    def __init__(self, graph: Graph) -> None:
        self._inputs, self._outputs = frozenset(graph.inputs), frozenset(graph.outputs)
        read = [(atom, place) for place, eqn in enumerate(graph.eqns) for atom in eqn.inputs if atom is not None]
        self._readers = Counter([atom for atom, _ in read] + [*graph.inputs, *graph.outputs])
        self._last = dict(read)
        self._began_as: dict[Atom, Var] = {}
        self._sharing: dict[Var, list[Var]] = {}

    def placed(self, place: int, eqn: Eqn) -> Iterator[Eqn]:
        """The equation, behind a copy of the operand that it would overwrite where others read its memory later."""
        in_place = _in_place(eqn)
        taken = None if in_place is None else self._taken(eqn, in_place)
        if in_place is None or taken is None:
            yield eqn
            return
        began = self._began_as.get(taken, taken)
        if in_place.changes and self._readers[began] > 1:
            yield eqn
            return
        beside = [v for v in self._sharing.get(began, []) if v is not taken and self._last.get(v, -1) > place]
        if in_place.changes and beside:
            copy = _copy(taken, eqn)
            yield copy
            began = copy.outputs[0]
            eqn = replace(eqn, inputs=tuple(began if atom is taken else atom for atom in eqn.inputs))
        self._began_as[eqn.outputs[0]] = began
        self._sharing.setdefault(began, []).append(eqn.outputs[0])
        yield eqn

    def _taken(self, eqn: Eqn, in_place: InPlace) -> Var | None:
        """The operand whose memory the first result gets."""
        result = eqn.outputs[0]
        if result in self._outputs:
            return None
        for atom in eqn.inputs[: in_place.operands]:
            if not isinstance(atom, Var) or atom in self._inputs:
                continue
            if not in_place.changes or (self._readers[atom] == 1 and _can_hold(atom, result)):
                return atom
        return None


def _in_place(eqn: Eqn) -> InPlace | None:
    runtime = litert_of(eqn.op.builtin)
    return None if runtime is None else runtime.in_place


def _can_hold(operand: Atom, result: Var) -> bool:
    """Whether two values may have the same bytes, and more than a scalar; so it is where sizes are open."""
    counts = [product(v.type.shape) for v in (operand, result)]
    if not all(map(is_known, counts)):
        return True
    sizes = [int(n) * v.type.dtype.numpy.itemsize for n, v in zip(counts, (operand, result), strict=True)]
    return sizes[0] == sizes[1] > _SCALAR_BYTES


def _copy(atom: Var, eqn: Eqn) -> Eqn:
    """CONCATENATION of the one value, which never shares memory; of a scalar its MAXIMUM with itself."""
    result = (Var(atom.type),)
    if not atom.type.rank:
        return Eqn(ops.maximum, (atom, atom), result, ops.maximum.bind_options({}), eqn.source)
    return Eqn(ops.concatenation, (atom,), result, ops.concatenation.bind_options({"axis": 0}), eqn.source)
