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
from jfuse.quantization.computed import storing, telling
from jfuse.quantization.real_numbers import real_const, real_type
from jfuse.running.partition import needs_litert
from jfuse.verification.quantization_noise.figures import TALLY, beginning, looking
from jfuse.verification.quantization_noise.pairs import Pairs, changes_type_alone, is_real, pair_graphs


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
    """The graph: inputs and results of both, then tallies.   places: of the tallies. unknown: what has none

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
    given = [Eqn(storing(q.type), (f,), (q,)) for q, f in known]
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
        graph = _Walk(self, pairs, dict(pairs.values), tallies, [*floats.eqns])
        for number, eqn in enumerate(quantized.eqns):
            graph.add(eqn, (*path, number))
        return graph.eqns, graph.tallies

    def opens(self, eqn: Eqn, twin: Eqn | None) -> bool:
        """Whether both loops can run as one."""
        if eqn.op is not while_ or twin is None or twin.op is not while_ or len(eqn.inputs) != len(twin.inputs):
            return False
        return not needs_litert(eqn, self.integers) and not needs_litert(twin, self.integers)


@dataclass
class _Walk:
    """One graph of the two, while it is built.   wanted: the float value of each quantized one"""

    building: _Building
    pairs: Pairs
    wanted: dict[Var, Atom]
    tallies: Tallies
    eqns: list[Eqn]
    _rounded: dict[Var, Var] = field(default_factory=dict)
    _told: dict[Var, Var] = field(default_factory=dict)

    def add(self, eqn: Eqn, path: tuple[int, ...]) -> None:
        twin = self.pairs.twins.get(eqn)
        if self.building.opens(eqn, twin) and twin is not None:
            self._loop(eqn, twin, path)
        else:
            self.eqns.append(eqn)
            self.building.hidden += [eqn] if any(map(_has_integers, eqn.bodies)) else []
        if any(v in self.pairs.constants for v in eqn.outputs):
            return
        real = [i for i, v in enumerate(eqn.outputs) if is_real(v.type)]
        paired = [v in self.wanted for v in eqn.outputs]
        self._want(eqn)
        if not real or (changes_type_alone(eqn) and not is_quantized(eqn.outputs[0].type)):
            return
        own, own_wanted = self._alone(eqn, twin)
        if own is None or own_wanted is None or any(eqn.outputs[i] not in self.wanted for i in real):
            self.building.unknown.append(eqn)
            return
        for i in real:
            place = Place(path, eqn, i, twin, paired[i], self.wanted[eqn.outputs[i]] if paired[i] else None)
            self._look(place, own[i], own_wanted[i])

    def _look(self, place: Place, own: Atom, own_wanted: Atom) -> None:
        number, var = len(self.building.places), place.eqn.outputs[place.result]
        self.building.places.append(place)
        first, last = Var(TALLY), Var(TALLY)
        self.eqns.append(Eqn(looking(var.type), (first, var, self.wanted[var], own, own_wanted), (last,)))
        self.tallies[number] = first, last

    # The float values that results stand for.

    def _want(self, eqn: Eqn) -> None:
        """Let each result have a float value: what is not paired is computed in floats."""
        if all(v in self.wanted for v in eqn.outputs):
            return
        if changes_type_alone(eqn):
            given = self._wanted(eqn.inputs[0])
            results: Sequence[Atom] | None = None if given is None else [given]
        else:
            results = self._in_floats(eqn, [self._wanted(a) for a in eqn.inputs])
        for var, value in zip(eqn.outputs, results or (), strict=False):
            self.wanted.setdefault(var, value)

    def _wanted(self, atom: Atom | None) -> Atom | None:
        """The float value of an operand."""
        if isinstance(atom, Const):
            return real_const(atom)
        if atom in self.pairs.constants and atom not in self.wanted:
            return real_const(self.pairs.constants[atom])
        return None if atom is None else self.wanted.get(atom)

    def _in_floats(self, eqn: Eqn, operands: Sequence[Atom | None]) -> Sequence[Var] | None:
        """What the op of a quantized equation makes of float values; None where it computes with integers alone."""
        missing = any(o is None and a is not None for o, a in zip(operands, eqn.inputs, strict=True))
        if missing or not eqn.op.is_kernel or changes_type_alone(eqn):
            return None
        results = tuple(Var(real_type(v.type)) for v in eqn.outputs)
        self.eqns.append(replace(eqn, inputs=tuple(operands), outputs=results, intermediates=(), version=None))
        return results

    # What an equation adds by itself.

    def _alone(self, eqn: Eqn, twin: Eqn | None) -> tuple[Sequence[Atom] | None, Sequence[Atom] | None]:
        """What an equation makes of float values rounded to its types, and what it should make of these."""
        operands = [self._rounded_to(a) if isinstance(a, Var) else a for a in eqn.inputs]
        if any(o is None and a is not None for o, a in zip(operands, eqn.inputs, strict=True)):
            return None, None
        results = tuple(Var(v.type) for v in eqn.outputs)
        self.eqns.append(replace(eqn, inputs=tuple(operands), outputs=results))
        return results, self._should(eqn, operands, twin)

    def _should(self, eqn: Eqn, operands: Sequence[Atom | None], twin: Eqn | None) -> Sequence[Atom] | None:
        real = [self._real(o) if isinstance(o, Var) else None if o is None else real_const(o) for o in operands]
        if changes_type_alone(eqn):
            return None if real[0] is None else [real[0]]
        if twin is not None:
            given = [_or_constant(theirs, mine) for theirs, mine in zip(twin.inputs, real, strict=True)]
            results = tuple(Var(v.type) for v in twin.outputs)
            self.eqns.append(replace(twin, inputs=tuple(given), outputs=results))
            return results
        if not _has_weights(eqn):
            return self._in_floats(eqn, real)
        return [self.wanted[v] for v in eqn.outputs] if all(v in self.wanted for v in eqn.outputs) else None

    def _rounded_to(self, var: Var) -> Var | None:
        """The float value of a variable in its type; weights behind a DEQUANTIZE as they are."""
        if var in self.pairs.constants:
            return var
        wanted = self.wanted.get(var)
        if wanted is None:
            return None
        if var not in self._rounded:
            self._rounded[var] = Var(var.type)
            self.eqns.append(Eqn(storing(var.type), (wanted,), (self._rounded[var],)))
        return self._rounded[var]

    def _real(self, var: Var) -> Var:
        """The real numbers of a variable."""
        if not is_quantized(var.type):
            return var
        if var not in self._told:
            self._told[var] = Var(real_type(var.type))
            self.eqns.append(Eqn(telling(var.type), (var,), (self._told[var],)))
        return self._told[var]

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
        self.eqns.append(replace(eqn, inputs=inputs, outputs=results, bodies=bodies))
        self.tallies |= {i: pair for i, *pair in zip(tallies, begun, ended, strict=True)}  # type: ignore[misc]


def _has_integers(graph: Graph) -> bool:
    return any(is_quantized(v.type) for eqn in all_eqns(graph) for v in eqn.outputs)


def _has_weights(eqn: Eqn) -> bool:
    """Whether an operand is a constant of integers that stand for real numbers."""
    return any(isinstance(a, Const) and is_quantized(a.type) for a in eqn.inputs)


def _or_constant(theirs: Atom | None, mine: Atom | None) -> Atom | None:
    """An operand of the float equation: its constants, else the real numbers that the quantized one reads."""
    return theirs if theirs is None or isinstance(theirs, Const) else mine
