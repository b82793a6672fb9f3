"""Recovers LSTMs from scans: finds h and c among the carried values, and the weights of each gate."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from jfuse.base.errors import NotFused
from jfuse.ir.graph import Atom, Var
from jfuse.ir.types import DType
from jfuse.lowering.recover.algebra.activations import ODD, activated, sigmoid_of
from jfuse.lowering.recover.algebra.expressions import (
    Activation,
    Apply,
    Clamp,
    Expr,
    Leaf,
    Norm,
    Opaque,
    divided,
    ends,
    parts,
    terms_of,
    text_of,
)
from jfuse.lowering.recover.algebra.view import BodyView, refuse_other_switches
from jfuse.lowering.recover.algebra.weights import (
    RecoveredGate,
    columns_of,
    gate_of,
    is_diagonal,
    leaf_of,
    need_products,
    single,
)
from jfuse.lowering.recover.cells.step import Step, step_input
from jfuse.lowering.rules import Proposal, need, recovers

GATES = ("input", "forget", "cell", "output")  # in the order of UNIDIRECTIONAL_SEQUENCE_LSTM's operands
_CELL = "c' = sigmoid(f)*c + sigmoid(i)*tanh(g)"
_OUTPUT = "h' = sigmoid(o)*tanh(c')"
EPSILON, CLOSE_EPSILON = 1e-8, 1e-12  # of the kernel's layer norm, and what f32 and measuring make of it


@dataclass(frozen=True)
class _Update:
    """c': its gates and what is done to them. The function of the cell gate's Activation is the op's."""

    gates: Mapping[str, Activation]
    clip: float

    @property
    def activation(self) -> str:
        return self.gates["cell"].function

    @property
    def is_coupled(self) -> bool:
        """Whether the input gate is 1 minus the forget gate."""
        old, new = self.gates["forget"], self.gates["input"]
        return old.operand == new.operand and old.scale == -new.scale


@dataclass(frozen=True)
class _Output:
    """h': its gate, and the projection of sigmoid(o)*tanh(c'): an affine value of it in a view where it is an input."""

    gate: Activation
    product: Expr
    view: BodyView
    entering: Var
    projected: Expr
    clip: float


@dataclass(frozen=True)
class _Cell:
    """An LSTM: h and c among the carries, the view in which c' is the input `new`."""

    h: Var
    c: Var
    new: Var
    view: BodyView
    update: _Update
    output: _Output
    read: Sequence[tuple[BodyView, Expr]] = field(default=())

    @property
    def gates(self) -> dict[str, Activation]:
        """The operands of the gates that have weights."""
        gates = {**self.update.gates, "output": self.output.gate}
        return {n: gates[n] for n in GATES if n != "input" or not self.update.is_coupled}


@recovers("jfuse.lstm")
def recover_lstm(step: Step) -> Proposal:
    """A scan as an LSTM; refuses with the nearest reading and where it differs.

    Operands x, h and c; weights, recurrent weights, bias, peephole and norm of each gate, and of the projection, where
    there are any; attributes: `reverse`; `results`: for each result of the scan "h", "c" (the last states) or "y" (h of
    every step); activation, clips and diagonal recurrence where they are not the op's defaults.
    """
    x = step_input(step.xs)
    states = [v for v in step.carries if v.type.dtype.is_float and v.type.rank == 2]
    need(len(states) >= 2, "not_lstm", want=f"two states: {_CELL}, {_OUTPUT}", got=[str(v.type) for v in step.carries])
    cell = _find_cell(step, states)
    need(cell.h.type.dtype is DType.f32, "state_dtype", want="f32", got=str(cell.h.type))
    for name, gate in cell.gates.items():
        _check_inputs(step, cell, name, gate, x)
    results = _results(step, cell)
    refuse_other_switches(step.body, cell.read)
    constants, attributes = _weights(step, cell, x)
    _check_epsilon(cell)
    return Proposal(
        operands={"x": step.place(x), "h": step.place(cell.h), "c": step.place(cell.c)},
        constants={name: single(array) for name, array in constants.items()},
        attributes={"results": results, "reverse": step.eqn.params["reverse"], **attributes},
    )


