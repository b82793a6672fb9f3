"""Operands that change nothing: zeros added, ones multiplied, selections that are decided."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn
from jfuse.kernels import elementwise
from jfuse.lowering.merge.registry import View, merges
from jfuse.lowering.merge.reshape import keeps_type

# Elements; larger constants are weights, and reading them in every sweep would cost more than it gives.
_LARGEST = 1 << 16


# x + 0 turns -0 into 0, which only the sign of an infinity could show; TensorFlow's own optimizer drops it too.
@merges(elementwise.add)
def add_of_zeros(eqn: Eqn, view: View) -> Any:
    """x + 0 = 0 + x = x."""
    return _neutral(eqn, 0, either=True)


@merges(elementwise.sub)
def sub_of_zeros(eqn: Eqn, view: View) -> Any:
    """x - 0 = x."""
    return _neutral(eqn, 0)


@merges(elementwise.mul)
def mul_by_ones(eqn: Eqn, view: View) -> Any:
    """x * 1 = 1 * x = x."""
    return _neutral(eqn, 1, either=True)


@merges(elementwise.div)
def div_by_ones(eqn: Eqn, view: View) -> Any:
    """x / 1 = x."""
    return _neutral(eqn, 1)


@merges(elementwise.logical_and)
def and_true(eqn: Eqn, view: View) -> Any:
    """(x and true) = x."""
    return _neutral(eqn, True, either=True)


@merges(elementwise.logical_or)
def or_false(eqn: Eqn, view: View) -> Any:
    """(x or false) = x."""
    return _neutral(eqn, False, either=True)


@merges(elementwise.select, elementwise.select_v2)
def decided_select(eqn: Eqn, view: View) -> Any:
    """The branch that a constant condition takes everywhere, where that is not broadcast."""
    condition, x, y = eqn.inputs
    for value, branch in ((True, x), (False, y)):
        if branch is not None and is_filled(condition, value) and keeps_type(branch.type, eqn.outputs[0].type):
            return branch
    return None


def is_filled(atom: Atom | None, value: float) -> bool:
    """Whether a constant has this value in every element, one at least."""
    if not isinstance(atom, Const) or not 0 < atom.array.size <= _LARGEST:
        return False
    # The first element alone decides most cases.
    return bool(atom.array.flat[0] == value) and bool(np.all(atom.array == value))


def _neutral(eqn: Eqn, value: float, *, either: bool = False) -> Any:
    if eqn.params.get("fused_activation_function", "NONE") != "NONE":
        return None
    x, y = eqn.inputs
    pairs = ((x, y), (y, x)) if either else ((x, y),)
    for kept, constant in pairs:
        if kept is not None and is_filled(constant, value) and keeps_type(kept.type, eqn.outputs[0].type):
            return kept
    return None
