"""The LSTM among scans: which carried value is which state, and the weights of each gate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from jfuse.errors import NotFused
from jfuse.ir.graph import Atom, Graph, Var
from jfuse.ir.types import DType
from jfuse.lowering.recover.expressions import (
    Activation,
    Expr,
    Leaf,
    Opaque,
    Terms,
    ends,
    replaced,
    terms_of,
    text_of,
    with_activations,
)
from jfuse.lowering.recover.forms import Dependence, Form, linear_forms, row_size
from jfuse.lowering.recover.reader import Reader
from jfuse.lowering.recover.step import Step
from jfuse.lowering.rules import Proposal, need, recovers
from jfuse.lowering.switches import place_of, run_time_switches

GATES = ("input", "forget", "cell", "output")  # in the order of UNIDIRECTIONAL_SEQUENCE_LSTM's operands
_CELL = "c' = sigmoid(f)*c + sigmoid(i)*tanh(g)"
_NEXT = b"next"  # no places: marks c' in an expression of h'
_OUTPUT = "h' = sigmoid(o)*tanh(c')"


@dataclass(frozen=True)
class Gate:
    """weights: f[units, inputs]; recurrent: f[units, units]; bias: f[units].

    f32, or f64 where an array was computed in the body and f32 would round it.
    """

    weights: np.ndarray
    recurrent: np.ndarray
    bias: np.ndarray


@dataclass(frozen=True)
class _Roles:
    h: int  # among the carries
    c: int
    gates: Mapping[str, Activation]


@recovers("jfuse.lstm")
def recover_lstm(step: Step) -> Proposal:
    """A scan as an LSTM; refuses with the nearest reading and where it differs.

    Operands x, h and c; weights, recurrent weights and biases of each gate; attributes: `reverse`, and `results`: for
    each result of the scan "h", "c" (the last states) or "y" (h of every step).
    """
    _refuse_switches(step.body)
    x = _step_input(step.xs)
    carries = step.carries
    states = [v for v in carries if v.type.dtype.is_float and v.type.rank == 2]
    need(len(states) >= 2, "not_lstm", want=f"two states: {_CELL}, {_OUTPUT}", got=[str(v.type) for v in carries])
    roles = _find_roles(step.reader, carries, step.next_carries, states)
    h, c = carries[roles.h], carries[roles.c]
    need(h.type.dtype is DType.f32, "state_dtype", want="f32", got=str(h.type))
    for name in GATES:
        _check_inputs(step.dependence, name, roles.gates[name].operand, x, h, c, step.consts)
    leaves = {name: _leaf(name, roles.gates[name].operand) for name in GATES}
    results = _results(step.reader, step.body.outputs, carries, roles)
    gates = _gates(step.body, roles, leaves, x, h)
    return Proposal(
        operands={"x": step.place(x), "h": step.place(h), "c": step.place(c)},
        constants={f"{gate}_{part}": array for gate, parts in gates.items() for part, array in vars(parts).items()},
        attributes={"results": results, "reverse": step.eqn.params["reverse"]},
    )


def _refuse_switches(body: Graph) -> None:
    """Raise where the body tells cases apart: sampling could miss one, and no plain LSTM has any."""
    for _, eqn in run_time_switches(body):
        raise NotFused("unexplained_switch", want="no case distinction in the step", got=place_of(eqn))


def _find_roles(reader: Reader, carries: Sequence[Var], next_carries: Sequence[Atom], states: Sequence[Var]) -> _Roles:
    """The first assignment of carries to h and c that fits; else the refusal of the one that came closest."""
    nearest: list[tuple[int, NotFused]] = []
    for state in states:
        c = carries.index(state)
        cell_expr = reader.read(next_carries[c])
        try:
            gates = _read_cell(cell_expr, reader.read(state))
        except NotFused as error:
            nearest.append((0 if error.condition == "not_lstm" else 1, error))
            continue
        for h, other in enumerate(carries):
            if h == c or other.type != state.type:
                continue
            try:
                output = _read_output(reader.read(next_carries[h]), cell_expr, state)
            except NotFused as error:
                nearest.append((2 if error.condition == "not_lstm" else 3, error))
                continue
            return _Roles(h, c, {**gates, "output": output})
    raise max(nearest, key=lambda entry: entry[0])[1]


def _read_cell(expr: Expr, state: Expr) -> dict[str, Activation]:
    """The forget, input and cell gates of c'."""
    terms = terms_of(with_activations(expr))
    forget = [_sigmoids(m) for m in terms if (state, 1) in m and len(m) == 2]
    update = [m for m in terms if not any(f == state for f, _ in m) and len(m) == 2]
    if len(terms) == 2 and all(v == 1 for v in terms.values()) and len(forget) == 1 and forget[0] and len(update) == 1:
        gates, activated = _sigmoids(update[0]), _tanhs(update[0])
        if gates and activated:
            return {"forget": forget[0][0], "input": gates[0], "cell": activated[0]}
    need(not _is_coupled(terms, state), "coupled_gates", want=_CELL, got=f"c' = {text_of(terms)}")
    raise NotFused("not_lstm", want=_CELL, got=f"c' = {text_of(terms)}")


