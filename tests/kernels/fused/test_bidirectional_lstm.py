"""BIDIRECTIONAL_SEQUENCE_LSTM against the written equations and against LiteRT's kernel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.fused.bidirectional import bidirectional_sequence_lstm as op
from tests.kernels.fused.lstm_oracle import GATES, LSTM, written
from tests.kernels.one_op import ACTIVATIONS, RESOLVERS, OneOp, worst


@dataclass(frozen=True)
class Pair:
    """Two cells over one sequence; `aux` columns of an auxiliary input, or the backward cell reads it (stacked)."""

    forward: LSTM
    backward: LSTM
    merged: bool = False
    aux: int = 0
    stacked: bool = False

    @property
    def options(self) -> dict[str, Any]:
        shared = ("fused_activation_function", "cell_clip", "proj_clip", "time_major")
        return {name: self.forward.options[name] for name in shared} | {"merge_outputs": self.merged}

    def draw(self, seed: int) -> list[np.ndarray]:
        """The input, and the auxiliary one where there is one."""
        x = self.forward.inputs_and_state(seed)[0]
        features = self.forward.inputs if self.stacked else self.aux
        rng = np.random.default_rng(seed + 100)
        return [x, rng.normal(size=(*x.shape[:2], features)).astype(np.float32)] if features else [x]

    def states(self) -> list[np.ndarray]:
        return [*self.forward.inputs_and_state(3)[1:], *self.backward.inputs_and_state(4)[1:]]

    def aux_weights(self, cell: LSTM) -> list[np.ndarray | None]:
        """For each gate, None for one that is not computed."""
        rng = np.random.default_rng(cell.seed + 50)
        shape = (cell.units, self.aux)
        weights = {g: rng.normal(0, 0.5, shape).astype(np.float32) for g in GATES}
        return [weights[g] if self.aux and f"W_{g}" in cell.operands else None for g in GATES]

    def operands(self, inputs: list[Any], states: list[Any], dtype: Any = np.float32) -> list[Any]:
        """All operands, in the file's order."""
        x, aux = (*inputs, None)[:2]
        directions = [cell.in_file_order(None, None, None)[1:18] for cell in (self.forward, self.backward)]
        aux_weights = [*self.aux_weights(self.forward), *self.aux_weights(self.backward)]
        weights = [None if w is None else w.astype(dtype) for w in (*directions[0], *directions[1])]
        return [x, *weights, *states, aux, *(None if w is None else w.astype(dtype) for w in aux_weights)]


def pair(
    other: dict[str, Any] | None = None, *, merged: bool = False, aux: int = 0, stacked: bool = False, **o: Any
) -> Pair:
    """Two cells with the same options but those in `other`."""
    second = {**o, **(other or {})}
    return Pair(LSTM(seed=1, **o), LSTM(seed=2, **second), merged, aux, stacked)


CASES = {
    "plain": pair(),
    "time_major": pair(time_major=True),
    "merged_time_major": pair(merged=True, time_major=True),
    "merged_one_sequence": pair(merged=True, batch=1),
    "coupled": pair(coupled=True),
    "coupled_backward": pair({"coupled": True}),
    "coupled_forward": pair({"coupled": False}, coupled=True, time_major=True),
    "peephole": pair(peephole=True),
    "peephole_forward": pair({"peephole": False}, peephole=True),
    "projection": pair(width=4),
    "projection_bias_merged": pair(width=4, projection_bias=True, merged=True, time_major=True),
    "projection_forward": pair({"width": None}, width=6),
    "cell_clip": pair(cell_clip=0.25),
    "proj_clip": pair(width=4, proj_clip=0.1875),
    "relu": pair(activation="RELU"),
    "relu6": pair(activation="RELU6"),
    "aux": pair(aux=7),
    "aux_time_major": pair(aux=3, time_major=True, merged=True),
    "aux_coupled": pair(aux=3, coupled=True, peephole=True),
    "aux_one_sequence": pair(aux=3, batch=1, merged=True),
    "stacked": pair(stacked=True),
    "stacked_time_major": pair(stacked=True, time_major=True),
    "all": pair(width=4, projection_bias=True, peephole=True, cell_clip=0.375, proj_clip=0.25, aux=2),
    "many": pair(units=32, batch=5, steps=7, time_major=True),
}
TOLERANCE = 2e-6  # sums of up to 32 + 12 terms in f32, carried over 7 steps
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def with_aux(case: Pair, cell: LSTM) -> LSTM:
    """The cell that reads the auxiliary input as further columns of the input."""
    wide = replace(cell)
    for gate, weights in zip(GATES, case.aux_weights(cell), strict=True):
        if weights is not None:
            wide.operands[f"W_{gate}"] = np.concatenate([cell.operands[f"W_{gate}"], weights], 1)
    return wide


def reference(case: Pair, inputs: list[np.ndarray], states: list[np.ndarray]) -> list[np.ndarray]:
    first, second = (with_aux(case, cell) for cell in (case.forward, case.backward))
    x = np.concatenate(inputs, -1) if case.aux else inputs[0]
    y, *finals = written(first, x, *states[:2])
    steps = 0 if case.forward.time_major else 1
    z, *others = written(second, np.flip(inputs[1] if case.stacked else x, steps), *states[2:])
    outputs = [y, np.flip(z, steps)]
    return [*([np.concatenate(outputs, -1)] if case.merged else outputs), *finals, *others]


