"""One graph that computes a quantized graph and a float one together, and tallies of each value of the former.

For each equation it also computes what the equation makes of the float graph's values, rounded to the types of its
operands, and what the float equation makes of the same rounded values: the difference is what this equation adds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import while_
from jfuse.kernels.core.integer_types import Rounding, is_quantized
from jfuse.quantization.real_numbers.numbers import dequantized_from, quantized_as
from jfuse.quantization.real_numbers.walker import RealGraph
from jfuse.running.partition import needs_litert
from jfuse.verification.quantization_noise.figures import TALLY, beginning, looking
from jfuse.verification.quantization_noise.pairs import Pairs, changes_type_alone, is_real, pair_graphs, run_twin


@dataclass(frozen=True)
class Place:
    """One result of one equation.

    path: where the equation stands, as `EquationError` has it. result: its position. twin: the float equation of the
    same op on the same values. is_paired: whether a float value is known that the result stands for; otherwise the
    equation's own op computes it in floats from known ones.
    """

    path: tuple[int, ...]
    eqn: Eqn
    result: int
    twin: Eqn | None
    is_paired: bool
    float_value: Atom | None


@dataclass
class Beside:
    """The graph: inputs and results of both, then tallies.   places: of the tallies. unknown: equations without any

    hidden: equations with bodies that cannot be looked into.
    """

    graph: Graph
    places: list[Place]
    unknown: list[Eqn]
    hidden: list[Eqn]


def beside(quantized: Graph, floats: Graph, known: Sequence[tuple[Var, Var]], integers: Rounding | None) -> Beside:
    """The graph of both. Its inputs are those of the float one, then those of the quantized one that `known` has not.

    known: the inputs that stand for each other, without states, which each graph has for itself: the quantized ones
    are computed from the float ones. integers: who computes quantized ones, as `running.partition.hosted` has it.
    """
    building = _Building(integers)
    kept = [v for v in quantized.inputs if v not in dict(known)]
    pairs = pair_graphs(quantized, floats, [*known, *_states(quantized, floats, known)])
    given = [Eqn(quantized_as(q.type), (f,), (q,)) for q, f in known]
    eqns, tallies = building.walk(quantized, floats, pairs, (), {})
    begun = [Eqn(beginning(), (), (first,)) for first, _ in tallies.values()]
    last = tuple(var for _, var in tallies.values())
    graph = Graph(
        "beside", (*floats.inputs, *kept), (*given, *begun, *eqns), (*quantized.outputs, *floats.outputs, *last)
    )
    return Beside(graph, [building.places[i] for i in tallies], building.unknown, building.hidden)


def _states(quantized: Graph, floats: Graph, known: Sequence[tuple[Var, Var]]) -> Sequence[tuple[Var, Var]]:
    """The states that stand for each other, by their positions, where both graphs have as many."""
    mine, theirs = ([v for v in g.inputs if v not in {p[i] for p in known}] for i, g in enumerate((quantized, floats)))
    return list(zip(mine, theirs, strict=True)) if len(mine) == len(theirs) else []


Tallies = dict[int, tuple[Var, Var]]
"""The first and the last value of each tally, by its number."""


@dataclass
class _Building:
    integers: Rounding | None
    places: list[Place] = field(default_factory=list)
    unknown: list[Eqn] = field(default_factory=list)
    hidden: list[Eqn] = field(default_factory=list)

    def walk(
        self, quantized: Graph, floats: Graph, pairs: Pairs, path: tuple[int, ...], tallies: Tallies
    ) -> tuple[list[Eqn], Tallies]:
        """The equations of both graphs with those that look at their values, and the tallies."""
        real = RealGraph(values=dict(pairs.values), eqns=[*floats.eqns])
        real.values |= {v: real.weight(c) for v, c in pairs.constants.items() if v not in real.values}
        graph = _Walk(self, pairs, tallies, real)
        for number, eqn in enumerate(quantized.eqns):
            graph.add(eqn, (*path, number))
        return real.eqns, graph.tallies

    def opens(self, eqn: Eqn, twin: Eqn | None) -> bool:
        """Whether both loops can run as one."""
        if eqn.op is not while_ or twin is None or twin.op is not while_ or len(eqn.inputs) != len(twin.inputs):
            return False
        return not needs_litert(eqn, self.integers) and not needs_litert(twin, self.integers)


@dataclass
class _Walk:
    """One graph of the two, while it is built.   real: has the float value of each quantized one"""

    building: _Building
    pairs: Pairs
    tallies: Tallies
    real: RealGraph
    _rounded: dict[Var, Var] = field(default_factory=dict)
    _dequantized: dict[Var, Var] = field(default_factory=dict)

    def add(self, eqn: Eqn, path: tuple[int, ...]) -> None:
        """Add a quantized equation, its float values where the float graph has none, and the look at its results."""
        twin, floats = self.pairs.twins.get(eqn), self.real.values
        if self.building.opens(eqn, twin) and twin is not None:
            self._loop(eqn, twin, path)
        else:
            self.real.eqns.append(eqn)
            self.building.hidden += [eqn] if any(map(_has_integers, eqn.bodies)) else []
        if any(v in self.pairs.constants for v in eqn.outputs):
            return
        numbers = [i for i, v in enumerate(eqn.outputs) if is_real(v.type)]
        paired = [v in floats for v in eqn.outputs]
        if not all(paired):
            operands = [self.real.value(a) for a in eqn.inputs]
            computed = operands if changes_type_alone(eqn) else self._in_floats(eqn, operands)
            for var, value in zip(eqn.outputs, computed or (), strict=False):
                if value is not None:
                    floats.setdefault(var, value)
        if not numbers or (changes_type_alone(eqn) and not is_quantized(eqn.outputs[0].type)):
            return
        own, own_wanted = self._alone(eqn, twin)
        if own is None or own_wanted is None or any(eqn.outputs[i] not in floats for i in numbers):
            self.building.unknown.append(eqn)
            return
        for i in numbers:
            place = Place(path, eqn, i, twin, paired[i], floats[eqn.outputs[i]] if paired[i] else None)
            self._look(place, own[i], own_wanted[i])

    def _look(self, place: Place, own: Atom, own_wanted: Atom) -> None:
        number, var = len(self.building.places), place.eqn.outputs[place.result]
        self.building.places.append(place)
        first = Var(TALLY)
        last = self.real.apply(looking(var.type), first, var, self.real.values[var], own, own_wanted)
        self.tallies[number] = first, last

    def _in_floats(self, eqn: Eqn, operands: Sequence[Atom | None]) -> Sequence[Var] | None:
        """Apply the op of a quantized equation to float values; None where it computes with integers alone."""
        if _lacks(eqn, operands) or not eqn.op.is_kernel or changes_type_alone(eqn):
            return None
        return self.real.run(eqn, operands)

    # The noise of an equation by itself.

    def _alone(self, eqn: Eqn, twin: Eqn | None) -> tuple[Sequence[Atom] | None, Sequence[Atom] | None]:
        """Apply an equation to float values rounded to its types; its results, and the right ones."""
        operands = [self._rounded_to(a) if isinstance(a, Var) else a for a in eqn.inputs]
        if _lacks(eqn, operands):
            return None, None
        results = tuple(Var(v.type) for v in eqn.outputs)
        self.real.eqns.append(replace(eqn, inputs=tuple(operands), outputs=results))
        return results, self._right(eqn, operands, twin)

    def _right(self, eqn: Eqn, operands: Sequence[Atom | None], twin: Eqn | None) -> Sequence[Atom] | None:
        numbers = [self._as_real(o) if isinstance(o, Var) else self.real.value(o) for o in operands]
        if changes_type_alone(eqn):
            return None if numbers[0] is None else [numbers[0]]
        if twin is not None:
            return run_twin(self.real, twin, numbers)
        if not _has_weights(eqn):
            return self._in_floats(eqn, numbers)
        known = [v for v in map(self.real.value, eqn.outputs) if v is not None]
        return known if len(known) == len(eqn.outputs) else None

    def _rounded_to(self, var: Var) -> Var | None:
        """The float value of a variable in its type; weights behind a DEQUANTIZE as they are."""
        if var in self.pairs.constants:
            return var
        if (value := self.real.value(var)) is None:
            return None
        if var not in self._rounded:
            self._rounded[var] = self.real.apply(quantized_as(var.type), value)
        return self._rounded[var]

    def _as_real(self, var: Var) -> Var:
        """The real numbers of a variable."""
        if not is_quantized(var.type):
            return var
        if var not in self._dequantized:
            self._dequantized[var] = self.real.apply(dequantized_from(var.type), var)
        return self._dequantized[var]

    # Loops.

    def _loop(self, eqn: Eqn, twin: Eqn, path: tuple[int, ...]) -> None:
        """Both loops as one, which ends when the quantized one does, with the tallies among what it carries."""
        (condition, body), (_, other) = eqn.bodies, twin.bodies
        pairs = pair_graphs(body, other, zip(body.inputs, other.inputs, strict=True))
        inner, tallies = self.building.walk(body, other, pairs, (*path, 1), {})
        first, last = ([pair[i] for pair in tallies.values()] for i in (0, 1))
        added = [Var(v.type) for v in (*other.inputs, *first)]
        bodies = (
            replace(condition, inputs=(*condition.inputs, *added)),
            replace(
                body,
                inputs=(*body.inputs, *other.inputs, *first),
                eqns=tuple(inner),
                outputs=(*body.outputs, *other.outputs, *last),
            ),
        )
        begun, ended = ([Var(TALLY) for _ in first] for _ in range(2))
        results = (*eqn.outputs, *(Var(v.type) for v in twin.outputs), *ended)
        inputs = (*eqn.inputs, *twin.inputs, *begun)
        self.real.eqns.append(replace(eqn, inputs=inputs, outputs=results, bodies=bodies))
        self.tallies |= {i: pair for i, *pair in zip(tallies, begun, ended, strict=True)}  # type: ignore[misc]


def _has_integers(graph: Graph) -> bool:
    return any(is_quantized(v.type) for eqn in all_eqns(graph) for v in eqn.outputs)


def _has_weights(eqn: Eqn) -> bool:
    """Whether an operand is a constant of integers that stand for real numbers."""
    return any(isinstance(a, Const) and is_quantized(a.type) for a in eqn.inputs)


def _lacks(eqn: Eqn, operands: Sequence[Atom | None]) -> bool:
    """Whether the value of an operand is not known."""
    return any(o is None and a is not None for o, a in zip(operands, eqn.inputs, strict=True))
