"""Choices that are decided before the model runs: selects by one constant, products with ones."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import is_same_type, with_new_bodies
from jfuse.kernels.control import composite, scan
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_constants, constant_of
from jfuse.passes.rewrite import rewrite

_LARGEST = 1 << 16  # elements of a constant that is looked at; paddings have one for each row and step

Done = dict[Any, Graph]


def fold_selects(graph: Graph) -> Graph:
    """The graph with the chosen value for each select whose condition is one constant, in bodies too.

    Cells are called with paddings and masks that are zeros of whatever batch, in one step or in all: they would be read
    as masked steps; and with dropout masks of ones, a product for each gate.
    """
    return _settled(graph, {}, {})


def _settled(graph: Graph, given: Known, done: Done) -> Graph:
    """given: inputs that hold one value, as a scalar. done: what came out so far, so that shared bodies stay shared."""
    key = (graph, tuple((var, value.item()) for var, value in given.items()))
    if key not in done:
        known = broadcast_constants(graph, given)
        settled = rewrite(graph, lambda eqn: _chosen(eqn, known))
        eqns = tuple(_with_settled_bodies(eqn, known, done) for eqn in settled.eqns)
        same = all(map(operator.is_, eqns, settled.eqns))
        done[key] = settled if same else replace(settled, eqns=eqns)
    return done[key]


def _chosen(eqn: Eqn, known: Known) -> Sequence[Any] | None:
    """The value that a select or a product surely is, where that has the result's shape."""
    chosen: Atom | None = None
    if eqn.op.product == "elements" and eqn.params["fused_activation_function"] == "NONE":
        x, y = eqn.inputs
        chosen = x if _value(y, known) == 1 else y if _value(x, known) == 1 else None
    elif eqn.op.selects:
        condition, yes, no = eqn.inputs
        value = _value(condition, known)
        chosen = None if value is None else yes if value.item() else no
    fits = chosen is not None and is_same_type(chosen.type, eqn.outputs[0].type)
    return [chosen] if fits else None


def _with_settled_bodies(eqn: Eqn, known: Known, done: Done) -> Eqn:
    if not eqn.bodies:
        return eqn
    unchanging: Sequence[Atom | None] = ()
    if eqn.op is scan:  # what it is given, and sequences of which every step is the same; not what it carries
        first, last = eqn.params["consts"], eqn.params["consts"] + eqn.params["carries"]
        unchanging = [a if not first <= i < last else None for i, a in enumerate(eqn.inputs)]
    elif eqn.op is composite:
        unchanging = eqn.inputs

    def settled(body: Graph) -> Graph:
        values = {var: _value(a, known) for var, a in zip(body.inputs, unchanging, strict=False)}
        return _settled(body, {var: value for var, value in values.items() if value is not None}, done)

    return with_new_bodies(eqn, settled)


def _value(atom: Atom | None, known: Mapping[Var, np.ndarray]) -> np.ndarray | None:
    """The one value of all elements, as a scalar; None where there are several, or none is known."""
    array = None if atom is None else constant_of(atom, known)
    if array is None or not 0 < array.size <= _LARGEST or array.dtype.kind not in "bif":
        return None
    first = array.reshape(-1)[0]
    return np.asarray(first) if (array == first).all() else None
