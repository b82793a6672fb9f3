"""SVDF against the written equations and against LiteRT's kernel."""

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
from jfuse.kernels.fused.svdf import svdf
from tests.kernels.fused.lstm_oracle import activate
from tests.kernels.one_op import ACTIVATIONS, RESOLVERS, OneOp, as_one_program, worst


@dataclass(frozen=True)
class S:
    """Sizes and options of one SVDF."""

    batch: int = 3
    inputs: int = 5
    units: int = 4
    rank: int = 2
    memory: int = 3
    bias: bool = True
    activation: str = "NONE"

    def weights(self) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
        """W, T and the bias."""
        rng = np.random.default_rng(0)
        filters = self.units * self.rank
        shapes = ((filters, self.inputs), (filters, self.memory), (self.units,))
        w, t, b = (rng.normal(0, 0.8, shape).astype(np.float32) for shape in shapes)
        return w, t, b if self.bias else None

    def state(self) -> np.ndarray:
        """A memory of steps."""
        shape = (self.batch, self.units * self.rank * self.memory)
        return np.random.default_rng(9).normal(size=shape).astype(np.float32)


CASES = {
    "plain": S(),
    "rank_1": S(rank=1),
    "rank_3": S(rank=3, units=2),
    "no_bias": S(bias=False),
    "relu": S(activation="RELU"),
    "relu6": S(activation="RELU6"),
    "relu_n1_to_1": S(activation="RELU_N1_TO_1"),
    "tanh": S(activation="TANH"),
    "memory_1": S(memory=1),
    "one": S(batch=1, inputs=1, units=1, rank=1, memory=2),
    "many": S(batch=5, units=16, rank=2, memory=10, inputs=7, activation="RELU"),
}
TOLERANCE = 2e-6  # sums of up to 20 products of 7 terms, in f32
each_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


def draw(case: S, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(case.batch, case.inputs)).astype(np.float32)


def run(case: S, x: Any, state: Any) -> Any:
    w, t, b = (None if v is None else v.astype(x.dtype) for v in case.weights())
    return svdf(x, w, t, b, state, rank=case.rank, fused_activation_function=case.activation)


def written(case: S, x: np.ndarray, state: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """One unit and one filter at a time."""
    w, t, b = (None if v is None else v.astype(x.dtype) for v in case.weights())
    assert w is not None
    assert t is not None
    y = np.zeros((case.batch, case.units), x.dtype)
    new = np.zeros_like(state)
    for row in range(case.batch):
        for f in range(case.units * case.rank):
            window = slice(f * case.memory, (f + 1) * case.memory)
            new[row, window] = [*state[row, window][1:], x[row] @ w[f]]
            y[row, f // case.rank] += new[row, window] @ t[f]
        y[row] += 0 if b is None else b
    return y if case.activation == "NONE" else activate(y, case.activation), new


@each_case
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param(np.float32, TOLERANCE, marks=pytest.mark.slow), (np.float64, 1e-13)]
)
def test_matches_the_equations(case: S, dtype: Any, tolerance: float) -> None:
    x, state = draw(case, 1).astype(dtype), case.state().astype(dtype)
    found = as_one_program(lambda *given: run(case, *given), [x, state])
    assert {f.dtype for f in found} == {np.dtype(dtype)}
    assert worst(found, written(case, x, state)) < tolerance


@each_case
def test_matches_litert_on_many_invokes(case: S) -> None:
    inputs = [draw(case, seed) for seed in range(case.memory + 2)]
    state = np.zeros_like(case.state())
    options = {"rank": case.rank, "fusedActivationFunction": ACTIVATIONS[case.activation]}
    file = OneOp("SVDF", "SVDF", options, [inputs[0], *case.weights(), state], [0], [4], [(case.batch, case.units)])
    call = quick_jit(lambda x, s: run(case, x, s))
    found = []
    for x in inputs:
        found.append(call(x, state))
        state = found[-1][1]
    for resolver in RESOLVERS:
        answers = file.invoke([[x] for x in inputs], resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@pytest.mark.parametrize("name", ["relu", "relu6", "relu_n1_to_1", "tanh", "no_bias"])
def test_options_matter(name: str) -> None:
    """Each option changes the written answer, so that the tests above would notice a kernel that ignores it."""
    case, plain = CASES[name], CASES["plain"]
    answers = [written(c, draw(c, 1) * 3, c.state())[0] for c in (case, plain)]
    assert np.max(np.abs(answers[0] - answers[1])) > 1000 * TOLERANCE


def test_types_of_symbolic_sizes() -> None:
    case = S()
    types = [TensorType((symbol("B"), 5), DType.f32), TensorType((symbol("B1"), 24), DType.f32)]
    graph = trace_graph(lambda x, s: run(case, x, s), types)
    assert [str(o.type) for o in graph.outputs] == ["f32[B,4]", "f32[B,24]"]


def test_operands_stand_as_in_the_file() -> None:
    assert [o.name for o in svdf.operands if o.optional] == ["bias"]
    assert {name: svdf.operand_index(name) for name in svdf.updates} == {"state": 4}


def test_refuses_what_does_not_fit() -> None:
    x, state, (w, t, b) = draw(S(), 1), S().state(), S().weights()
    assert b is not None
    with pytest.raises(TypeMismatch, match="svdf: 8 filters in groups of 3"):
        svdf(x, w, t, b, state, rank=3)
    with pytest.raises(TypeMismatch, match="8 filters in groups of 0"):
        svdf(x, w, t, b, state, rank=0)
    with pytest.raises(TypeMismatch, match=r"weights_feature: \[5, 8\] where \[8, 5\] belongs"):
        svdf(x, w.T, t, b, state, rank=2)
    with pytest.raises(TypeMismatch, match=r"state: \[3, 23\] where \[3, 24\] belongs"):
        svdf(x, w, t, b, state[:, 1:], rank=2)
    with pytest.raises(TypeMismatch, match=r"bias: \[4\] where \[8\] belongs"):
        svdf(x, w, t, b, state, rank=1)
    with pytest.raises(TypeMismatch, match="the input has rank 2, not 3"):
        svdf(x[None], w, t, b, state, rank=2)
    with pytest.raises(TypeMismatch, match="operands of float16, float32"):
        svdf(x, w, t, b.astype(np.float16), state, rank=2)
