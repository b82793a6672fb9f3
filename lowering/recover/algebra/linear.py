"""Steps of a loop as rows of h' = A h + b: what multiplies each state element by element, and what is added."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.walk import live_eqns
from jfuse.kernels import ops
from jfuse.lowering.recover.algebra.reshaped import reshaped
from jfuse.lowering.rule_tools.query import rank, type_of

_ONE = np.ones((), np.float32)
_TAKEN = frozenset({ops.neg, ops.add, ops.sub, ops.mul, ops.div, ops.select, ops.select_v2})


@dataclass(frozen=True)
class Factor:
    """What a state is multiplied with: a value, or its negation."""

    value: Any
    negative: bool = False


@dataclass(frozen=True)
class LinearRow:
    """One result of a step: the states of which it is a sum, by number, each with its factor; `rest` is added."""

    factors: Mapping[int, Factor]
    rest: Any | None = None


def linear_rows(
    outputs: Sequence[Atom], body: Graph, carries: Sequence[Var], known: dict[Var, Any]
) -> list[LinearRow] | None:
    """Results of a step as rows, what needs no state recorded in the active trace; None where one is no row.

    carries: float values of one shape. known: for each other input of the body its value.
    """
    rows: dict[Var, LinearRow] = {var: LinearRow({i: Factor(_ONE)}) for i, var in enumerate(carries)}
    for eqn in live_eqns(body, outputs):
        if not any(isinstance(a, Var) and a in rows for a in eqn.inputs):
            read = tuple(v for v in dict.fromkeys(eqn.inputs) if isinstance(v, Var))
            results = evaluate(Graph("one", read, (eqn,), eqn.outputs), [known[v] for v in read])
            known.update(zip(eqn.outputs, results, strict=True))
            continue
        row = _row(eqn, rows, known)
        if row is None:
            return None
        rows[eqn.outputs[0]] = row
    return [_of(atom, rows, known) for atom in outputs]


def _of(atom: Atom | None, rows: Mapping[Var, LinearRow], known: Mapping[Var, Any]) -> LinearRow:
    """A value of the step as a row; one without states has nothing but the rest."""
    if isinstance(atom, Var):
        return rows[atom] if atom in rows else LinearRow({}, known[atom])
    assert atom is not None, "elementwise ops have all operands"
    return LinearRow({}, atom.array)


def _row(eqn: Eqn, rows: Mapping[Var, LinearRow], known: Mapping[Var, Any]) -> LinearRow | None:
    """The result of an elementwise equation on rows; None where it is not linear in the states."""
    is_renamed = eqn.op.moves == "renames"
    if eqn.params.get("fused_activation_function", "NONE") != "NONE" or not (eqn.op in _TAKEN or is_renamed):
        return None
    operands = [_of(a, rows, known) for a in eqn.inputs]
    shape = eqn.outputs[0].type.shape
    if is_renamed:
        return _renamed(eqn, operands[0])
    if not all(is_alike(a.type.shape, shape) for a in eqn.inputs if isinstance(a, Var) and a in rows):
        return None  # states are repeated
    if eqn.op is ops.neg:
        return _negated(operands[0])
    if eqn.op in (ops.add, ops.sub):
        return _sum(operands[0], _negated(operands[1]) if eqn.op is ops.sub else operands[1])
    if eqn.op is ops.mul and not all(o.factors for o in operands):
        row, other = operands if operands[0].factors else operands[::-1]
        return _mapped(row, lambda v: other.rest if v is _ONE else ops.mul(v, other.rest))
    if eqn.op is ops.div and not operands[1].factors:
        return _mapped(operands[0], lambda v: ops.div(v, operands[1].rest))
    is_choice = eqn.op in (ops.select, ops.select_v2) and not operands[0].factors
    if is_choice and rank(operands[0].rest) in (0, len(shape)):
        return _selected(operands[0].rest, *operands[1:])
    return None


def _renamed(eqn: Eqn, row: LinearRow) -> LinearRow | None:
    """A row whose elements stay in their order in another shape; numbers that all elements share stay as they are."""
    source, (out,) = eqn.inputs[0], eqn.outputs
    assert source is not None, "what is renamed is there"
    values = (*(f.value for f in row.factors.values()), *(() if row.rest is None else (row.rest,)))
    old = source.type.shape
    if not source.type.is_static and not all(rank(v) == 0 or is_alike(type_of(v).shape, old) for v in values):
        return None

    def renamed(v: Any) -> Any:
        whole = v if is_alike(type_of(v).shape, old) else ops.broadcast_to(v, np.array(old, np.int32))
        return reshaped(whole, out.type.shape)

    return _mapped(row, lambda v: v if rank(v) == 0 else renamed(v))


def _mapped(row: LinearRow, function: Callable[[Any], Any]) -> LinearRow:
    factors = {i: Factor(function(f.value), f.negative) for i, f in row.factors.items()}
    return LinearRow(factors, None if row.rest is None else function(row.rest))


def _negated(row: LinearRow) -> LinearRow:
    factors = {i: Factor(f.value, not f.negative) for i, f in row.factors.items()}
    return LinearRow(factors, None if row.rest is None else ops.neg(row.rest))


def _sum(first: LinearRow, second: LinearRow) -> LinearRow:
    factors = dict(first.factors)
    for i, factor in second.factors.items():
        factors[i] = _added(factors[i], factor) if i in factors else factor
    rests = [r for r in (first.rest, second.rest) if r is not None]
    return LinearRow(factors, ops.add(*rests) if len(rests) == 2 else rests[0] if rests else None)


def _added(first: Factor, second: Factor) -> Factor:
    """The sum of two factors, without a negation where their signs differ."""
    if first.negative == second.negative:
        return Factor(ops.add(first.value, second.value), first.negative)
    plus, minus = (second, first) if first.negative else (first, second)
    return Factor(ops.sub(plus.value, minus.value))


def _selected(condition: Any, first: LinearRow, second: LinearRow) -> LinearRow | None:
    """One row where a condition holds, which is of the rank of the states, and elsewhere the other one."""
    zero = np.zeros((), np.float32)

    def chosen(x: Any, y: Any) -> Any:
        return ops.select_v2(condition, zero if x is None else x, zero if y is None else y)

    def signed(row: LinearRow, i: int) -> Any:
        factor = row.factors.get(i)
        return None if factor is None else ops.neg(factor.value) if factor.negative else factor.value

    both = sorted({*first.factors, *second.factors})
    rest = None if first.rest is None and second.rest is None else chosen(first.rest, second.rest)
    return LinearRow({i: Factor(chosen(signed(first, i), signed(second, i))) for i in both}, rest)


def is_alike(a: Shape, b: Shape) -> bool:
    """Whether two shapes are known to be the same."""
    return len(a) == len(b) and all(same(d, e) is True for d, e in zip(a, b, strict=True))
