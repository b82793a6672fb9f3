"""Questions and small rewrites on graphs; each is one linear walk."""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakKeyDictionary

from jfuse.ir.dims import Dim, same, substitute_value
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var, body_of
from jfuse.ir.types import DType, TensorType

_COPIES = 4  # of what a graph has: below it shared bodies are no matter


@body_of("Graph.producers")
def producers(of: Graph | Iterable[Eqn]) -> dict[Var, Eqn]:
    """The equation of a graph, or of some equations, that binds each Var; inputs are not in it."""
    return {var: eqn for eqn in (of.eqns if isinstance(of, Graph) else of) for var in eqn.outputs}


def use_counts(graph: Graph) -> Counter[Var]:
    """How often each Var is read, by equations and as a result of the graph."""
    counts = Counter(atom for eqn in graph.eqns for atom in eqn.inputs if isinstance(atom, Var))
    counts.update(atom for atom in graph.outputs if isinstance(atom, Var))
    return counts


@body_of("Graph.users")
def users(graph: Graph) -> dict[Var, list[Eqn]]:
    """The equations that read each Var, in order, an equation once for each operand."""
    readers: dict[Var, list[Eqn]] = {}
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            if isinstance(atom, Var):
                readers.setdefault(atom, []).append(eqn)
    return readers


def is_used(graph: Graph, var: Var) -> bool:
    """Whether an equation of the graph itself reads a Var, or it is a result."""
    return var in graph.outputs or any(var in eqn.inputs for eqn in graph.eqns)


def is_last_reader(graph: Graph, eqn: Eqn, var: Var) -> bool:
    """Whether an equation reads a Var once, and nothing reads it after that equation."""
    if var in graph.outputs or sum(atom is var for atom in eqn.inputs) != 1:
        return False
    place = next(i for i, other in enumerate(graph.eqns) if other is eqn)
    return not any(var in other.inputs for other in graph.eqns[place + 1 :])


def all_graphs(graph: Graph) -> Iterator[Graph]:
    """The graph and every body in it, outermost first; what several equations share comes once."""
    seen: set[int] = set()
    waiting = [graph]
    while waiting:
        inner = waiting.pop()
        if id(inner) in seen:
            continue
        seen.add(id(inner))
        yield inner
        waiting += [body for eqn in reversed(inner.eqns) for body in reversed(eqn.bodies)]


def expanded_size(graph: Graph) -> int:
    """How many equations the graph has where each body counts once for each equation that has it."""
    return by_bodies(graph, lambda inner, bodies: len(inner.eqns) + sum(bodies), {})


def shares_bodies(graph: Graph, most: int) -> bool:
    """Whether so many places share bodies that a copy for each makes more than `most` equations, mostly copies."""
    expanded = expanded_size(graph)
    return expanded > most and expanded > _COPIES * sum(1 for _ in all_eqns(graph))


def nesting(graph: Graph) -> int:
    """How deep bodies lie in each other; 0 for a graph without any."""
    return by_bodies(graph, lambda inner, bodies: 1 + max(bodies) if bodies else 0, {})


def by_bodies(graph: Graph, number: Callable[[Graph, Sequence[int]], int], found: MutableMapping[Graph, int]) -> int:
    """The number of a graph, which follows from those of the bodies of its equations. found: what is known so far."""
    waiting = [] if graph in found else [graph]
    while waiting:
        inner = waiting[-1]
        bodies = [body for eqn in inner.eqns for body in eqn.bodies]
        missing = [body for body in bodies if body not in found]
        waiting += missing
        if not missing:
            found[inner] = number(inner, [found[body] for body in bodies])
            waiting.pop()
    return found[graph]


@body_of("Graph.all_eqns")
def all_eqns(graph: Graph) -> Iterator[Eqn]:
    """Every equation, those of bodies included, of a shared body once."""
    for inner in all_graphs(graph):
        yield from inner.eqns


def live_eqns(graph: Graph, wanted: Sequence[Atom]) -> tuple[Eqn, ...]:
    """The equations that `wanted` needs or that have an effect, in their order."""
    needed = {atom for atom in wanted if isinstance(atom, Var)}
    live: list[Eqn] = []
    for eqn in reversed(graph.eqns):
        if eqn.effects or any(out in needed for out in eqn.outputs):
            needed.update(atom for atom in eqn.inputs if isinstance(atom, Var))
            live.append(eqn)
    return tuple(reversed(live))


def without_idle_states(graph: Graph, count: int) -> tuple[Graph, list[bool]]:
    """The graph without those of its `count` states that it neither reads nor changes; which of them are kept."""
    outputs = len(graph.outputs) - count
    states = list(zip(graph.inputs[len(graph.inputs) - count :], graph.outputs[outputs:], strict=True))
    read = use_counts(replace(graph, outputs=graph.outputs[:outputs]))
    read.update(after for before, after in states if after is not before and isinstance(after, Var))
    are_used = [after is not before or read[before] > 0 for before, after in states]
    if all(are_used):
        return graph, are_used
    left = [pair for pair, is_kept in zip(states, are_used, strict=True) if is_kept]
    inputs = (*graph.inputs[: len(graph.inputs) - count], *(before for before, _ in left))
    return replace(graph, inputs=inputs, outputs=(*graph.outputs[:outputs], *(after for _, after in left))), are_used


