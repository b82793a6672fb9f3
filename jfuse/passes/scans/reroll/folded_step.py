"""The first step of an unrolled loop, where the import has folded values of a constant initial state.

What is left of it is compared with the step that the loop repeats, and what is gone is computed again by the same ops:
from the initial states that show, and from zeros where they were folded. The step is one of the loop where every
constant in it is what the loop computes, bit by bit, whatever the source began with.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from graphlib import CycleError
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Atom, Const, Var
from jfuse.ir.types import TensorType
from jfuse.ir.walk import is_same_type
from jfuse.passes.scans.reroll.repetition import Repetition
from jfuse.passes.scans.reroll.steps import Before, LaggedValue, Orbit, Same, Slot, in_order, is_linked, matches


def with_folded_step(
    repetition: Repetition, orbits: Sequence[Orbit], steps: range, before: Before
) -> tuple[range, Before]:
    """The steps of a loop and what comes before them, with one step more where that is its folded first one."""
    if any(s.lag > 1 for orbit in orbits for s in orbit.sources):
        return steps, before
    number = steps.start - 1
    try:
        before_step = _FoldedStep(repetition, orbits, number).given()
    except (_Differs, CycleError):
        return steps, before
    return range(number, steps.stop), {slot: {number - 1: atom} for slot, atom in before_step.items()}


class _Differs(Exception):
    """The step is not one of the loop."""


def _demand(condition: bool) -> None:
    if not condition:
        raise _Differs


@dataclass
class _FoldedStep:
    found: Repetition
    orbits: Sequence[Orbit]
    number: int
    initial: dict[Slot, Atom] = field(default_factory=dict)
    constants: list[tuple[Slot, Const]] = field(default_factory=list)

    def given(self) -> dict[Slot, Atom]:
        """The initial state with which the loop computes this step; raises _Differs where there is none."""
        present = {o for o in self.orbits if o.at(self.number) is not None}
        _demand(0 < len(present) < len(self.orbits))
        for orbit in self.orbits:
            if orbit in present:
                self._compare(orbit, present)
            self._compare_next(orbit, present)
        values = self._computed([o for o in in_order(self.orbits) if o not in present])
        for (orbit, output), const in self.constants:
            _demand(_is_bitwise_equal(values[orbit][output], const.array))
        return self.initial

    def _compare(self, orbit: Orbit, present: set[Orbit]) -> None:
        """Check that the equations left of the step have the expected operands, except for folded ones."""
        place = orbit.at(self.number)
        assert place is not None
        eqn = self.found.graph.eqns[place]
        for operand, atom in zip(orbit.operands, eqn.inputs, strict=True):
            if not isinstance(operand, LaggedValue):
                _demand(matches(operand, atom, self.number, self.found))
            elif operand.lag:
                self._begin_with((operand.orbit, operand.output), atom)
            else:
                self._compare_value(operand, atom, self.number, present)

    def _compare_next(self, orbit: Orbit, present: set[Orbit]) -> None:
        """The step after this one reads the state that this one leaves."""
        place = orbit.at(self.number + 1)
        _demand(place is not None)
        assert place is not None
        for operand, atom in zip(orbit.operands, self.found.graph.eqns[place].inputs, strict=True):
            if isinstance(operand, LaggedValue) and operand.lag:
                self._compare_value(operand, atom, self.number + 1, present)

    def _compare_value(self, value: LaggedValue, atom: Atom | None, number: int, present: set[Orbit]) -> None:
        if value.orbit in present:
            _demand(is_linked(value, atom, number, self.found))
            return
        _demand(isinstance(atom, Const))
        assert isinstance(atom, Const)
        self.constants.append(((value.orbit, value.output), atom))

    def _begin_with(self, slot: Slot, atom: Atom | None) -> None:
        _demand(isinstance(atom, Var | Const))
        assert isinstance(atom, Var | Const)
        _demand(is_same_type(self._type(slot), atom.type))
        _demand(self.found.likeness.same(self.initial.setdefault(slot, atom), atom))

    def _type(self, slot: Slot) -> TensorType:
        orbit, output = slot
        return self.found.graph.eqns[orbit.places[0]].outputs[output].type

    def _computed(self, folded: Sequence[Orbit]) -> dict[Orbit, tuple[Any, ...]]:
        values: dict[Orbit, tuple[Any, ...]] = {}
        for orbit in folded:
            eqn = self.found.graph.eqns[orbit.places[0]]
            _demand(eqn.op.is_kernel)
            arrays = [self._array(operand, values) for operand in orbit.operands]
            values[orbit] = eqn.op.run(arrays, eqn.params, ())
        return values

    def _array(self, operand: Any, values: dict[Orbit, tuple[Any, ...]]) -> np.ndarray | None:
        if isinstance(operand, Same):
            _demand(not isinstance(operand.atom, Var))
            return operand.atom.array if isinstance(operand.atom, Const) else None
        _demand(isinstance(operand, LaggedValue))
        if not operand.lag:
            _demand(operand.orbit in values)
            array: np.ndarray = values[operand.orbit][operand.output]
            return array
        slot = (operand.orbit, operand.output)
        if slot not in self.initial:
            shape, dtype = self._type(slot).shape, self._type(slot).dtype
            _demand(all(map(is_known, shape)) and (dtype.is_float or dtype.is_integer))
            self.initial[slot] = Const(np.zeros(shape, dtype.numpy))
        atom = self.initial[slot]
        _demand(isinstance(atom, Const))
        return atom.array if isinstance(atom, Const) else None


def _is_bitwise_equal(a: np.ndarray, b: np.ndarray) -> bool:
    return a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
