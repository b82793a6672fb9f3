"""LSTM, one step at a time, against the written equations and against LiteRT's kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.fused.lstm import lstm as op
from tests.kernels.fused.lstm_oracle import LSTM as L
from tests.kernels.fused.lstm_oracle import written_step
from tests.kernels.one_op import ACTIVATIONS, RESOLVERS, OneOp, as_one_program, worst

CASES = {
    "plain": L(),
    "coupled": L(coupled=True),
    "peephole": L(peephole=True),
    "projection": L(width=4),
    "projection_bias": L(width=6, projection_bias=True),
    "norm": L(norm=True),
    "cell_clip": L(cell_clip=0.25),
    "proj_clip": L(width=4, proj_clip=0.1875),
    "relu": L(activation="RELU"),
    "relu6": L(activation="RELU6"),
    "relu_n1_to_1": L(activation="RELU_N1_TO_1"),
    "sign_bit": L(activation="SIGN_BIT"),
    "all": L(width=4, projection_bias=True, peephole=True, norm=True, cell_clip=0.375, proj_clip=0.25),
    "all_coupled": L(
        coupled=True, width=4, projection_bias=True, peephole=True, norm=True, cell_clip=0.375, proj_clip=0.25
    ),
    "one_unit": L(units=1, inputs=1, batch=1),
    "32_units": L(units=32, batch=2),
}
TOLERANCE = 2e-6  # sums of up to 32 + 5 terms in f32, carried over 3 steps
each_case = pytest.mark.parametrize("lstm", CASES.values(), ids=CASES.keys())


def draw(lstm: L, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    x, h, c = lstm.inputs_and_state(seed)
    return x[:, 0], h, c


def run(lstm: L, x: Any, h: Any, c: Any, **others: Any) -> Any:
    options = {name: lstm.options[name] for name in ("fused_activation_function", "cell_clip", "proj_clip")}
    return op(*lstm.in_file_order(x, h, c), **(options | others))


@each_case
@pytest.mark.parametrize(
    ("dtype", "tolerance"), [pytest.param(np.float32, TOLERANCE, marks=pytest.mark.slow), (np.float64, 1e-13)]
)
def test_matches_the_equations(lstm: L, dtype: Any, tolerance: float) -> None:
    wide = replace(lstm)
    wide.operands.update({name: array.astype(dtype) for name, array in lstm.operands.items()})
    x, h, c = (a.astype(dtype) for a in draw(lstm))
    new_h, new_c = written_step(wide, x, h, c, wide.operands)
    found = as_one_program(lambda *given: run(wide, *given), [x, h, c])
    assert {f.dtype for f in found} == {np.dtype(dtype)}
    assert worst(found, [new_h, new_h, new_c]) < tolerance


@each_case
def test_matches_litert_on_three_invokes(lstm: L) -> None:
    inputs = [draw(lstm, seed)[0] for seed in (1, 2, 3)]
    h, c = (np.zeros_like(s) for s in draw(lstm)[1:])
    options = {
        "fusedActivationFunction": ACTIVATIONS[lstm.activation],
        "cellClip": lstm.cell_clip,
        "projClip": lstm.proj_clip,
    }
    file = OneOp("LSTM", "LSTM", options, lstm.in_file_order(inputs[0], h, c), [0], [18, 19], [h.shape])
    call = quick_jit(lambda x, h, c: run(lstm, x, h, c))
    found = []
    for x in inputs:
        found.append(call(x, h, c))
        _, h, c = found[-1]
    for resolver in RESOLVERS:
        answers = file.invoke([[x] for x in inputs], resolver)
        assert max(worst(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


def test_types_of_symbolic_sizes() -> None:
    lstm = L(width=4)
    types = [TensorType((symbol(b), n), DType.f32) for b, n in (("B", 5), ("B1", 4), ("B2", 6))]
    graph = trace_graph(lambda x, h, c: run(lstm, x, h, c), types)
    assert [str(o.type) for o in graph.outputs] == ["f32[B,4]", "f32[B,4]", "f32[B,6]"]


def test_operands_stand_as_in_the_file() -> None:
    assert len(op.operands) == 24
    assert {name: op.operand_index(name) for name in op.updates} == {"output_state": 18, "cell_state": 19}


def test_refuses_what_the_kernel_does_not_compute() -> None:
    lstm, diagonal = L(), L(diagonal=True)
    x, h, c = draw(lstm)
    with pytest.raises(TypeMismatch, match="lstm: fused_activation_function NONE gives undefined values"):
        run(lstm, x, h, c, fused_activation_function="NONE")
    with pytest.raises(TypeMismatch, match="lstm: kernel_type BASIC"):
        run(lstm, x, h, c, kernel_type="BASIC")
    with pytest.raises(TypeMismatch, match="lstm: recurrent weights are matrices"):
        run(diagonal, *draw(diagonal))
    wide = L(width=7)
    with pytest.raises(TypeMismatch, match="lstm: a projection to 7 values, more than the 6 units"):
        run(wide, *draw(wide))
    with pytest.raises(TypeMismatch, match="lstm: the input has rank 2, not 3"):
        run(lstm, x[None], h, c)
    with pytest.raises(TypeMismatch, match=r"lstm: cell state: \[2, 6\] where \[3, 6\] belongs"):
        run(lstm, x, h, c[:2])