def _read_output(expr: Expr, cell: Expr, state: Var) -> Activation:
    """The output gate of h', in which c' may occur only within the tanh."""
    new_cell = Leaf(state, _NEXT)
    terms = terms_of(with_activations(replaced(expr, cell, new_cell)))
    ((monomial, coefficient),) = terms.items() if len(terms) == 1 else ((frozenset(), 0.0),)
    gates = [a for a in _sigmoids(monomial) if a.operand != new_cell]
    activated = [a for a in _tanhs(monomial) if a.operand == new_cell and a.scale == 1]
    if coefficient == 1 and len(monomial) == 2 and gates and activated:
        return gates[0]
    raise NotFused("not_lstm", want=_OUTPUT, got=f"h' = {text_of(terms)}")


def _sigmoids(monomial: frozenset[tuple[Expr, int]]) -> list[Activation]:
    return [f for f, n in monomial if n == 1 and isinstance(f, Activation) and f.function == "sigmoid"]


def _tanhs(monomial: frozenset[tuple[Expr, int]]) -> list[Activation]:
    return [f for f, n in monomial if n == 1 and isinstance(f, Activation) and f.function == "tanh"]


def _is_coupled(terms: Terms, state: Expr) -> bool:
    """Whether one sigmoid weighs both the old state and the new value, once with each sign."""
    gated = [(frozenset(_sigmoids(m)), (state, 1) in m, v) for m, v in terms.items() if _sigmoids(m)]
    old = {g for g, has_state, _ in gated if has_state}
    new = {g for g, has_state, _ in gated if not has_state}
    return len(terms) == 3 and bool(old & new) and {v for *_, v in gated} == {1.0, -1.0}


def _step_input(xs: Sequence[Var]) -> Var:
    need(len(xs) == 1, "one_step_input", want=1, got=len(xs))
    (x,) = xs
    need(x.type.dtype is DType.f32, "step_input_dtype", want="f32", got=str(x.type))
    need(x.type.rank == 2, "step_input_rank", want=2, got=str(x.type))
    return x


def _check_inputs(
    dependence: Dependence, gate: str, operand: Expr, x: Var, h: Var, c: Var, consts: Sequence[Var]
) -> None:
    """Refuse a gate that reads anything but the step input and h."""
    found = [e for e in ends(operand) if isinstance(e, Leaf | Opaque)]
    need(not any(e.index == _NEXT for e in found), "peephole", want=_affine(gate), got=f"a {gate} gate that reads c'")
    inputs = dependence.inputs_behind([e.var for e in found])
    need(c not in inputs, "peephole", want=_affine(gate), got=f"a {gate} gate that reads c")
    varying = [str(v.type) for v in consts if v in inputs]
    need(not varying, "varying_constant", want=f"constant weights in the {gate} gate", got=varying)
    others = sorted(str(v.type) for v in inputs - {x, h})
    need(not others, "extra_carry", want=_affine(gate), got=others)


def _leaf(gate: str, operand: Expr) -> Leaf:
    if isinstance(operand, Leaf):
        return operand
    raise NotFused("nonlinear_gate", want=_affine(gate), got=text_of(terms_of(operand)))


def _affine(gate: str) -> str:
    return f"a {gate} gate that is affine in x and h"


def _results(reader: Reader, outputs: Sequence[Atom], carries: Sequence[Var], roles: _Roles) -> tuple[str, ...]:
    """What each result of the scan is."""
    values = {"h": outputs[roles.h], "c": outputs[roles.c]}
    found = []
    for i, atom in enumerate(outputs):
        same = [n for n, v in values.items() if v.type == atom.type and reader.read(v) == reader.read(atom)]
        if i < len(carries):
            need(same, "extra_carry", want="h, c or a copy of them", got=f"a carried {carries[i].type} that is neither")
            found.append("h" if i == roles.h else "c" if i == roles.c else same[0])
        else:
            need(
                "h" in same,
                "output_is_h",
                want="h of every step",
                got=f"c of every step, {atom.type}" if same else atom.type,
            )
            found.append("y")
    return tuple(found)


def _gates(body: Graph, roles: _Roles, leaves: Mapping[str, Leaf], x: Var, h: Var) -> dict[str, Gate]:
    forms = linear_forms(body, tuple(dict.fromkeys(leaf.var for leaf in leaves.values())), (x, h))
    return {n: _gate(forms[leaf.var], leaf, roles.gates[n].scale, x, h) for n, leaf in leaves.items()}


def _gate(form: Form, leaf: Leaf, scale: float, x: Var, h: Var) -> Gate:
    columns = _columns(leaf, form.bias.size, row_size(h.type))

    def single(array: np.ndarray) -> np.ndarray:
        exact = np.ascontiguousarray((scale * array[..., columns]).T)
        narrow = exact.astype(np.float32)
        return narrow if np.array_equal(narrow, exact) else exact

    return Gate(single(form.matrices[x]), single(form.matrices[h]), single(form.bias))


def _columns(leaf: Leaf, width: int, units: int) -> np.ndarray:
    """The column of each unit; raises where rows of the gate are not rows of the batch."""
    places = np.frombuffer(leaf.index, np.int64).reshape(-1, units)
    by_row = places - width * np.arange(len(places))[:, None]
    fits = (by_row == by_row[0]).all() and (by_row[0] >= 0).all() and (by_row[0] < width).all()
    need(fits, "gate_layout", want="the gates of a row in that row", got=str(leaf.var.type))
    columns: np.ndarray = by_row[0]
    return columns