def _find_cell(step: Step, states: Sequence[Var]) -> _Cell:
    """The first assignment of carries to h and c that fits; else the refusal of the one that came closest."""
    nearest: list[NotFused] = []
    for c in states:
        try:
            return _cell_of(step, c, states)
        except NotFused as error:
            nearest.append(error)
    raise max(nearest, key=lambda error: error.near)


def _cell_of(step: Step, c: Var, states: Sequence[Var]) -> _Cell:
    after = dict(zip(step.carries, step.next_carries, strict=True))
    expr = step.view.read(after[c])
    update = _read_update(expr, step.view.reader.read(c))
    new_value = step.view.reader.origin(after[c])
    assert isinstance(new_value, Var), "what depends on a carry is no constant"
    view, new = step.view.cut(new_value, c.type)
    behind = step.dependence.inputs_behind(_leaf_vars(update.gates.values()))
    nearest: list[NotFused] = []
    for h in sorted((s for s in states if s is not c), key=lambda s: s not in behind):
        atom = view.body.outputs[step.carries.index(h)]
        try:
            output = _read_output(view, atom, new, update)
        except NotFused as error:
            nearest.append(error)
            continue
        read = ((step.view, expr), (view, output.product), (output.view, output.projected))
        return _Cell(h, c, new, view, update, output, read)
    raise max(nearest, key=lambda error: error.near)


def _leaf_vars(gates: Iterable[Activation]) -> list[Var]:
    return [e.var for gate in gates for e in ends(gate.operand) if isinstance(e, Leaf | Opaque)]


def _read_update(expr: Expr, state: Expr) -> _Update:
    """The forget, input and cell gates of c'."""
    inner, clip = _unclipped(expr)
    old, new = divided(terms_of(inner), state)
    forget = sigmoid_of(old)
    for activation, rest in activated(new):
        for sign in (1.0, -1.0):
            admit = sigmoid_of({m: sign * v for m, v in rest.items()})
            if forget and admit and (sign > 0 or activation.function in ODD):
                signed = Activation(activation.function, sign * activation.scale, activation.operand)
                return _Update({"input": admit, "forget": forget, "cell": signed}, clip)
    raise _other(expr, _CELL, "c'", near=1)


def _unclipped(expr: Expr) -> tuple[Expr, float]:
    """Return the operand of a clip to [-limit, limit], and the limit; 0 without a clip."""
    if isinstance(expr, Clamp) and expr.low == -expr.high:
        return expr.operand, expr.high
    return expr, 0.0


def _other(expr: Expr, want: str, name: str, near: int) -> NotFused:
    """The refusal of an expression that is not what was wanted."""
    told_apart = next((a.op.name for a in _applications(expr) if a.op.switch is not None), None)
    if told_apart is not None:
        return NotFused("unexplained_switch", want="no case distinction in the step", got=told_apart, near=near)
    return NotFused("not_lstm", want=want, got=f"{name} = {text_of(terms_of(expr))}", near=near)


def _applications(expr: Expr) -> Iterator[Apply]:
    if isinstance(expr, Apply):
        yield expr
    for part in parts(expr):
        yield from _applications(part)


def _read_output(view: BodyView, atom: Atom, new: Var, update: _Update) -> _Output:
    """The output gate of h', in which c' may occur only within the activation and in the gate; and the projection."""
    units = view.units(new)
    for eqn in view.computed(atom):
        for value in eqn.outputs:
            if not value.type.dtype.is_float or view.units(value) != units:
                continue
            product = view.read(value)
            gate = _read_product(product, view.reader.read(new), update.activation)
            if gate is not None:
                after, entering = view.cut(value, new.type)
                return _read_projection(after, entering, gate, product, after.body.outputs[_place(view, atom)])
    raise _other(view.read(atom), _OUTPUT, "h'", near=3)


