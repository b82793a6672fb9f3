"""Steps of a loop taken all at once: an equation on one step becomes one on sequences with the steps along axis 0."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Atom, Eqn, Var
from jfuse.ir.trace import active_trace, recording
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import is_same_type
from jfuse.passes.scans.fission.step_operands import LiftedEqn, LoopSteps, Rule
from jfuse.passes.scans.fission.vectorize_rules import RULES, elementwise


def vectorized(eqn: Eqn, operands: Sequence[Any], places: frozenset[int], steps: LoopSteps) -> tuple[Any, ...] | None:
    """The results of an equation for all steps, recorded in the active trace; None where they cannot be had at once.

    operands: sequences at `places`, elsewhere what is the same in all steps.
    """
    rule = _rule_of(eqn)
    if rule is None:
        return None
    try:
        results = rule(LiftedEqn(eqn, tuple(operands), places, steps))
    except JfuseError:  # the op does not take one more axis here, or a size is needed that no shape gives
        return None
    if results is None or active_trace().sizes:
        return None
    pairs = zip(eqn.outputs, results, strict=True)
    return results if all(is_same_type(steps.stacked(out.type), _type(r)) for out, r in pairs) else None


def can_vectorize(eqn: Eqn, places: frozenset[int], steps: LoopSteps) -> bool:
    """Whether `vectorized` can compute the equation for all steps at once. Nothing is recorded."""
    with recording():
        operands = [_stand_in(atom, i in places, steps) for i, atom in enumerate(eqn.inputs)]
        return vectorized(eqn, operands, places, steps) is not None


def data_operands(eqn: Eqn) -> dict[int, Atom]:
    """The operands whose data the op reads, by their places: not those that it takes by value."""
    op = eqn.op
    static = [op.operand_at(i).static for i in range(len(eqn.inputs))]
    return {i: atom for i, atom in enumerate(eqn.inputs) if atom is not None and not static[i]}


def _stand_in(atom: Atom | None, stepped: bool, steps: LoopSteps) -> Any:
    return Var(steps.stacked(atom.type)) if stepped and atom is not None else atom


def _type(value: Any) -> TensorType:
    return value.type if isinstance(value, Var) else TensorType(value.shape, DType.of(value.dtype))


def _rule_of(eqn: Eqn) -> Rule | None:
    rule = RULES.get(eqn.op)
    if rule is None and eqn.op.elementwise:
        return elementwise
    return rule
