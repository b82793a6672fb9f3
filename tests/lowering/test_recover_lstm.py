"""Reading scans as LSTMs: every spelling with bit-exact weights, and everything else refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.errors import NotFused
from jfuse.frontends.tf_opaque import TfOp
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.op import Array
from jfuse.lowering.recover.lstm import GATES, recover_lstm
from jfuse.lowering.recover.step import Step as ScanStep
from tests import cells
from tests.cells import BATCH, INPUTS, UNITS, Loop, Step, dense, f32, gate, keras, sums, update

SPELLINGS = {
    "keras": keras,
    "joined": cells.joined,
    "eight_products": cells.eight_products,
    "transposed": cells.transposed,
    "activated_before_split": cells.activated_before_split,
    "spelled_out": cells.spelled_out,
    "detour": cells.detour,
}


def assert_weights(step: Step, *, h: int = 0, c: int = 1, forget_constant: float = 0.0, **loop: Any) -> None:
    found = recover_lstm(ScanStep(Loop(step, **loop).eqn()))
    assert found.operands == {"x": 2, "h": h, "c": c}
    for index, name in enumerate(GATES):
        constant = forget_constant if name == "forget" else 0.0
        np.testing.assert_array_equal(found.constants[f"{name}_weights"], gate(cells.W, index).T)
        np.testing.assert_array_equal(found.constants[f"{name}_recurrent"], gate(cells.R, index).T)
        np.testing.assert_array_equal(
            found.constants[f"{name}_bias"], gate(cells.B, index).astype(np.float64) + constant
        )


@pytest.mark.parametrize("batch", [BATCH, 1, 3], ids=["open", "1", "3"])
@pytest.mark.parametrize("spelling", SPELLINGS)
def test_spellings(spelling: str, batch: Any) -> None:
    assert_weights(SPELLINGS[spelling], batch=batch)


def test_permuted_gates_with_a_forget_constant() -> None:
    assert_weights(cells.permuted, forget_constant=1.0)


def test_carries_in_another_order() -> None:
    assert_weights(cells.other_order, h=1, c=0)


def test_batch_one_as_keras_3_writes_it() -> None:
    assert_weights(cells.squeezed, batch=1)


def test_a_negated_gate_has_negated_weights() -> None:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_h, new_c = update((i, ops.neg(f), g, o), c)
        return new_h, new_c, new_h

    found = recover_lstm(ScanStep(Loop(step).eqn()))
    np.testing.assert_array_equal(found.constants["forget_weights"], -gate(cells.W, 1).T)
    np.testing.assert_array_equal(found.constants["input_weights"], gate(cells.W, 0).T)


def test_results_without_a_sequence_and_with_a_copy_of_h() -> None:
    def step(h: Array, c: Array, copy: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return new_h, new_c, new_h

    found = recover_lstm(ScanStep(Loop(step, carries=[f32(BATCH, UNITS)] * 3).eqn()))
    assert found.attributes["results"] == ("h", "c", "h")


def test_weights_that_are_constant_operands_of_the_loop() -> None:
    def step(kernel: Array, h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(ops.add(ops.batch_matmul(x, kernel), dense(h, cells.R)), cells.B)
        new_h, new_c = update(ops.split(1, z, num_splits=4), c)
        return new_h, new_c, new_h

    loop = Loop(step, consts=[f32(INPUTS, 4 * UNITS)])
    with pytest.raises(NotFused, match="varying_constant"):
        recover_lstm(ScanStep(loop.eqn()))
    found = recover_lstm(ScanStep(loop.eqn_with(cells.W)))
    np.testing.assert_array_equal(found.constants["cell_weights"], gate(cells.W, 2).T)


def c_as_output(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return new_h, new_c, new_c


def swapped(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    return new_c, new_h, new_h


def without_output_tanh(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    *_, o = sums(x, h)
    _, new_c, _ = keras(h, c, x)
    new_h = ops.mul(ops.logistic(o), new_c)
    return new_h, new_c, new_h


def without_input_tanh(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), g))
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


def negative_update(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_c = ops.sub(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


def clipped(limit: float) -> Step:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        i, f, g, o = sums(x, h)
        new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
        new_c = ops.minimum(ops.maximum(new_c, np.float32(-limit)), np.float32(limit))
        new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
        return new_h, new_c, new_h

    return step


def coupled(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    _, f, g, o = sums(x, h)
    keep = ops.logistic(f)
    new_c = ops.add(ops.mul(keep, c), ops.mul(ops.sub(np.float32(1), keep), ops.tanh(g)))
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


def coupled_as_a_step_towards(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, _, g, o = sums(x, h)
    new_c = ops.add(c, ops.mul(ops.logistic(i), ops.sub(ops.tanh(g), c)))
    new_h = ops.mul(ops.logistic(o), ops.tanh(new_c))
    return new_h, new_c, new_h


def peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, ops.add(f, ops.mul(c, cells.B[:UNITS])), g, o), c)
    return new_h, new_c, new_h


def output_peephole(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    _, new_c = update((i, f, g, o), c)
    new_h = ops.mul(ops.logistic(ops.add(o, ops.mul(new_c, cells.B[:UNITS]))), ops.tanh(new_c))
    return new_h, new_c, new_h


def normed(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    g = ops.div(g, ops.sqrt(ops.mean(ops.square(g), [1], keep_dims=True)))
    new_h, new_c = update((i, f, g, o), c)
    return new_h, new_c, new_h


def on_input(change: Any) -> Step:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        return keras(h, c, change(x))

    return step


def row_kept(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(h, c, x)
    live = ops.not_equal(ops.sum_(ops.square(x), [1], keep_dims=True), np.float32(0))
    kept = ops.select_v2(live, new_h, h)
    return kept, ops.select_v2(live, new_c, c), kept


def relu_cell(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    i, f, g, o = sums(x, h)
    new_h, new_c = update((i, f, ops.relu(g), o), c)
    return new_h, new_c, new_h


DECOYS: dict[str, tuple[Step, str]] = {
    "c_as_output": (c_as_output, "output_is_h"),
    "swapped": (swapped, "not_lstm"),
    "without_output_tanh": (without_output_tanh, "not_lstm"),
    "without_input_tanh": (without_input_tanh, "not_lstm"),
    "negative_update": (negative_update, "not_lstm"),
    "clipped_narrow": (clipped(0.5), "unexplained_switch"),
    "clipped_wide": (clipped(50.0), "unexplained_switch"),
    "coupled": (coupled, "coupled_gates"),
    "coupled_as_a_step_towards": (coupled_as_a_step_towards, "coupled_gates"),
    "peephole": (peephole, "peephole"),
    "output_peephole": (output_peephole, "peephole"),
    "normed": (normed, "nonlinear_gate"),
    "squared_input": (on_input(ops.square), "nonlinear_gate"),
    "row_kept": (row_kept, "unexplained_switch"),
    "special_case": (
        on_input(lambda x: ops.select_v2(ops.equal(x, np.float32(7)), np.zeros_like(cells.W[:1, :1]), x)),
        "unexplained_switch",
    ),
    "nan_to_num": (
        on_input(lambda x: ops.select_v2(ops.not_equal(x, x), np.zeros_like(cells.W[:1, :1]), x)),
        "unexplained_switch",
    ),
    "relu_cell": (relu_cell, "unexplained_switch"),
}


@pytest.mark.parametrize("decoy", DECOYS)
def test_decoys_are_refused_by_name(decoy: str) -> None:
    step, condition = DECOYS[decoy]
    for batch in (BATCH, 2):
        with pytest.raises(NotFused) as refusal:
            recover_lstm(ScanStep(Loop(step, batch=batch).eqn()))
        assert refusal.value.condition == condition


def test_the_refusal_says_where_the_nearest_reading_differs() -> None:
    with pytest.raises(NotFused, match=r"h' = sigmoid\(o\)\*tanh\(c'\), got h' = sigmoid\(a\)\*b"):
        recover_lstm(ScanStep(Loop(without_output_tanh).eqn()))


def test_a_counter_in_a_gate_is_refused() -> None:
    def step(h: Array, c: Array, counter: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, ops.add(x, counter))
        return new_h, new_c, ops.add(counter, np.float32(1)), new_h

    state = f32(BATCH, UNITS)
    with pytest.raises(NotFused, match="extra_carry"):
        recover_lstm(ScanStep(Loop(step, carries=[state, state, f32()]).eqn()))


def test_a_carry_beside_the_states_is_refused() -> None:
    def step(h: Array, c: Array, total: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, x)
        return new_h, new_c, ops.add(total, new_h), new_h

    with pytest.raises(NotFused, match="extra_carry"):
        recover_lstm(ScanStep(Loop(step, carries=[f32(BATCH, UNITS)] * 3).eqn()))


def test_one_state_is_no_lstm() -> None:
    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new_h = ops.tanh(ops.add(dense(x, gate(cells.W, 0)), dense(h, gate(cells.R, 0))))
        return new_h, new_h

    with pytest.raises(NotFused, match="not_lstm: want two states"):
        recover_lstm(ScanStep(Loop(step, carries=[f32(BATCH, UNITS)]).eqn()))


STEP_INPUTS: dict[str, tuple[list[TensorType], Any]] = {
    "step_input_dtype": ([TensorType((BATCH, INPUTS), DType.i32)], lambda x: ops.cast(x, out_data_type=DType.f32)),
    "step_input_rank": ([f32(BATCH, 1, INPUTS)], lambda x: ops.reshape(x, [-1, INPUTS])),
    "one_step_input": ([f32(BATCH, INPUTS)] * 2, ops.add),
}


@pytest.mark.parametrize("condition", STEP_INPUTS)
def test_step_inputs_that_the_op_does_not_take(condition: str) -> None:
    types, combined = STEP_INPUTS[condition]

    def step(h: Array, c: Array, *xs: Array) -> tuple[Array, ...]:
        return keras(h, c, combined(*xs))

    with pytest.raises(NotFused) as refusal:
        recover_lstm(ScanStep(Loop(step, xs=types).eqn()))
    assert refusal.value.condition == condition


def test_gates_of_other_rows_are_refused() -> None:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c = update([ops.reverse_v2(part, [0]) for part in sums(x, h)], c)
        return new_h, new_c, new_h

    for batch in (BATCH, 2):
        with pytest.raises(NotFused, match="gate_layout: want the gates of a row in that row"):
            recover_lstm(ScanStep(Loop(step, batch=batch).eqn()))


@pytest.mark.parametrize("dtype", [DType.f16, DType.f64])
def test_states_of_another_width_are_refused(dtype: DType) -> None:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(
            ops.cast(dense(x, cells.W, cells.B), out_data_type=dtype), ops.batch_matmul(h, cells.R.astype(dtype.numpy))
        )
        new_h, new_c = update(ops.split(1, z, num_splits=4), c)
        return new_h, new_c, new_h

    state = TensorType((BATCH, UNITS), dtype)
    with pytest.raises(NotFused, match=f"state_dtype: want f32, got {dtype.value}"):
        recover_lstm(ScanStep(Loop(step, carries=[state, state]).eqn()))


def test_a_step_with_an_op_that_nobody_can_run_is_refused() -> None:
    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        return keras(h, c, TfOp("Lgamma", (x.type,)).run([x], {}, ())[0])

    with pytest.raises(NotFused, match=r"body_not_executable: got .*tf\.Lgamma"):
        recover_lstm(ScanStep(Loop(step).eqn()))