@each_case
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param(np.float32, TOLERANCE, marks=pytest.mark.slow), (np.float64, 1e-13)]
)
def test_matches_the_equations(case: Pair, dtype: Any, tolerance: float) -> None:
    inputs, states = ([a.astype(dtype) for a in arrays] for arrays in (case.draw(1), case.states()))
    call = quick_jit(lambda inputs, states: op(*case.operands(inputs, states, dtype), **case.options))
    with jax.enable_x64(dtype is np.float64):
        found = [np.asarray(f) for f in call(inputs, states)]
    assert {f.dtype for f in found} == {np.dtype(dtype)}
    assert worst(found, reference(case, inputs, states)) < tolerance


@each_case
def test_matches_litert_on_three_invokes(case: Pair) -> None:
    invokes, states = [case.draw(seed) for seed in (1, 2, 3)], [np.zeros_like(s) for s in case.states()]
    options = {
        "fusedActivationFunction": ACTIVATIONS[case.forward.activation],
        "cellClip": case.forward.cell_clip,
        "projClip": case.forward.proj_clip,
        "mergeOutputs": case.merged,
        "timeMajor": case.forward.time_major,
    }
    widths = [case.forward.outputs, case.backward.outputs]
    shapes = [(*invokes[0][0].shape[:2], n) for n in ([sum(widths)] if case.merged else widths)]
    file = OneOp(
        "BIDIRECTIONAL_SEQUENCE_LSTM",
        "BidirectionalSequenceLSTM",
        options,
        case.operands(invokes[0], states),
        [0, 39][: len(invokes[0])],
        [35, 36, 37, 38],
        shapes,
    )
    call = quick_jit(lambda inputs, states: op(*case.operands(inputs, states), **case.options))
    found = []
    for inputs in invokes:
        found.append(call(inputs, states))
        states = list(found[-1][-4:])
    for resolver in RESOLVERS:
        answers = file.invoke(invokes, resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@pytest.mark.parametrize("merged", [False, True])
def test_types_of_symbolic_sizes(merged: bool) -> None:
    case = pair(merged=merged, time_major=True, width=4)
    types = [TensorType((symbol("T"), symbol("B"), 5), DType.f32)]
    types += [TensorType((symbol(f"B{n}"), width), DType.f32) for n, width in enumerate((4, 6, 4, 6))]
    graph = trace_graph(lambda x, *states: op(*case.operands([x], list(states)), **case.options), types)
    results = ["f32[T,B,8]"] if merged else ["f32[T,B,4]"] * 2
    assert [str(o.type) for o in graph.outputs] == [*results, *["f32[B,4]", "f32[B,6]"] * 2]


def test_operands_stand_as_in_the_file() -> None:
    assert len(op.operands) == 48
    assert [op.operand_index(name) for name in op.updates] == [35, 36, 37, 38]
    per_direction = [1, 5, 9, 10, 11, 12, 16, 17]
    optional = [n for n, o in enumerate(op.operands) if o.optional]
    assert optional == [*per_direction, *(n + 17 for n in per_direction), *range(39, 48)]


def test_refuses_what_the_kernel_does_not_compute() -> None:
    case = pair(aux=7, time_major=True)
    operands = case.operands(case.draw(1), case.states())
    with pytest.raises(TypeMismatch, match="merge_outputs needs time_major, or one sequence"):
        op(*pair().operands(pair().draw(1), pair().states()), merge_outputs=True, time_major=False)
    with pytest.raises(TypeMismatch, match="forward: fused_activation_function NONE gives undefined values"):
        op(*operands, fused_activation_function="NONE")
    with pytest.raises(TypeMismatch, match="weights of aux_input without aux_input"):
        op(*operands[:39], None, *operands[40:])
    with pytest.raises(TypeMismatch, match="weights for every gate, or for none"):
        op(*operands[:44])
    with pytest.raises(TypeMismatch, match=r"aux_input: \[4, 3, 7\] where \[4, 3, 5\] belongs"):
        op(*operands[:40])
    with pytest.raises(TypeMismatch, match=r"backward: aux weights of the input gate: \[4, 7\] where \[6, 7\] belongs"):
        op(*operands[:44], *(w[:4] for w in operands[44:]))
    with pytest.raises(TypeMismatch, match=r"backward: output state: \[2, 6\] where \[3, 6\] belongs"):
        op(*operands[:37], operands[37][:2], operands[38])
    for other in ({"units": 4}, {"width": 4}):
        unequal = pair(other)
        with pytest.raises(TypeMismatch, match=r"directions of \(6, 6\) and \((4, 4|6, 4)\) units and outputs"):
            op(*unequal.operands(unequal.draw(1), unequal.states()), time_major=False)
    diagonal = pair(diagonal=True)
    with pytest.raises(TypeMismatch, match="forward: recurrent weights are matrices"):
        op(*diagonal.operands(diagonal.draw(1), diagonal.states()), time_major=False)
    coupled = pair(coupled=True, aux=2)
    given = coupled.operands(coupled.draw(1), coupled.states())
    given[40] = given[41]
    with pytest.raises(TypeMismatch, match="the input gate has no weights but those of aux_input"):
        op(*given, time_major=False)
