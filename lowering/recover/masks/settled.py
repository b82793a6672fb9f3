"""Simplifies the step of a loop where some inputs hold one value: selects, products and sums with them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import is_same_type, live_eqns, substitute
from jfuse.kernels import ops
from jfuse.lowering.rule_tools.broadcast_constants import Known, broadcast_result, constant_of

_PARTIAL = (ops.div, ops.log, ops.pow_, ops.rsqrt, ops.sqrt)


def settled(body: Graph, known_inputs: Known) -> tuple[Graph, Known]:
    """Simplify the body for finite numbers, where 0 * x is 0; return it with the values that are known, as scalars.

    known_inputs: inputs that hold one value, as scalars. The graph still computes known values where they are read.
    """
    known = dict(known_inputs)
    stands: dict[Var, Atom] = {}
    made: dict[Var, Eqn] = {}
    for eqn in body.eqns:
        current = substitute(eqn, stands)
        if len(current.outputs) != 1 or not current.op.is_kernel or current.effects:
            made.update(dict.fromkeys(current.outputs, current))
            continue
        (out,) = current.outputs
        same = _operand_that_it_is(current, known, made)
        if same is not None and is_same_type(same.type, out.type):
            stands[out] = same
            continue
        made[out] = current
        value = _value(current, known, made)
        if value is not None:
            known[out] = value
    outputs = tuple(stands.get(a, a) if isinstance(a, Var) else a for a in body.outputs)
    graph = replace(body, eqns=tuple(dict.fromkeys(made.values())), outputs=outputs)
    return replace(graph, eqns=live_eqns(graph, outputs)), known


def _value(eqn: Eqn, known: Known, made: Mapping[Var, Eqn]) -> np.ndarray | None:
    """The one value of all elements of the result, as a scalar. Nothing times a logarithm may be NaN."""
    is_zero = _is_plain(eqn, "elements") and any(_one_value(a, known) == 0 for a in eqn.inputs)
    if is_zero and not any(_may_be_undefined(a, made) for a in eqn.inputs):
        return np.zeros((), eqn.outputs[0].type.dtype.numpy)
    value = broadcast_result(eqn, known)
    return value.reshape(()) if value is not None and value.size == 1 else None


def _may_be_undefined(atom: Atom | None, made: Mapping[Var, Eqn]) -> bool:
    """Whether a value is computed by a function that is NaN for some numbers."""
    eqn = made.get(atom) if isinstance(atom, Var) else None
    return eqn is not None and (eqn.op in _PARTIAL or any(_may_be_undefined(a, made) for a in eqn.inputs))


def _operand_that_it_is(eqn: Eqn, known: Known, made: Mapping[Var, Eqn]) -> Atom | None:
    """The operand that the result surely is: of a choice, a product with 1, a sum with 0, `x + (y - x)`."""
    if eqn.op.selects:
        condition, yes, no = eqn.inputs
        value = _one_value(condition, known)
        return None if value is None else yes if value else no
    if _is_plain(eqn, "elements"):
        return _other(eqn, 1, known)
    if eqn.op is ops.sub and _is_plain(eqn):
        return eqn.inputs[0] if _one_value(eqn.inputs[1], known) == 0 else None
    if eqn.op is ops.add and _is_plain(eqn):
        other = _other(eqn, 0, known)
        return _of_difference(eqn, made) if other is None else other
    return None


def _is_plain(eqn: Eqn, product: str | None = None) -> bool:
    return eqn.op.product == product and eqn.params.get("fused_activation_function", "NONE") == "NONE"


def _other(eqn: Eqn, neutral: float, known: Known) -> Atom | None:
    """The operand beside one that changes nothing."""
    first, second = eqn.inputs
    return first if _one_value(second, known) == neutral else second if _one_value(first, known) == neutral else None


def _of_difference(eqn: Eqn, made: Mapping[Var, Eqn]) -> Atom | None:
    """y of x + (y - x)."""
    for x, difference in (eqn.inputs, eqn.inputs[::-1]):
        inner = made.get(difference) if isinstance(difference, Var) else None
        if inner is not None and inner.op is ops.sub and _is_plain(inner) and inner.inputs[1] is x:
            return inner.inputs[0]
    return None


def _one_value(atom: Atom | None, known: Known) -> float | None:
    array = None if atom is None else constant_of(atom, known)
    return array.item() if array is not None and array.size == 1 and array.dtype.kind in "bif" else None
