"""Values of a program on XLA by node name, for look-ups from the equations of another."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.ir.evaluate import sizes_of
from jfuse.ir.graph import Const, Eqn, Graph, Source, Var
from jfuse.kernels.control import scan_parts
from jfuse.verification.locate.local_errors import LocalStep, Walk, compute, value_of
from jfuse.verification.locate.rounding import rounding_of
from jfuse.verification.runners.node_values import Nodes, Value

_LOOPS = frozenset({"while", "scan"})
_SAMPLED = 16  # elements that are compared before all of them
_TURNS = 1000
_MOST_AXES = 4  # that are tried in every order


def recorded(graph: Graph, args: Sequence[np.ndarray]) -> tuple[Nodes, list[Value]]:
    """The values of a graph on XLA, and its results; functions and the branches that are taken are part of it."""
    nodes = Nodes()
    return nodes, _record(graph, args, nodes)


def _record(graph: Graph, args: Sequence[Value], nodes: Nodes) -> list[Value]:
    env: dict[Var, Value] = dict(zip(graph.inputs, args, strict=True))
    for eqn in graph.eqns:
        operands = [value_of(atom, env) for atom in eqn.inputs]
        nodes.constants += [atom.array for atom in eqn.inputs if isinstance(atom, Const)]
        results = compute(eqn, operands, env)
        arrays = [v for v in operands if v is not None]
        if eqn.bodies and len(arrays) == len(operands):
            with sizes_of(env):
                _record_bodies(eqn, arrays, nodes)
        nodes.add(name_of(eqn.source), eqn.op.name, results)
        env.update(zip(eqn.outputs, results, strict=True))
    return [value_of(atom, env) for atom in graph.outputs]


def _record_bodies(eqn: Eqn, operands: Sequence[np.ndarray], nodes: Nodes) -> None:
    if eqn.op.name == "composite":
        _record(eqn.bodies[0], operands, nodes)
    elif eqn.op.name == "if":
        flag, *values = operands
        _record(eqn.bodies[0 if flag.reshape(()) else 1], values, nodes)
    elif eqn.op.name in ("while", "scan"):
        turns = _loop_turns if eqn.op.name == "while" else _scan_turns
        nodes.turns[name_of(eqn.source)] = cache(lambda: turns(eqn, operands))


def _loop_turns(eqn: Eqn, carried: Sequence[np.ndarray]) -> list[Mapping[int, Nodes]]:
    condition, body = eqn.bodies
    turns: list[Mapping[int, Nodes]] = []
    while len(turns) < _TURNS:
        turn = {0: Nodes(), 1: Nodes()}
        turns.append(turn)
        (flag,) = _record(condition, carried, turn[0])
        if flag is None or not flag.reshape(()):
            break
        results = _record(body, carried, turn[1])
        carried = [r for r in results if r is not None]
        if len(carried) < len(results):
            break
    return turns


def _scan_turns(eqn: Eqn, operands: Sequence[np.ndarray]) -> list[Mapping[int, Nodes]]:
    consts, carried, xs = scan_parts(operands, eqn.params)
    count = min(len(xs[0]) if xs else 0, _TURNS)
    turns: list[Mapping[int, Nodes]] = []
    for turn in range(count):
        at = count - 1 - turn if eqn.params["reverse"] else turn
        turns.append({0: Nodes()})
        results = _record(eqn.bodies[0], [*consts, *carried, *(x[at] for x in xs)], turns[-1][0])
        if any(r is None for r in results):
            break
        carried = [r for r in results[: len(carried)] if r is not None]
    return turns


def name_of(source: Source) -> str:
    """The path of a node, with the functions around it."""
    return "/".join((*source.stack, source.node)) if source.node else ""


class ByName:
    """The other side of a graph, matched by name, or else by equal values.

    outputs: values that are known to be those of these variables.
    """

    certain = False

    def __init__(self, graph: Graph, nodes: Nodes, outputs: Mapping[Var, np.ndarray]) -> None:
        self._nodes = nodes
        self._outputs = outputs
        self._places = dict(_places(graph))
        self._pool = _Pool()
        for name, array in nodes.arrays():
            self._pool.add(name, array)
        self._constants = _Pool()
        for array in nodes.constants:
            self._constants.add("", array, trivial=True)

    def results(self, number: int, eqn: Eqn, computed: Sequence[Value]) -> Sequence[Value]:
        """The values that the node of an equation has, where it is the equation of the node that gives them."""
        matches = [self._outputs.get(var) for var in eqn.outputs]
        named, alike = self._named(number, eqn)
        if eqn.op.name in _LOOPS and not all(map(_is_of_type, named, eqn.outputs)):
            named = ()  # a loop may carry other values, in another order
        for i, (var, value) in enumerate(zip(eqn.outputs, computed, strict=True)):
            match = _fitting(named[i], var, value, alike) if i < len(named) else None
            # An equation may be right although it stands where another output should: its own node tells.
            if match is not None and (matches[i] is None or (value is not None and _is_near(value, match))):
                matches[i] = match
            if matches[i] is None and value is not None:
                matches[i] = self._equal(value)
        return matches

    def enter(self, walk: Walk, step: LocalStep, body: int, turn: int, operands: Sequence[np.ndarray]) -> ByName | None:
        """Functions and branches are part of the same values; loops have their own for each turn."""
        if step.eqn.op.name in ("composite", "if"):
            return ByName(step.eqn.bodies[body], self._nodes, {})
        name = name_of(step.eqn.source)
        turns = self._nodes.turns[name]() if name in self._nodes.turns else ()
        nodes_by_body: Mapping[int, Nodes] = turns[turn] if turn < len(turns) else {}
        counted = bool(turns) and 1 not in turns[0]  # a scan has one body, a loop a condition before it
        number = body - 1 if counted and step.eqn.op.name == "while" else body
        if number in nodes_by_body:
            return ByName(step.eqn.bodies[body], nodes_by_body[number], {})
        is_condition = number < 0 and turn <= len(turns)
        return ByName(step.eqn.bodies[body], Nodes(), {}) if is_condition else None

    def candidates(self, eqn: Eqn, shape: Sequence[int], dtype: np.dtype) -> Iterable[np.ndarray]:
        """The values of its node, in any shape; then those of the shape, of nodes near first; then the constants."""
        name = name_of(eqn.source)
        parts = name.split("/")
        for _, results in self._nodes.results.get(name, ()):
            for array in results:
                yield array
                yield from reordered(array, shape)
        for pool in (self._pool, self._turn_pool):
            alike = pool.alike(shape, dtype)
            yield from (a for _, a in sorted(alike, key=lambda entry: -_in_common(parts, entry[0])))
        yield from (a for _, a in self._constants.alike(shape, dtype))

    def _named(self, number: int, eqn: Eqn) -> tuple[tuple[np.ndarray, ...], bool]:
        """The values of the equation's node that should be its results, and whether they are those of the same op."""
        name, node = name_of(eqn.source), eqn.source.node
        results = self._nodes.results
        entries = (results.get(name) or results.get(node) or self._in_turns.get(name)) if node else None
        if not entries:
            return (), False
        origin = self._places[number]
        if origin.of_node[1] == len(entries):
            op, found = entries[origin.of_node[0]]
            return (found, op == eqn.op.name) if len(found) == len(eqn.outputs) else ((), False)
        alike = [found for op, found in entries if op == eqn.op.name]
        if origin.of_op[1] == len(alike):
            return alike[origin.of_op[0]], True
        last = entries[-1][1]
        return (last if origin.is_last and len(last) == len(eqn.outputs) else ()), False

    @cached_property
    def _in_turns(self) -> dict[str, list[tuple[str, tuple[np.ndarray, ...]]]]:
        """Results of nodes in loops, turn by turn, for the equations of an unrolled loop."""
        entries_by_node: dict[str, list[tuple[str, tuple[np.ndarray, ...]]]] = {}
        for turns in dict.fromkeys(self._nodes.turns.values()):  # a loop may go by several names
            for nodes in (n for turn in turns() for n in turn.values()):
                for name, entries in nodes.results.items():
                    entries_by_node.setdefault(name, []).extend(entries)
        return entries_by_node

    @cached_property
    def _turn_pool(self) -> _Pool:
        pool = _Pool()
        for name, entries in self._in_turns.items():
            for array in (a for _, results in entries for a in results):
                pool.add(name, array)
        return pool

    def _equal(self, value: np.ndarray) -> Value:
        match = self._pool.equal(value, rounding_of(value.dtype))
        return self._constants.equal(value, 0.0) if match is None else match


