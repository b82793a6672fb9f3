"""An equation with the steps of a streamed sequence among its operands, as the rules for streaming query it.

A rule returns the axis of the result that has the steps. It raises `StepsMix` where a step of the result needs steps
that a piece may lack.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn, Op
from jfuse.kernels.core.op import TflOp, static_value
from jfuse.passes.states.steps import LAST, CallValue, StepAxis, StepsMix, Value

CAUSAL = 'pad on the left alone, by what the window reaches back: padding="causal" of Keras'


@dataclass(frozen=True)
class SteppedEqn:
    """An equation, and how its operands depend on the sequence.

    meets: called with an operand that has a row for each step, though it does not depend on the sequence, and the axis.
    is_read: whether anything reads a result, by its position.
    """

    eqn: Eqn
    values: tuple[Value, ...]
    meets: Callable[[Atom, int], None]
    is_read: Callable[[int], bool]

    def atom(self, place: int) -> Atom:
        """The operand at a position, where the op has one in any case."""
        atom = self.eqn.inputs[place]
        assert atom is not None, "asked for an operand that is there"
        return atom

    def shape(self, place: int = 0) -> tuple[Dim, ...]:
        """The shape of the operand at a position, the first by default."""
        return self.atom(place).type.shape

    @property
    def result(self) -> tuple[Dim, ...]:
        """The shape of the first result."""
        return self.eqn.outputs[0].type.shape

    def static(self, place: int) -> Any:
        """The value of an operand, an int or nested tuples; None where it is not known."""
        atom = self.eqn.inputs[place] if place < len(self.eqn.inputs) else None
        return None if atom is None else static_value(atom)

    def only(self, place: int = 0) -> StepAxis:
        """The steps of an operand, where no other one has any to do with the sequence."""
        steps = self.values[place]
        if not isinstance(steps, StepAxis) or any(v is not None for i, v in enumerate(self.data) if i != place):
            raise StepsMix("it takes steps where the op has its parameters")
        return steps

    @property
    def data(self) -> tuple[Value, ...]:
        """The values of the operands, None for operands that only give sizes or axes."""
        op = self.eqn.op
        static = [isinstance(op, TflOp) and op.operand_at(i).static for i in range(len(self.values))]
        return tuple(None if s else v for v, s in zip(self.values, static, strict=True))


StepRule: TypeAlias = Callable[[SteppedEqn], Value]
STEP_RULES: dict[Op, StepRule] = {}
"""The rules by op; elementwise ops need none."""


def steps_of(*kinds: Op) -> Callable[[StepRule], StepRule]:
    """Register the decorated rule for equations of these ops."""

    def register(rule: StepRule) -> StepRule:
        STEP_RULES.update(dict.fromkeys(kinds, rule))
        return rule

    return register


def joined(stepped: SteppedEqn, places: Sequence[tuple[int, int]], rank: int) -> StepAxis:
    """The steps of operands that an op combines place by place.

    places: of each such operand, its position and where its first axis is in the result, of that rank.
    """
    axes = [(i, v.at(v.axis + shift)) for i, shift in places if isinstance(v := stepped.values[i], StepAxis)]
    steps = axes[0][1]
    for _, other in axes[1:]:
        if not is_alike(steps, other):
            raise StepsMix("it combines steps with other steps of the sequence", steps)
    for i, shift in places:
        value, axis = stepped.values[i], steps.axis - shift
        if isinstance(value, CallValue) and not (value == LAST and steps.is_single):
            raise StepsMix(f"it combines every step with {value.kind} of the piece", steps)
        if value is None and 0 <= axis < len(shape := stepped.shape(i)) and same(shape[axis], 1) is not True:
            stepped.meets(stepped.atom(i), axis)
    return steps


def is_alike(steps: StepAxis, other: StepAxis) -> bool:
    sizes = [(steps.length, other.length), (steps.outer, other.outer), (steps.inner, other.inner)]
    facts = [(s.axis, s.before, s.forwards) for s in (steps, other)]
    return facts[0] == facts[1] and all(same(d, e) is not False for d, e in sizes)


def known_axes(stepped: SteppedEqn, operand: int) -> Any:
    """The value of an operand that names axes."""
    value = stepped.static(operand)
    if value is None:
        raise StepsMix("its axes are not known")
    return value


def turned(steps: StepAxis) -> StepAxis:
    """The steps in the other order."""
    if not steps.stands_alone or steps.before:
        raise StepsMix("it reverses steps together with others", steps)
    return replace(steps, forwards=not steps.forwards)


def is_window(steps: StepAxis, width: Dim) -> bool:
    """Whether every piece has that many of its last steps, whatever its length."""
    return steps.stands_alone and is_known(width) and width <= steps.before + 1