def _place(view: BodyView, atom: Atom) -> int:
    return next(i for i, a in enumerate(view.body.outputs) if a is atom)


def _read_product(expr: Expr, new: Expr, activation: str) -> Activation | None:
    """The gate o of sigmoid(o)*act(c')."""
    for factor, rest in activated(terms_of(expr)):
        gate = sigmoid_of(rest)
        if factor == Activation(activation, 1.0, new) and gate is not None:
            return gate
    return None


def _read_projection(view: BodyView, entering: Var, gate: Activation, product: Expr, atom: Atom) -> _Output:
    """h' as an affine value of sigmoid(o)*act(c'), which is an input here."""
    projected = view.read(atom)
    inner, clip = _unclipped(projected)
    if not isinstance(inner, Leaf) or view.behind(inner) != {entering}:
        raise _other(projected, _OUTPUT, "h'", near=3)
    return _Output(gate, product, view, entering, projected, clip)


def _check_inputs(step: Step, cell: _Cell, name: str, gate: Activation, x: Var) -> None:
    """Refuse a gate that reads anything but the step input, h, and c in its peephole."""
    variables = [e.var for e in ends(gate.operand) if isinstance(e, Leaf | Opaque)]
    variables += [e.leaf.var for e in ends(gate.operand) if isinstance(e, Norm)]
    inputs = cell.view.dependence.inputs_behind(variables)
    allowed = {"cell": set(), "output": {cell.new}}.get(name, {cell.c})
    strangers = inputs & ({cell.c, cell.new} - allowed)
    got = f"a {name} gate that reads " + ("c'" if cell.new in strangers else "c")
    need(
        not strangers,
        "peephole",
        want="peepholes of the input and forget gates into c, of the output gate into c'",
        got=got,
    )
    varying = [str(v.type) for v in step.consts if v in inputs]
    need(not varying, "varying_constant", want=f"constant weights in the {name} gate", got=varying, near=5)
    others = sorted(str(v.type) for v in inputs - {x, cell.h, cell.c, cell.new})
    need(not others, "extra_carry", want=_affine(name), got=others, near=5)
    if leaf_of(gate.operand) is None:
        refuse_other_switches(step.body, [])
        raise NotFused("nonlinear_gate", want=_affine(name), got=text_of(terms_of(gate.operand)), near=5)


def _affine(gate: str) -> str:
    return f"a {gate} gate that is affine in x and h"


def _results(step: Step, cell: _Cell) -> tuple[str, ...]:
    """Name the role of each result of the scan."""
    outputs, carries = step.body.outputs, step.carries
    roles = {"h": carries.index(cell.h), "c": carries.index(cell.c)}
    read = step.view.reader.read
    roles_of = []
    for i, atom in enumerate(outputs):
        same = [n for n, p in roles.items() if outputs[p].type == atom.type and read(outputs[p]) == read(atom)]
        if i < len(carries):
            need(
                same,
                "extra_carry",
                want="h, c or a copy of them",
                got=f"a carried {carries[i].type} that is neither",
                near=6,
            )
            roles_of.append(next((n for n, place in roles.items() if place == i), same[0]))
        else:
            got = f"c of every step, {atom.type}" if same else atom.type
            need("h" in same, "output_is_h", want="h of every step", got=got, near=6)
            roles_of.append("y")
    return tuple(roles_of)