class _Pool:
    """Arrays by shape and dtype."""

    def __init__(self) -> None:
        self._of: dict[tuple[tuple[int, ...], np.dtype], list[tuple[str, np.ndarray]]] = {}

    def add(self, name: str, array: np.ndarray, *, trivial: bool = False) -> None:
        """Add a value; one with all elements equal, which others match by chance, only with `trivial`."""
        if array.dtype != object and (trivial or (array.size > 1 and np.any(array != array.flat[0]))):
            self._of.setdefault((array.shape, array.dtype), []).append((name, array))

    def alike(self, shape: Sequence[int], dtype: np.dtype) -> Sequence[tuple[str, np.ndarray]]:
        """All of one shape, with their names."""
        return self._of.get((tuple(shape), dtype), ())

    def equal(self, value: np.ndarray, limit: float) -> Value:
        """The first that differs by no more than max|a - b| / max|b| = limit."""
        some = slice(None, None, max(1, value.size // _SAMPLED))
        sample = value.reshape(-1)[some]
        for _, array in self._of.get((value.shape, value.dtype), ()):
            near = np.abs(array.reshape(-1)[some].astype(np.float64) - sample) if limit else 0.0
            if np.all(near <= limit * np.abs(array).max(initial=0)) and relative_error(value, array) <= limit:
                return array
        return None


@dataclass(frozen=True)
class _NodePlace:
    """An equation among those of its node: its number and how many there are, in all and of its op."""

    of_node: tuple[int, int]
    of_op: tuple[int, int]

    @property
    def is_last(self) -> bool:
        return self.of_node[0] == self.of_node[1] - 1


def _places(graph: Graph) -> Iterator[tuple[int, _NodePlace]]:
    names = [name_of(eqn.source) for eqn in graph.eqns]
    keys = [(name, eqn.op.name) for name, eqn in zip(names, graph.eqns, strict=True)]
    nodes, pairs = Counter(names), Counter(keys)
    seen: Counter[Hashable] = Counter()
    for number, (name, key) in enumerate(zip(names, keys, strict=True)):
        yield number, _NodePlace((seen[name], nodes[name]), (seen[key], pairs[key]))
        seen.update((name, key))


def _fitting(array: np.ndarray, var: Var, computed: Value, alike: bool) -> Value:
    """A node's value as that of a variable: as it is, or where that fits with its axes in the variable's order.

    alike: both are results of the same op, which may have got the shape wrong.
    """
    if array.dtype != var.dtype:
        return None
    if computed is None or array.shape == computed.shape:
        return array
    if sorted(array.shape) != sorted(computed.shape):
        return array if alike and array.ndim == computed.ndim else None
    return next((t for t in reordered(array, computed.shape) if _is_near(computed, t)), None)


def reordered(array: np.ndarray, shape: Sequence[int]) -> Iterator[np.ndarray]:
    """The array with its axes in every order that gives this shape."""
    if array.ndim <= _MOST_AXES and sorted(array.shape) == sorted(shape):
        for order in itertools.permutations(range(array.ndim)):
            if tuple(array.shape[i] for i in order) == tuple(shape):
                yield array.transpose(order)


def _is_of_type(array: np.ndarray, var: Var) -> bool:
    return array.dtype == var.dtype and (not var.type.is_static or array.shape == var.shape)


def _is_near(value: np.ndarray, wanted: np.ndarray) -> bool:
    return relative_error(value, wanted) <= rounding_of(wanted.dtype)


def _in_common(parts: Sequence[str], name: str) -> int:
    others = name.split("/")
    return next((i for i, (a, b) in enumerate(zip(parts, others, strict=False)) if a != b), len(parts))
