"""UNIDIRECTIONAL_SEQUENCE_LSTM against the written equations and against LiteRT's kernel."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from jfuse.base.errors import TypeMismatch
from jfuse.ir.compilation import quick_jit
from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels.fused.lstm import unidirectional_sequence_lstm as op
from tests.kernels.fused.lstm_oracle import LSTM as L
from tests.kernels.fused.lstm_oracle import RESOLVERS, file_of, invoke, written

# One row for each option, then combinations. Clips are narrow enough to bite (test_options_matter).
CASES = {
    "plain": L(),
    "coupled": L(coupled=True),
    "peephole": L(peephole=True),
    "projection": L(width=4),
    "projection_bias": L(width=4, projection_bias=True),
    "projection_square": L(width=6),
    "norm": L(norm=True),
    "cell_clip": L(cell_clip=0.25),
    "proj_clip": L(width=4, proj_clip=0.1875),
    "time_major": L(time_major=True),
    "diagonal": L(diagonal=True),
    "relu": L(activation="RELU"),
    "relu6": L(activation="RELU6"),
    "relu_n1_to_1": L(activation="RELU_N1_TO_1"),
    "sign_bit": L(activation="SIGN_BIT"),
    "coupled_peephole": L(coupled=True, peephole=True),
    "coupled_norm": L(coupled=True, norm=True),
    "coupled_diagonal": L(coupled=True, diagonal=True),
    "diagonal_peephole_time_major": L(diagonal=True, peephole=True, time_major=True),
    "peephole_clip": L(peephole=True, cell_clip=0.25),
    "all": L(width=4, projection_bias=True, peephole=True, norm=True, cell_clip=0.375, proj_clip=0.25, time_major=True),
    "all_coupled": L(
        coupled=True, width=4, projection_bias=True, peephole=True, norm=True, cell_clip=0.375, proj_clip=0.25
    ),
    "one_unit": L(units=1, inputs=1, batch=1, steps=1),
    "32_units": L(units=32, batch=1),
    "32_units_projection": L(units=32, width=3, batch=3, peephole=True),
}
# 2e-6: sums of up to 32 + 5 terms in f32, carried over 4 steps.
TOLERANCE = 2e-6
each_case = pytest.mark.parametrize("lstm", CASES.values(), ids=CASES.keys())


def error(found: Any, wanted: np.ndarray) -> float:
    """max|a - b| / max|b|, as everywhere; over 1 where all of b is small."""
    assert np.shape(found) == wanted.shape
    return float(np.max(np.abs(found - wanted)) / max(np.max(np.abs(wanted)), 1.0))


def run(lstm: L, x: Any, h: Any, c: Any) -> Any:
    return op(*lstm.in_file_order(x, h, c), **lstm.options)


@pytest.mark.slow  # LiteRT, and the equations in f64, say the same
@each_case
def test_matches_the_equations_in_f32(lstm: L) -> None:
    x, h, c = lstm.inputs_and_state()
    found, wanted = run(lstm, x, h, c), written(lstm, x, h, c)
    assert [f.dtype for f in found] == [np.float32] * 3
    assert max(error(f, w) for f, w in zip(found, wanted, strict=True)) < TOLERANCE


@each_case
def test_matches_the_equations_in_f64(lstm: L) -> None:
    wide = replace(lstm)
    wide.operands.update({name: array.astype(np.float64) for name, array in lstm.operands.items()})
    x, h, c = (a.astype(np.float64) for a in lstm.inputs_and_state())
    with jax.enable_x64(True):
        found = [np.asarray(f) for f in quick_jit(lambda *args: run(wide, *args))(x, h, c)]
    wanted = written(lstm, x, h, c)
    assert [f.dtype for f in found] == [np.float64] * 3
    # 1e-13: the same sums in f64.
    assert max(error(f, w) for f, w in zip(found, wanted, strict=True)) < 1e-13


@each_case
def test_matches_litert_on_three_invokes(lstm: L) -> None:
    inputs = [lstm.inputs_and_state(seed)[0] for seed in (1, 2, 3)]
    h, c = (np.zeros_like(s) for s in lstm.inputs_and_state()[1:])
    call, found = quick_jit(lambda *args: run(lstm, *args)), []
    for x in inputs:
        y, h, c = call(x, h, c)
        found.append(np.asarray(y))
    for resolver in RESOLVERS:
        answers = invoke(file_of(lstm), inputs, resolver)
        assert max(error(f, a) for f, a in zip(found, answers, strict=True)) < TOLERANCE


@pytest.mark.parametrize(
    "name",
    [n for n in CASES if n not in {"plain", "one_unit", "32_units", "32_units_projection", "all", "all_coupled"}],
)
def test_options_matter(name: str) -> None:
    """Each option changes the written answer, so that the tests above would notice a kernel that ignores it."""
    lstm = CASES[name]
    x, h, c = lstm.inputs_and_state()
    y = written(lstm, x, h, c)[0]
    plain = replace(lstm, cell_clip=0.0, proj_clip=0.0, activation="TANH") if _only_options(lstm) else L()
    other = written(plain, *plain.inputs_and_state())[0]
    assert y.shape != other.shape or np.max(np.abs(y - other)) > 1000 * TOLERANCE


def _only_options(lstm: L) -> bool:
    return bool(lstm.cell_clip or lstm.proj_clip or lstm.activation != "TANH")


def test_runs_under_jit_and_vmap() -> None:
    lstm = CASES["all"]
    x, h, c = lstm.inputs_and_state()
    wanted = written(lstm, x, h, c)
    found = jax.jit(lambda *args: run(lstm, *args))(x, h, c)
    assert max(error(f, w) for f, w in zip(found, wanted, strict=True)) < TOLERANCE
    many = jax.vmap(lambda *args: run(lstm, *args))(np.stack([x, -x]), np.stack([h, h]), np.stack([c, c]))
    assert error(many[0][1], written(lstm, -x, h, c)[0]) < TOLERANCE


def test_states_may_be_vectors() -> None:
    lstm = L(width=4)
    x, h, c = lstm.inputs_and_state()
    y, h_n, c_n = run(lstm, x, h.ravel(), c.ravel())
    wanted = written(lstm, x, h, c)
    assert (h_n.shape, c_n.shape) == ((12,), (18,))
    assert error(y, wanted[0]) < TOLERANCE
    assert error(c_n, wanted[2].ravel()) < TOLERANCE


def test_the_layer_norm_operands_may_be_left_out() -> None:
    lstm = L()
    x, h, c = lstm.inputs_and_state()
    found = op(*lstm.in_file_order(x, h, c)[:20])
    assert error(found[0], written(lstm, x, h, c)[0]) < TOLERANCE


@pytest.mark.parametrize("time_major", [False, True])
@pytest.mark.parametrize(("batch", "steps"), [("B", "4"), ("3", "T"), ("B", "T")])
def test_types_of_symbolic_sizes(batch: str, steps: str, time_major: bool) -> None:
    lstm = L(width=4, peephole=True, time_major=time_major)
    b, t = symbol(batch), symbol(steps)
    rows = (t, b) if time_major else (b, t)
    types = [TensorType((*rows, 5), DType.f32), TensorType((b, 4), DType.f32), TensorType((b, 6), DType.f32)]
    graph = trace_graph(lambda x, h, c: run(lstm, x, h, c), types)
    assert [o.type for o in graph.outputs] == [TensorType((*rows, 4), DType.f32), *types[1:]]


def test_operands_stand_as_in_the_file() -> None:
    assert len(op.operands) == 24
    assert {name: op.operand_index(name) for name in op.updates} == {"output_state": 18, "cell_state": 19}
    optional = [n for n, o in enumerate(op.operands) if o.optional]
    assert optional == [1, 5, 9, 10, 11, 12, 16, 17, 20, 21, 22, 23]


def without(*names: str) -> Callable[[L], None]:
    def change(lstm: L) -> None:
        for name in names:
            del lstm.operands[name]

    return change


def transposed(name: str) -> Callable[[L], None]:
    return lambda lstm: lstm.operands.update({name: lstm.operands[name].T})


REFUSALS: dict[str, tuple[L, Callable[[L], None] | None, dict[str, Any], str]] = {
    "half_coupled": (L(), without("W_input"), {}, "coupled gates"),
    "coupled_with_bias": (L(), without("W_input", "R_input"), {}, "bias exactly where it has weights"),
    "no_input_bias": (L(), without("b_input"), {}, "bias exactly where it has weights"),
    "half_peephole": (L(peephole=True), without("p_output"), {}, "peephole weights of the forget and output gates"),
    "no_input_peephole": (L(peephole=True), without("p_input"), {}, "input gate has peephole weights exactly"),
    "half_norm": (L(norm=True), without("l_cell"), {}, "for all gates or for none"),
    "no_input_norm": (L(norm=True), without("l_input"), {}, "input gate has layer norm coefficients exactly"),
    "lone_projection_bias": (L(projection_bias=True), None, {}, "projection bias without projection weights"),
    # Measured: in an IF branch LiteRT 2.3.0 answers wrongly or ends with a corrupt heap.
    "projection_wide": (L(width=9), None, {}, "a projection to 9 values, more than the 6 units"),
    "negative_cell_clip": (L(), None, {"cell_clip": -1.0}, "0 or positive"),
    "negative_proj_clip": (L(), None, {"proj_clip": -1.0}, "0 or positive"),
    "activation_none": (L(), None, {"fused_activation_function": "NONE"}, "undefined values"),
    "activation_unknown": (L(), None, {"fused_activation_function": "GELU"}, "no fused activation 'GELU'"),
    "diagonal_unsaid": (
        L(diagonal=True),
        None,
        {"diagonal_recurrent_tensors": False},
        "need diagonal_recurrent_tensors=True",
    ),
    "diagonal_projection": (L(diagonal=True, width=4), None, {}, "outputs as wide as the cell"),
    "weights_transposed": (
        L(),
        transposed("W_cell"),
        {},
        r"input weights of the cell gate: \[5, 6\] where \[6, 5\] belongs",
    ),
    "wrong_layout": (L(), None, {"time_major": True}, r"output state: \[3, 6\] where \[4, 6\] belongs"),
}


@pytest.mark.parametrize(("lstm", "change", "options", "message"), REFUSALS.values(), ids=REFUSALS.keys())
def test_refuses(lstm: L, change: Callable[[L], None] | None, options: dict[str, Any], message: str) -> None:
    lstm = replace(lstm)
    if change is not None:
        change(lstm)
    with pytest.raises(TypeMismatch, match=message):
        op(*lstm.in_file_order(*lstm.inputs_and_state()), **(lstm.options | options))


def test_refuses_other_dtypes() -> None:
    lstm = L()
    x, h, c = lstm.inputs_and_state()
    with pytest.raises(TypeMismatch, match="operands of float16, float32"):
        run(lstm, x.astype(np.float16), h, c)


def test_refuses_an_input_of_rank_2() -> None:
    lstm = L()
    x, h, c = lstm.inputs_and_state()
    with pytest.raises(TypeMismatch, match="rank 3, not 2"):
        run(lstm, x[0], h, c)


def test_a_state_of_another_open_batch_takes_the_batch_of_the_input() -> None:
    """Two inputs of a model have batches of their own until an op needs them equal."""
    generator = np.random.default_rng(0)
    draw = [generator.standard_normal(s).astype(np.float32) for s in [(4, 3)] * 4 + [(4, 4)] * 4 + [(4,)] * 4]
    batch, other = symbol("B"), symbol("B1")
    types = [TensorType((batch, 7, 3), DType.f32), TensorType((other, 4), DType.f32)]

    def run(x: Any, h: Any) -> Any:
        return op(x, *draw[:8], *[None] * 3, *draw[8:], None, None, h, h)[0]

    graph = trace_graph(run, types)
    assert [str(v.type) for v in graph.inputs] == ["f32[B,7,3]", "f32[B,4]"]
    assert str(graph.outputs[0].type) == "f32[B,7,4]"
