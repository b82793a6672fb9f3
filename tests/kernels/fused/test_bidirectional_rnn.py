"""BIDIRECTIONAL_SEQUENCE_RNN against the written equations and against LiteRT's kernel."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.fused.bidirectional import bidirectional_sequence_rnn as op
from tests.kernels.fused.rnn_oracle import RNN, written
from tests.kernels.one_op import ACTIVATIONS, RESOLVERS, OneOp, as_one_program, worst


@dataclass(frozen=True)
class Pair:
    """Two cells over one sequence. stacked: the backward one reads the auxiliary input."""

    forward: RNN
    backward: RNN
    merged: bool = False
    stacked: bool = False

    @property
    def options(self) -> dict[str, Any]:
        return {
            "time_major": self.forward.time_major,
            "fused_activation_function": self.forward.activation,
            "merge_outputs": self.merged,
        }

    def draw(self, seed: int) -> list[np.ndarray]:
        """The input, and the auxiliary one where there is one."""
        x = self.forward.draw(seed)
        features = self.forward.inputs if self.stacked else self.forward.aux
        return [x, self.forward.draw(seed + 100, features)] if features else [x]

    def states(self) -> list[np.ndarray]:
        return [self.forward.draw_state(3), self.backward.draw_state(4)]

    def operands(self, inputs: list[Any], states: list[Any], dtype: Any = np.float32) -> list[Any]:
        """All operands, in the file's order."""
        first, second = self.forward, self.backward
        weights = [(v.astype(dtype) for v in (cell.w, cell.r, cell.b)) for cell in (first, second)]
        aux = [None if cell.a is None else cell.a.astype(dtype) for cell in (first, second)]
        x, a = (*inputs, None)[:2]
        return [x, *weights[0], states[0], *weights[1], states[1], a, *aux]


def pair(backward_units: int = 4, *, merged: bool = False, stacked: bool = False, **sizes: Any) -> Pair:
    """Two cells that differ in width and weights."""
    return Pair(RNN(seed=1, **sizes), RNN(seed=2, **{**sizes, "units": backward_units}), merged, stacked)


CASES = {
    "plain": pair(),
    "time_major": pair(time_major=True),
    "merged": pair(merged=True),
    "merged_time_major": pair(merged=True, time_major=True),
    "none": pair(activation="NONE"),
    "relu": pair(activation="RELU"),
    "relu6": pair(activation="RELU6"),
    "relu_n1_to_1": pair(activation="RELU_N1_TO_1"),
    "aux": pair(aux=5, time_major=True),
    "aux_merged": pair(6, aux=5, time_major=True, merged=True),
    "stacked": pair(stacked=True, time_major=True),
    "one": pair(1, units=1, inputs=1, batch=1, steps=1),
    "many": pair(32, units=16, batch=5, steps=7, time_major=True, merged=True),
}
TOLERANCE = 2e-6  # sums of up to 32 + 12 terms in f32, carried over 7 steps
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def reference(case: Pair, inputs: list[np.ndarray], states: list[np.ndarray]) -> list[np.ndarray]:
    x, aux = (*inputs, None)[:2]
    assert x is not None
    reads = aux if case.stacked and aux is not None else x
    added = None if case.stacked else aux
    y, h = written(case.forward, x, states[0], added)
    z, g = written(case.backward, reads, states[1], added, backwards=True)
    return [*([np.concatenate([y, z], -1)] if case.merged else [y, z]), h, g]


@each_case
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param(np.float32, TOLERANCE, marks=pytest.mark.slow), (np.float64, 1e-13)]
)
def test_matches_the_equations(case: Pair, dtype: Any, tolerance: float) -> None:
    inputs, states = ([a.astype(dtype) for a in arrays] for arrays in (case.draw(1), case.states()))
    found = as_one_program(lambda x, h: op(*case.operands(x, h, dtype), **case.options), [inputs, states])
    assert {f.dtype for f in found} == {np.dtype(dtype)}
    assert worst(found, reference(case, inputs, states)) < tolerance


@each_case
def test_matches_litert_on_three_invokes(case: Pair) -> None:
    invokes, states = [case.draw(seed) for seed in (1, 2, 3)], [np.zeros_like(s) for s in case.states()]
    options = {
        "timeMajor": case.forward.time_major,
        "fusedActivationFunction": ACTIVATIONS[case.forward.activation],
        "mergeOutputs": case.merged,
    }
    rows = invokes[0][0].shape[:2]
    widths = [case.forward.units, case.backward.units]
    shapes = [(*rows, n) for n in ([sum(widths)] if case.merged else widths)]
    places = [0, 9][: len(invokes[0])]
    operands = case.operands(invokes[0], states)
    file = OneOp("BIDIRECTIONAL_SEQUENCE_RNN", "BidirectionalSequenceRNN", options, operands, places, [4, 8], shapes)
    call = quick_jit(lambda inputs, states: op(*case.operands(inputs, states), **case.options))
    found = []
    for inputs in invokes:
        found.append(call(inputs, states))
        states = list(found[-1][-2:])
    for resolver in RESOLVERS:
        answers = file.invoke(invokes, resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@pytest.mark.parametrize("merged", [False, True])
def test_types_of_symbolic_sizes(merged: bool) -> None:
    case = pair(merged=merged)
    types = [
        TensorType((symbol("B"), symbol("T"), 5), DType.f32),
        TensorType((symbol("B1"), 6), DType.f32),
        TensorType((symbol("B2"), 4), DType.f32),
    ]
    graph = trace_graph(lambda x, h, g: op(*case.operands([x], [h, g]), **case.options), types)
    results = ["f32[B,T,10]"] if merged else ["f32[B,T,6]", "f32[B,T,4]"]
    assert [str(o.type) for o in graph.outputs] == [*results, "f32[B,6]", "f32[B,4]"]


def test_operands_stand_as_in_the_file() -> None:
    assert len(op.operands) == 12
    places = {name: op.operand_index(name) for name in op.updates}
    assert places == {"forward_hidden_state": 4, "backward_hidden_state": 8}
    assert [n for n, o in enumerate(op.operands) if o.optional] == [9, 10, 11]


def test_refuses_what_the_kernel_does_not_compute() -> None:
    wide, case = pair(aux=7, time_major=True), pair(aux=5, time_major=True)
    with pytest.raises(TypeMismatch, match="aux_input needs as many columns as the input"):
        op(*wide.operands(wide.draw(1), wide.states()), time_major=True)
    operands = case.operands(case.draw(1), case.states())
    with pytest.raises(TypeMismatch, match="aux_input needs time_major"):
        op(*operands)
    with pytest.raises(TypeMismatch, match="weights of aux_input without aux_input"):
        op(*operands[:9], None, *operands[10:], time_major=True)
    with pytest.raises(TypeMismatch, match="weights for every gate, or for none"):
        op(*operands[:11], time_major=True)
    with pytest.raises(TypeMismatch, match=r"aux_input: \[4, 2, 5\] where \[4, 3, 5\] belongs"):
        op(*operands[:9], operands[9][:, 1:], time_major=True)
    with pytest.raises(TypeMismatch, match=r"forward: aux weights: \[4, 5\] where \[6, 5\] belongs"):
        op(*operands[:10], operands[11], operands[11], time_major=True)
    with pytest.raises(TypeMismatch, match=r"backward: hidden state: \[3, 6\] where \[3, 4\] belongs"):
        op(*operands[:8], operands[4], time_major=True)
    with pytest.raises(TypeMismatch, match="the input has rank 3, not 2"):
        op(operands[0][0], *operands[1:9])
