"""RNN and UNIDIRECTIONAL_SEQUENCE_RNN against the written equations and against LiteRT's kernels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.fused.rnn import rnn, unidirectional_sequence_rnn
from tests.kernels.fused.rnn_oracle import RNN as R
from tests.kernels.fused.rnn_oracle import written, written_step
from tests.kernels.one_op import ACTIVATIONS, RESOLVERS, OneOp, as_one_program, worst

CASES = {
    "plain": R(),
    "time_major": R(time_major=True),
    "none": R(activation="NONE"),
    "relu": R(activation="RELU"),
    "relu6": R(activation="RELU6"),
    "relu_n1_to_1": R(activation="RELU_N1_TO_1"),
    "sign_bit": R(activation="SIGN_BIT"),
    "one_unit": R(units=1, inputs=1, batch=1, steps=1),
    "32_units": R(units=32, batch=2, activation="RELU", time_major=True),
}
# 2e-6: sums of up to 32 + 5 terms in f32, carried over 4 steps.
TOLERANCE = 2e-6
each_case = pytest.mark.parametrize("cell", CASES.values(), ids=CASES.keys())


def run(cell: R, x: Any, h: Any) -> Any:
    w, r, b = (v.astype(x.dtype) for v in (cell.w, cell.r, cell.b))
    return unidirectional_sequence_rnn(
        x, w, r, b, h, time_major=cell.time_major, fused_activation_function=cell.activation
    )


def run_step(cell: R, x: Any, h: Any) -> Any:
    w, r, b = (v.astype(x.dtype) for v in (cell.w, cell.r, cell.b))
    return rnn(x, w, r, b, h, fused_activation_function=cell.activation)


@each_case
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param(np.float32, TOLERANCE, marks=pytest.mark.slow), (np.float64, 1e-13)]
)
def test_matches_the_equations(cell: R, dtype: Any, tolerance: float) -> None:
    x, h = cell.draw().astype(dtype), cell.draw_state().astype(dtype)
    found, wanted = as_one_program(lambda *given: run(cell, *given), [x, h]), written(cell, x, h)
    first = x.take(0, 0 if cell.time_major else 1)
    step = as_one_program(lambda *given: run_step(cell, *given), [first, h])
    wanted_step = written_step(cell, first, h)
    assert {f.dtype for f in (*found, *step)} == {np.dtype(dtype)}
    assert worst(found, wanted) < tolerance
    assert worst(step, [wanted_step] * 2) < tolerance


@each_case
def test_a_sequence_matches_litert_on_three_invokes(cell: R) -> None:
    inputs, h = [cell.draw(seed) for seed in (1, 2, 3)], np.zeros_like(cell.draw_state())
    call = quick_jit(lambda x, h: run(cell, x, h))
    file = OneOp(
        "UNIDIRECTIONAL_SEQUENCE_RNN",
        "SequenceRNN",
        {"timeMajor": cell.time_major, "fusedActivationFunction": ACTIVATIONS[cell.activation]},
        [inputs[0], cell.w, cell.r, cell.b, h],
        [0],
        [4],
        [(*inputs[0].shape[:2], cell.units)],
    )
    found = []
    for x in inputs:
        found.append(call(x, h))
        h = found[-1][1]
    for resolver in RESOLVERS:
        answers = file.invoke([[x] for x in inputs], resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@each_case
def test_a_step_matches_litert_on_three_invokes(cell: R) -> None:
    h = np.zeros_like(cell.draw_state())
    inputs = [np.random.default_rng(seed).normal(size=(cell.batch, cell.inputs)).astype("f") for seed in (1, 2, 3)]
    options = {"fusedActivationFunction": ACTIVATIONS[cell.activation]}
    file = OneOp("RNN", "RNN", options, [inputs[0], cell.w, cell.r, cell.b, h], [0], [4], [h.shape])
    found = []
    for x in inputs:
        found.append(run_step(cell, x, h))
        h = found[-1][1]
    for resolver in RESOLVERS:
        answers = file.invoke([[x] for x in inputs], resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@pytest.mark.parametrize("name", ["none", "relu", "relu6", "relu_n1_to_1", "sign_bit", "time_major"])
def test_options_matter(name: str) -> None:
    """Each option changes the written answer, so that the tests above would notice a kernel that ignores it."""
    cell, plain = CASES[name], R(batch=4)
    x, h = plain.draw(), plain.draw_state()
    y = written(cell, x, h[: 4 if cell.time_major else None])[0]
    assert np.max(np.abs(y - written(plain, x, h)[0])) > 1000 * TOLERANCE


@pytest.mark.parametrize("time_major", [False, True])
def test_types_of_symbolic_sizes(time_major: bool) -> None:
    cell = R(time_major=time_major)
    b, t = symbol("B"), symbol("T")
    rows = (t, b) if time_major else (b, t)
    types = [TensorType((*rows, 5), DType.f32), TensorType((symbol("B1"), 6), DType.f32)]
    graph = trace_graph(lambda x, h: run(cell, x, h), types)
    assert [str(o.type) for o in graph.outputs] == [f"f32[{'T,B' if time_major else 'B,T'},6]", "f32[B,6]"]


def test_operands_stand_as_in_the_file() -> None:
    assert [o.name for o in rnn.operands] == [o.name for o in unidirectional_sequence_rnn.operands]
    assert {name: rnn.operand_index(name) for name in rnn.updates} == {"hidden_state": 4}
    assert not any(o.optional for o in rnn.operands)


def test_refuses_what_does_not_fit() -> None:
    cell = R()
    x, h = cell.draw(), cell.draw_state()
    weights = (cell.w, cell.r, cell.b)
    with pytest.raises(TypeMismatch, match="sequence_rnn: the input has rank 3, not 2"):
        unidirectional_sequence_rnn(x[0], *weights, h)
    with pytest.raises(TypeMismatch, match="rnn: the input has rank 2, not 3"):
        rnn(x, *weights, h)
    with pytest.raises(TypeMismatch, match=r"input weights: \[5, 6\] where \[6, 5\] belongs"):
        rnn(x[:, 0], cell.w.T, cell.r, cell.b, h)
    with pytest.raises(TypeMismatch, match=r"hidden state: \[3, 6\] where \[4, 6\] belongs"):
        unidirectional_sequence_rnn(x, *weights, h, time_major=True)
    with pytest.raises(TypeMismatch, match=r"hidden state: \[18\] where \[3, 6\] belongs"):
        rnn(x[:, 0], *weights, h.ravel())
    with pytest.raises(TypeMismatch, match="operands of float32, float64"):
        rnn(x[:, 0], cell.w.astype(np.float64), cell.r, cell.b, h)
    with pytest.raises(TypeMismatch, match="no fused activation 'GELU'"):
        rnn(x[:, 0], *weights, h, fused_activation_function="GELU")
