"""Cells that lingvo marks, or that are written after its: LSTMCellSimple, LayerNormalizedLstmCellSimple.

Two contracts. With the states among the arguments, a step is read as a loop's would be. Without them, as the official
converter has it, every step starts from states of zero, and the weights are known by their places.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any

import numpy as np

from jfuse.base.errors import NotFused
from jfuse.ir.dims import is_known
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import live_eqns, producers, retype, substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites.recurrent import fuse_lstm
from jfuse.lowering.recover.cells.lstm import CLOSE_EPSILON, EPSILON, recover_lstm
from jfuse.lowering.recover.cells.step import Step
from jfuse.lowering.rule_tools.query import dtype, is_constant, rank, type_of
from jfuse.lowering.rule_tools.rule_context import site
from jfuse.lowering.rule_tools.shape_tensors import zeros
from jfuse.lowering.rules import Proposal, fuses, need

_SELECTS = (ops.select, ops.select_v2)
_STATES = ("m", "c")
_PADDINGS = ("padding", "paddings")
_WEIGHTS = {
    "weight": ("wm", "weight", "weights", "kernel"),
    "bias": ("b", "bias"),
    "projection": ("w_proj", "projection"),
    "scale": ("ln_scale", "layer_norm_scale"),
}
"""The names of a marked function's arguments, lingvo's names first."""
_PLACES = ("input", *_WEIGHTS)  # of the official contract
_BLOCKS = ("cell", "input", "forget", "output")  # of lingvo's matrices; without "input" where gates are coupled


# Recovery reads an activation that is spelled as a choice from its structure, case by case: hence the claims.
@fuses(
    "LSTMCellSimple",
    "LayerNormalizedLstmCellSimple",
    "LayerNormalizedLSTMCellSimple",
    "lingvo.LSTMCellSimple",
    "lingvo.LayerNormalizedLSTMCellSimple",
    claims={"compare", "select"},
    makes=("LSTM",),
)
def fuse_lingvo_cell(*operands: Array) -> tuple[Array | None, ...]:
    """One step of lingvo's LSTM -> LSTM, with what the function itself does: its cap, biases, coupled gates, norm.

    By the names of the arguments, in any order: m f[b,o] and c f[b,u], the states, with the weights constant and
    a padding f[b,1], where the states stay if it is above 0, or none -> m', c' in any order. Else without states:
    input f[b,i], weight f[i+o,4u], bias f[4u], projection f[u,o] (of another rank where there is none), and the scale
    of the layer norm f[4u] -> m'. 3u instead of 4u where the input gate is 1 minus the forget gate.
    Source: lingvo/core/rnn_cell.py; tflite/converter/utils/lstm_utils.cc
    """
    named = dict(zip(site().arguments, operands, strict=True))
    if all(name in named for name in _STATES):
        return _with_states(named)
    return _from_zero(named)


@dataclass(frozen=True)
class _Result:
    """A result of the body: the new value of a state; where `kept` is set, the old one stays in the rows it says."""

    value: Atom
    kept: Eqn | None = None


def _with_states(named: Mapping[str, Array]) -> tuple[Array | None, ...]:
    body = site().body
    by_name = dict(zip(named, body.inputs, strict=True))
    known = {v: Const(named[n]) for n, v in by_name.items() if is_constant(named[n]) and n not in _STATES}
    body = substitute_graph(body, known)
    states = [by_name[name] for name in _STATES]
    taken = {*_STATES, *_PADDINGS, *(name for names in _WEIGHTS.values() for name in names)}
    inputs = [n for n, v in by_name.items() if n not in taken and v not in known and v.type.dtype.is_float]
    need(len(inputs) == 1, "one_step_input", want="one argument that is the step input", got=inputs)
    results = [_result(body, atom, states) for atom in body.outputs]
    order, proposal = _read(body, by_name[inputs[0]], states, results)
    new = _stepped(named, inputs[0], proposal, order)
    return tuple(_masked(named, r, by_name, value) for r, value in zip(results, new, strict=True))


def _result(body: Graph, atom: Atom, states: Sequence[Var]) -> _Result:
    """The new state behind the select that keeps the old one where a step does not count."""
    eqn = producers(body).get(atom) if isinstance(atom, Var) else None
    if eqn is None or eqn.op not in _SELECTS or not any(s in eqn.inputs[1:] for s in states):
        return _Result(atom)
    new = next((a for a in eqn.inputs[1:] if a not in states), None)
    return _Result(atom) if new is None else _Result(new, eqn)


def _read(body: Graph, x: Var, states: Sequence[Var], results: Sequence[_Result]) -> tuple[tuple[int, ...], Proposal]:
    """Which state each result is, by its number, and the cell; else the refusal of the order that came closest."""
    need(len(results) == len(states), "cell_results", want="the two new states", got=len(results))
    refusals: list[NotFused] = []
    for order in permutations(range(len(states))):
        pairs = [(r, states[i]) for r, i in zip(results, order, strict=True)]
        if any(r.value.type != s.type or (r.kept is not None and s not in r.kept.inputs) for r, s in pairs):
            continue
        after = [results[order.index(i)].value for i in range(len(states))]
        try:
            return order, recover_lstm(one_step(body, x, states, after))
        except NotFused as refusal:
            refusals.append(refusal)
    need(refusals, "cell_results", want="results of the types of m and c", got=[str(r.value.type) for r in results])
    raise max(refusals, key=lambda refusal: refusal.near)


def _stepped(named: Mapping[str, Array], x: str, proposal: Proposal, order: Sequence[int]) -> list[Array | None]:
    """The new states, in the order of the results; None where nothing reads one."""
    options = {name: value for name, value in proposal.attributes.items() if name not in ("results", "reverse")}
    roles = proposal.attributes["results"]
    states = dict(zip(roles, (named[name] for name in _STATES), strict=True))
    results = tuple(roles[i] for i in order)
    return _one_step(named[x], states["h"], states["c"], results, {**proposal.constants, **options})


def _one_step(x: Array, h: Array, c: Array, results: tuple[str, ...], cell: Mapping[str, Any]) -> list[Array | None]:
    """The results "h" and "c" of a step; cell: weights and options as those of `jfuse.lstm`."""
    return list(fuse_lstm(ops.expand_dims(x, 0), h, c, results=results, one_step=True, **cell))


def _masked(named: Mapping[str, Array], result: _Result, by_name: Mapping[str, Var], new: Array | None) -> Array | None:
    """A new state, or the old one in the rows in which the body keeps it."""
    if result.kept is None or new is None:
        return new
    condition, yes, no = result.kept.inputs
    assert condition is not None, "a select has no optional operands"
    operands = {v: named[n] for n, v in by_name.items()}
    old = next(operands[a] for a in (yes, no) if isinstance(a, Var) and a in operands)
    body = site().body
    (rows,) = evaluate(replace(body, eqns=live_eqns(body, [condition]), outputs=(condition,)), list(operands.values()))
    return ops.select_v2(rows, *((new, old) if yes is result.value else (old, new)))


def _from_zero(named: Mapping[str, Array]) -> tuple[Array | None, ...]:
    operands = _by_place(named)
    for role, value in operands.items():
        need(role == "input" or is_constant(value), f"static_{role}", want="a constant", got=str(type_of(value)))
    x = operands["input"]
    fits = rank(x) == 2 and is_known(x.shape[1]) and dtype(x) in (DType.f32, DType.f64)
    need(fits, "cell_input", want="f32[batch, inputs]", got=str(type_of(x)))
    need(len(site().results) == 1, "cell_results", want="m' alone", got=len(site().results))
    outputs = site().result_type(0).shape[-1]
    units = operands["projection"].shape[0] if "projection" in operands else outputs
    count = operands["bias"].size // units
    shapes = {role: value.shape for role, value in operands.items()}
    want = {"input": x.shape, "weight": (x.shape[1] + outputs, count * units), "bias": (count * units,)}
    want |= {"projection": (units, outputs)} if "projection" in operands else {}
    want |= {"scale": (count * units,)} if "scale" in operands else {}
    need(shapes == want and count in (3, 4) and outputs <= units, "cell_weights", want=want, got=shapes)
    h, c = (zeros((x.shape[0], n), dtype(x), [x]) for n in (outputs, units))
    return tuple(_one_step(x, h, c, ("h",), {**_weights(operands, count), "cell_clip": _cap(site().body)}))


def _by_place(named: Mapping[str, Array]) -> dict[str, Array]:
    """Input, weight, bias, projection and scale: by lingvo's names where all are such, else in this order."""
    roles = {name: role for role, names in _WEIGHTS.items() for name in names}
    others = [name for name in named if name not in roles]
    if len(others) == 1 and len({roles[name] for name in named if name in roles}) == len(named) - 1:
        operands = {roles.get(name, "input"): value for name, value in named.items()}
    else:
        operands = dict(zip(_PLACES, named.values(), strict=False))
    need(
        {"input", "weight", "bias"} <= operands.keys() and len(named) <= len(_PLACES),
        "cell_arguments",
        want="m and c among the arguments, or (input, weight, bias, projection[, layer_norm_scale])",
        got=", ".join(named),
    )
    return {r: v for r, v in operands.items() if r != "projection" or rank(v) == 2}