def substitute(eqn: Eqn, mapping: Mapping[Var, Atom]) -> Eqn:
    """The equation with the Vars among its operands replaced as `mapping` says; itself where it has none."""
    if not mapping or mapping.keys().isdisjoint(eqn.inputs):
        return eqn
    return replace(eqn, inputs=tuple(mapping.get(a, a) if isinstance(a, Var) else a for a in eqn.inputs))


def substitute_graph(graph: Graph, mapping: Mapping[Var, Atom]) -> Graph:
    """The graph with every use of a Var replaced; binders stay."""
    if not mapping:
        return graph
    outputs = tuple(mapping.get(a, a) if isinstance(a, Var) else a for a in graph.outputs)
    return replace(graph, eqns=tuple(substitute(eqn, mapping) for eqn in graph.eqns), outputs=outputs)


def rename_dims(graph: Graph, sizes: Mapping[str, Dim]) -> Graph:
    """The graph with symbols replaced in every type, known value and parameter, bodies included."""
    if not sizes:
        return graph
    return retype(graph, lambda t: t.substitute(sizes), lambda value: substitute_value(value, sizes))


def retype(
    graph: Graph,
    on_type: Callable[[TensorType], TensorType],
    on_value: Callable[[Any], Any] = lambda value: value,
    on_const: Callable[[Const], Const] = lambda const: const,
) -> Graph:
    """The graph rebuilt with new types: `on_type` for Vars, `on_value` for known values and parameters.

    on_const: called once for each Const object, so that what was shared stays shared.
    """
    return _Retype(on_type, on_value, on_const).graph(graph)


@dataclass
class _Retype:
    on_type: Callable[[TensorType], TensorType]
    on_value: Callable[[Any], Any]
    on_const: Callable[[Const], Const]
    renewed: dict[Atom, Atom] = field(default_factory=dict)
    graphs: dict[int, Graph] = field(default_factory=dict)  # by the old one's id; it lives as long as the whole

    def graph(self, graph: Graph) -> Graph:
        if id(graph) not in self.graphs:
            inputs = tuple(self.var(v) for v in graph.inputs)
            eqns = tuple(self.eqn(eqn) for eqn in graph.eqns)
            outputs = tuple(self.atom(a) for a in graph.outputs)
            self.graphs[id(graph)] = replace(graph, inputs=inputs, eqns=eqns, outputs=outputs)
        return self.graphs[id(graph)]

    def eqn(self, eqn: Eqn) -> Eqn:
        return replace(
            eqn,
            op=self.op(eqn.op),
            inputs=tuple(None if a is None else self.atom(a) for a in eqn.inputs),
            bodies=tuple(self.graph(body) for body in eqn.bodies),
            params={k: self.on_value(v) for k, v in eqn.params.items()},
            outputs=tuple(self.var(v) for v in eqn.outputs),
        )

    def op(self, op: Op) -> Op:
        return op.map_types(self.on_type)

    def var(self, var: Var) -> Var:
        value = None if var.value is None else self.on_value(var.value)
        renewed = self.renewed[var] = Var(self.on_type(var.type), var.name, value)
        return renewed

    def atom(self, atom: Atom) -> Atom:
        if isinstance(atom, Const) and atom not in self.renewed:
            self.renewed[atom] = self.on_const(atom)
        return self.renewed[atom]


def with_float(graph: Graph, dtype: DType) -> Graph:
    """The graph computed in another float width: every f32 tensor, constant and dtype parameter becomes `dtype`."""

    def on_type(t: TensorType) -> TensorType:
        return replace(t, dtype=dtype) if t.dtype is DType.f32 else t

    def on_value(value: Any) -> Any:
        return dtype if value is DType.f32 else value

    def on_const(const: Const) -> Const:
        return Const(const.array.astype(dtype.numpy), const.name) if const.type.dtype is DType.f32 else const

    return retype(graph, on_type, on_value, on_const)


def with_bodies(graph: Graph, function: Callable[[Graph], Graph]) -> Graph:
    """The graph with `function` applied to the bodies of its equations; the same object where it changes none."""
    eqns = tuple(with_new_bodies(eqn, function) for eqn in graph.eqns)
    return graph if all(map(operator.is_, eqns, graph.eqns)) else replace(graph, eqns=eqns)


def with_new_bodies(eqn: Eqn, function: Callable[[Graph], Graph]) -> Eqn:
    """The equation with `function` applied to its bodies; the same object where it changes none."""
    if not eqn.bodies:
        return eqn
    bodies = tuple(map(function, eqn.bodies))
    return eqn if all(map(operator.is_, bodies, eqn.bodies)) else replace(eqn, bodies=bodies)


def has_effects(graph: Graph) -> bool:
    """Whether some equation, those of bodies included, reads or writes a state."""
    return bool(by_bodies(graph, lambda inner, bodies: any(e.effects for e in inner.eqns) or any(bodies), _EFFECTS))


_EFFECTS: MutableMapping[Graph, int] = WeakKeyDictionary()  # passes ask at each level of bodies in bodies


def is_same_type(a: TensorType, b: TensorType) -> bool:
    """Whether two tensors are surely of one type, whatever the run-time sizes."""
    return a == b or (
        a.dtype is b.dtype
        and a.quantization == b.quantization
        and a.rank == b.rank
        and all(same(d, e) is True for d, e in zip(a.shape, b.shape, strict=True))
    )
