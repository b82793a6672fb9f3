"""Streams a padded sequence: the padding becomes a buffer of the previous call's last steps."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import is_known, same
from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.kernels import ops
from jfuse.kernels.core.layout import from_front
from jfuse.lowering.rule_tools.broadcast_constants import Known, constant_of
from jfuse.passes.states.stepped import SteppedEqn
from jfuse.passes.states.steps import StepAxis

ADDS_STEPS = frozenset({ops.pad, ops.padv2, ops.concatenation})
"""Ops that may put steps before those of a sequence."""


@dataclass(frozen=True)
class Buffer:
    """An equation that puts constants before the steps of a sequence: from call to call, its last steps instead.

    x: the steps, along `axis`; the last `before` of them are what the next call has as well. initial: the constants.
    rest: what is padded along other axes, none along this one; None for nothing.
    """

    eqn: Eqn
    x: Var
    axis: int
    before: int
    initial: np.ndarray
    steps: int
    rest: Const | None = None


def added_before(
    stepped: SteppedEqn, known: Known, held: Collection[Var]
) -> tuple[StepAxis, Var, np.ndarray | None, int] | None:
    """The steps that an equation puts constants before, as operand, constants and number; None for other equations.

    The constants are None where a state of the source stands before the steps.
    """
    eqn = stepped.eqn
    if eqn.op is not ops.concatenation:
        return _padded_before(stepped)
    *first, x = eqn.inputs
    steps = stepped.values[-1]
    if not isinstance(x, Var) or not isinstance(steps, StepAxis) or not steps.stands_alone or not steps.forwards:
        return None
    if from_front(eqn.params["axis"], len(stepped.result)) != steps.axis or any(stepped.values[:-1]):
        return None
    count = stepped.result[steps.axis] - x.type.shape[steps.axis]
    if not is_known(count) or not first or any(a is None for a in first):
        return None
    if all(a in held for a in first):
        return steps, x, None, int(count)
    constants = [_whole(a, known) for a in first if a is not None]
    if any(c is None for c in constants):
        return None
    return steps, x, np.concatenate([c for c in constants if c is not None], steps.axis), int(count)


def _whole(atom: Atom, known: Known) -> np.ndarray | None:
    """The constant that a tensor holds, with one element along open dimensions."""
    constant = constant_of(atom, known)
    if constant is None:
        return None
    return np.array(np.broadcast_to(constant, [int(d) if is_known(d) else 1 for d in atom.type.shape]))


def _padded_before(stepped: SteppedEqn) -> tuple[StepAxis, Var, np.ndarray, int] | None:
    eqn, steps, x, amounts = stepped.eqn, stepped.values[0], stepped.eqn.inputs[0], stepped.static(1)
    if not isinstance(x, Var) or not isinstance(steps, StepAxis) or amounts is None:
        return None
    left, right = amounts[steps.axis]
    if not (steps.stands_alone and steps.forwards and is_known(left) and left > 0) or same(right, 0) is not True:
        return None
    value = eqn.inputs[2] if len(eqn.inputs) > 2 else Const(np.zeros((), x.type.dtype.numpy))
    if not isinstance(value, Const) or (not isinstance(eqn.inputs[1], Const) and _pads_others(amounts, steps.axis)):
        return None
    shape = [int(d) if is_known(d) else 1 for d in x.type.shape]
    shape[steps.axis] = int(left)
    return steps, x, np.full(shape, value.array.reshape(()), x.type.dtype.numpy), int(left)


def _pads_others(amounts: Sequence[Any], axis: int) -> bool:
    return any(same(n, 0) is not True for i, pair in enumerate(amounts) for n in pair if i != axis)


def other_padding(eqn: Eqn, axis: int) -> Const | None:
    """Return the padding along the other axes; None without any."""
    amounts = eqn.inputs[1]
    if eqn.op is ops.concatenation or not isinstance(amounts, Const) or not _pads_others(amounts.array.tolist(), axis):
        return None
    rest = amounts.array.copy()
    rest[axis] = 0
    return Const(rest)