def _weights(operands: Mapping[str, Array], count: int) -> dict[str, np.ndarray]:
    """The weights of each gate from lingvo's, whose columns are blocks in the order cell, input, forget, output."""
    gates = [gate for gate in _BLOCKS if count == 4 or gate != "input"]
    weight, recurrent = np.split(operands["weight"], [operands["input"].shape[1]])
    kinds = {"weights": weight.T, "recurrent": recurrent.T, "bias": operands["bias"], "norm": operands.get("scale")}
    weights = {
        f"{gate}_{kind}": part
        for kind, array in kinds.items()
        if array is not None
        for gate, part in zip(gates, np.split(array, count), strict=True)
    }
    return weights | ({"projection_weights": operands["projection"].T} if "projection" in operands else {})


def _cap(body: Graph) -> float:
    """The constant that the body clips to, 0 where there is none; what it clips is for the proof to find out."""
    _check_epsilon(body)
    limits = {abs(value) for eqn in body.eqns if eqn.op in (ops.minimum, ops.maximum) for value in _scalars(eqn)}
    need(len(limits) <= 1, "cell_clip", want="one limit, of the cell state", got=sorted(limits))
    return limits.pop() if limits else 0.0


def _check_epsilon(body: Graph) -> None:
    made = producers(body)
    for eqn in body.eqns:
        if eqn.op in (ops.rsqrt, ops.sqrt) and isinstance(entering := eqn.inputs[0], Var) and entering in made:
            epsilon = max(_scalars(made[entering]), default=0.0)
            is_kernels = not epsilon or abs(epsilon - EPSILON) <= CLOSE_EPSILON
            need(is_kernels, "layer_norm_epsilon", want=f"TFLite's epsilon, {EPSILON:g}", got=f"{epsilon:.3g}")


