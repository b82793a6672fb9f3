"""Which values of a graph and of its equations' bodies are one: what a loop carries, what a branch takes or gives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from jfuse.ir.graph import Atom, Eqn, Program, Var
from jfuse.ir.states import exposed_places, places
from jfuse.ir.walk import all_eqns
from jfuse.kernels.control import if_, while_


@dataclass(frozen=True)
class BodyPlace:
    """One value by its places: operand and result of the equation, inputs and outputs of its bodies.

    operand, result: None where it has none. inputs, outputs: (body, place).
    """

    operand: int | None
    inputs: tuple[tuple[int, int], ...]
    outputs: tuple[tuple[int, int], ...]
    result: int | None

    def read(self, eqn: Eqn) -> list[Var]:
        """The inputs of the bodies."""
        return [eqn.bodies[body].inputs[i] for body, i in self.inputs]

    def made(self, eqn: Eqn) -> list[tuple[int, Atom]]:
        """The outputs of the bodies, each with its body's number, that are not what came in at this place."""
        carried = set(self.read(eqn))
        ends = [(body, eqn.bodies[body].outputs[i]) for body, i in self.outputs]
        return [(body, atom) for body, atom in ends if atom not in carried]


def body_places(eqn: Eqn) -> Iterator[BodyPlace]:
    """List the carried values of a WHILE, or the operands and results of an IF; nothing for other equations."""
    if eqn.op is while_:
        for i in range(len(eqn.outputs)):
            yield BodyPlace(i, ((0, i), (1, i)), ((1, i),), i)
    elif eqn.op is if_:
        branches = range(len(eqn.bodies))
        for i in range(1, len(eqn.inputs)):
            yield BodyPlace(i, tuple((body, i - 1) for body in branches), (), None)
        for i in range(len(eqn.outputs)):
            yield BodyPlace(None, (), tuple((body, i) for body in branches), i)


def same_values(program: Program) -> dict[Var, frozenset[Var]]:
    """Values that get one range: what a loop carries, what goes into and out of branches, a state before and after.

    What a loop starts from keeps a range of its own, unless the loop hands it on unchanged.
    """
    sets: dict[Var, set[Var]] = {}
    for eqn in (eqn for graph in program.graphs() for eqn in all_eqns(graph)):
        for place in body_places(eqn):
            _unite(sets, _members(eqn, place))
    for signature in program.signatures:
        for state in (*places(signature), *exposed_places(signature)):
            ends = signature.graph.inputs[state.input], signature.graph.outputs[state.output]
            _unite(sets, [atom for atom in ends if isinstance(atom, Var)])
    return {var: frozenset(members) for var, members in sets.items()}


def _members(eqn: Eqn, place: BodyPlace) -> list[Var]:
    made = place.made(eqn)
    around: list[Atom | None] = []
    if not made and place.operand is not None:
        around.append(eqn.inputs[place.operand])
    if place.result is not None:
        around.append(eqn.outputs[place.result])
    return [atom for atom in (*place.read(eqn), *(atom for _, atom in made), *around) if isinstance(atom, Var)]


def _unite(sets: dict[Var, set[Var]], members: list[Var]) -> None:
    touched = {id(s): s for var in members if (s := sets.get(var)) is not None}
    largest = max(touched.values(), key=len, default=set[Var]())
    for other in (*(s for s in touched.values() if s is not largest), members):
        largest.update(other)
        for var in other:
            sets[var] = largest