def _weights(step: Step, cell: _Cell, x: Var) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """The constants of the proposal, and the attributes that are not the op's defaults."""
    leaves = [leaf for gate in cell.gates.values() if (leaf := leaf_of(gate.operand)) is not None]
    forms = cell.view.forms(leaves, (x, cell.h, cell.c, cell.new))
    gates = {n: gate_of(g, forms, x, cell.h, (cell.c, cell.new)) for n, g in cell.gates.items()}
    if step.one_step:
        need_products([g.weights for g in gates.values()], [g.recurrent for g in gates.values()])
    constants = {f"{n}_weights": g.weights for n, g in gates.items()}
    constants |= {f"{n}_recurrent": g.recurrent for n, g in gates.items()}
    constants |= {f"{n}_bias": g.bias for n, g in gates.items()}
    if any(g.peephole.any() for g in gates.values()):
        constants |= {f"{n}_peephole": g.peephole for n, g in gates.items() if n != "cell"}
    constants |= _norms(gates)
    projection = _projection(cell.output)
    constants |= projection
    attributes: dict[str, Any] = {}
    if cell.update.activation != "TANH":
        attributes["activation"] = cell.update.activation
    clips = {"cell_clip": cell.update.clip, "proj_clip": cell.output.clip}
    attributes |= {name: clip for name, clip in clips.items() if clip}
    if not projection and all(is_diagonal(g.recurrent) and len(g.recurrent) > 1 for g in gates.values()):
        constants |= {f"{n}_recurrent": np.diagonal(g.recurrent) for n, g in gates.items()}
    return _with_idle_units(constants), attributes


def _with_idle_units(constants: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The weights with as many units as h has values, where those are more: the kernel has no room for them else.

    What is added has no weights: from c = 0 it stays 0.
    """
    projection = constants.get("projection_weights")
    if projection is None or projection.shape[0] <= projection.shape[1]:
        return constants
    idle = projection.shape[0] - projection.shape[1]
    want = "no more values of h than units, or no layer norm"
    need("forget_norm" not in constants, "projection_width", want=want, got=projection.shape, near=6)

    def widened(name: str, array: np.ndarray) -> np.ndarray:
        if name == "projection_bias":
            return array
        axis = 1 if name == "projection_weights" else 0
        return np.pad(array, [(0, idle if i == axis else 0) for i in range(array.ndim)])

    return {name: widened(name, array) for name, array in constants.items()}


def _norms(gates: Mapping[str, RecoveredGate]) -> dict[str, np.ndarray]:
    """The factors of the norms, and the biases within them as one more column of the weights, for an input of 1."""
    normed = {n: g.norm for n, g in gates.items() if g.norm is not None}
    if not normed:
        return {}
    need(
        len(normed) == len(gates),
        "mixed_layer_norm",
        want="a layer norm in every gate, or in none",
        got=[*normed],
        near=6,
    )
    constants = {f"{n}_norm": norm for n, norm in normed.items()}
    inner = {n: g.inner_bias for n, g in gates.items() if g.inner_bias is not None}
    if any(bias.any() for bias in inner.values()):
        constants |= {f"{n}_weights": np.column_stack([gates[n].weights, bias]) for n, bias in inner.items()}
    return constants


def _projection(output: _Output) -> dict[str, np.ndarray]:
    """Weights and bias of the projection; none where h' is the product itself."""
    inner, _ = _unclipped(output.projected)
    assert isinstance(inner, Leaf)
    if not output.clip and inner == output.view.reader.read(output.entering):
        return {}
    form = output.view.forms([inner], [output.entering])[inner.var]
    columns = columns_of(inner, form.bias.size)
    constants = {"projection_weights": form.matrices[output.entering][:, columns].T}
    bias = form.bias[columns]
    return constants | ({"projection_bias": bias} if bias.any() else {})


def _check_epsilon(cell: _Cell) -> None:
    """Refuse a layer norm that adds another number to the variance than the kernel: on quiet inputs the two differ."""
    norms = [gate.operand for gate in cell.gates.values() if isinstance(gate.operand, Norm)]
    other = next((n.epsilon for n in norms if abs(n.epsilon - EPSILON) > CLOSE_EPSILON), None)
    want = f"TFLite's epsilon, {EPSILON:g}"
    need(other is None, "layer_norm_epsilon", want=want, got=other and f"{other:.3g}", near=6)