def _scalars(eqn: Eqn) -> list[float]:
    """The constant operands of one element."""
    return [float(a.array.reshape(())) for a in eqn.inputs if isinstance(a, Const) and a.array.size == 1]


# One step of a recurrence that stands outside of a loop: read as the body of a loop that makes a single step.


def one_step(body: Graph, x: Var, states: Sequence[Var], after: Sequence[Atom]) -> Step:
    """The step from `states`, inputs of a body, to their values `after`; x: the input that a loop would step through.

    The other inputs are loop-invariant. f64 is read as f32, in which recover rules take their operands.
    """
    others = [v for v in body.inputs if v is not x and v not in states]
    inputs = (*others, *states, x)
    step = _narrow(Graph("step", inputs, live_eqns(body, after), tuple(after)))
    params = {"consts": len(others), "carries": len(states), "length": 1, "reverse": False}
    outputs = tuple(Var(a.type) for a in step.outputs)
    # The step input has no axis of steps here: nothing that reads the step looks at the operands of the scan.
    return Step(Eqn(scan, step.inputs, outputs, params, bodies=(step,)))


def _narrow(graph: Graph) -> Graph:
    """The graph in f32 where it is in f64."""

    def constant(const: Const) -> Const:
        return Const(const.array.astype(DType.f32.numpy), const.name) if const.type.dtype is DType.f64 else const

    def narrow(type_: TensorType) -> TensorType:
        return replace(type_, dtype=DType.f32) if type_.dtype is DType.f64 else type_

    return retype(graph, narrow, lambda value: DType.f32 if value is DType.f64 else value, constant)
