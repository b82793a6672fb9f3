"""Reading scans as LSTMs: every spelling with bit-exact weights, and everything else refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.cells.lstm import GATES, recover_lstm
from jfuse.lowering.recover.cells.step import Step as ScanStep
from jfuse.lowering.rules import Proposal
from jfuse.opaque_ops.tf_op import TfOp
from tests import cells
from tests.cells import BATCH, INPUTS, UNITS, Loop, Step, dense, f32, gate, keras, sums, update, weights

SPELLINGS = {
    "keras": keras,
    "joined": cells.joined,
    "eight_products": cells.eight_products,
    "transposed": cells.transposed,
    "activated_before_split": cells.activated_before_split,
    "spelled_out": cells.spelled_out,
    "detour": cells.detour,
    "exponentials": cells.exponentials,
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


def read(step: Step, **loop: Any) -> Proposal:
    return recover_lstm(ScanStep(Loop(step, **loop).eqn()))


def attributes(found: Proposal) -> dict[str, Any]:
    return {name: value for name, value in found.attributes.items() if name not in ("results", "reverse")}


def test_an_update_with_a_minus_has_a_negated_cell_gate() -> None:
    found = read(cells.negative_update)
    np.testing.assert_array_equal(found.constants["cell_weights"], -gate(cells.W, 2).T)
    np.testing.assert_array_equal(found.constants["input_weights"], gate(cells.W, 0).T)


@pytest.mark.parametrize("batch", [BATCH, 1, 3], ids=["open", "1", "3"])
def test_peepholes(batch: Any) -> None:
    found = read(cells.peepholes, batch=batch)
    for name in ("input", "forget", "output"):
        np.testing.assert_array_equal(found.constants[f"{name}_peephole"], cells.PEEPHOLES[name])
    np.testing.assert_array_equal(found.constants["output_weights"], gate(cells.W, 3).T)


def test_gates_without_a_peephole_get_zeros_where_others_have_one() -> None:
    found = read(cells.one_peephole)
    np.testing.assert_array_equal(found.constants["forget_peephole"], cells.PEEPHOLES["forget"])
    for name in ("input", "output"):
        np.testing.assert_array_equal(found.constants[f"{name}_peephole"], np.zeros(UNITS))
    assert "cell_peephole" not in found.constants


@pytest.mark.parametrize("bias", [None, cells.PROJECTION_BIAS], ids=["plain", "bias"])
@pytest.mark.parametrize("clip", [0.0, 0.75])
def test_projections(clip: float, bias: Any) -> None:
    found = read(cells.projected(clip, bias), carries=[f32(BATCH, 3), f32(BATCH, UNITS)])
    np.testing.assert_array_equal(found.constants["projection_weights"], cells.PROJECTION.T)
    assert ("projection_bias" in found.constants) == (bias is not None)
    np.testing.assert_array_equal(found.constants["forget_recurrent"], gate(cells.R[:3], 1).T)
    assert attributes(found) == ({"proj_clip": clip} if clip else {})


def test_a_projection_to_more_values_than_units_adds_units_without_weights() -> None:
    kernel = cells.weights(2, 3)

    def step(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
        z = ops.add(dense(x, cells.W[:, :8]), dense(h, cells.R[:3, :8]))
        new_h, new_c = update(ops.split(1, z, num_splits=4), c)
        new_h = dense(new_h, kernel)
        return new_h, new_c, new_h

    found = read(step, carries=[f32(BATCH, 3), f32(BATCH, 2)])
    assert found.constants["input_weights"].shape == (3, INPUTS)
    assert not found.constants["input_weights"][2].any()
    np.testing.assert_array_equal(found.constants["projection_weights"][:, :2], kernel.T)
    assert not found.constants["projection_weights"][:, 2].any()


@pytest.mark.parametrize("limit", [0.5, 50.0])
def test_clips_of_the_cell(limit: float) -> None:
    assert attributes(read(cells.clipped(limit))) == {"cell_clip": limit}


COUPLED = {
    "coupled": (cells.coupled, 1, 1.0),
    "coupled_difference": (cells.coupled_difference, 1, 1.0),
    "coupled_input": (cells.coupled_input, 0, -1.0),
    "coupled_as_a_step_towards": (cells.coupled_as_a_step_towards, 0, -1.0),
}


@pytest.mark.parametrize("spelling", COUPLED)
def test_coupled_gates(spelling: str) -> None:
    step, index, sign = COUPLED[spelling]
    found = read(step)
    np.testing.assert_array_equal(found.constants["forget_weights"], sign * gate(cells.W, index).T)
    np.testing.assert_array_equal(found.constants["forget_bias"], sign * gate(cells.B, index))
    assert not [name for name in found.constants if name.startswith("input_")]


ACTIVATIONS = {
    "RELU": ops.relu,
    "RELU6": ops.relu6,
    "RELU_N1_TO_1": ops.relu_n1_to_1,
}
OTHER_SPELLINGS = {
    "maximum": (lambda z: ops.maximum(z, np.float32(0)), "RELU"),
    "chosen": (cells.chosen_relu, "RELU"),
    "bounded": (lambda z: ops.minimum(ops.relu(z), np.float32(6)), "RELU6"),
    "both": (lambda z: ops.maximum(ops.minimum(z, np.float32(1)), np.float32(-1)), "RELU_N1_TO_1"),
    "fused": (lambda z: ops.add(z, np.float32(0), fused_activation_function="RELU6"), "RELU6"),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    assert attributes(read(cells.activated(ACTIVATIONS[name]))) == {"activation": name}


@pytest.mark.parametrize("spelling", OTHER_SPELLINGS)
def test_spellings_of_activations(spelling: str) -> None:
    act, name = OTHER_SPELLINGS[spelling]
    assert attributes(read(cells.activated(act))) == {"activation": name}


def test_a_diagonal_recurrence_has_vectors() -> None:
    found = read(cells.diagonal)
    for name in GATES:
        np.testing.assert_array_equal(found.constants[f"{name}_recurrent"], cells.PEEPHOLES["input"])


NORMS: dict[str, Step] = {
    "written": cells.normed(),
    "folded": cells.normed(cells.folded_norm),
    "together": cells.normed_together,
}


@pytest.mark.parametrize("batch", [BATCH, 1, 3], ids=["open", "1", "3"])
@pytest.mark.parametrize("spelling", NORMS)
def test_layer_norms(spelling: str, batch: Any) -> None:
    found = read(NORMS[spelling], batch=batch)
    for index, name in enumerate(GATES):
        np.testing.assert_array_equal(found.constants[f"{name}_norm"], cells.SCALES[index])
        np.testing.assert_array_equal(found.constants[f"{name}_bias"], cells.SHIFTS[index])
        np.testing.assert_array_equal(found.constants[f"{name}_weights"], gate(cells.W, index).T)


def test_a_bias_within_a_layer_norm_is_the_weight_of_an_input_of_one() -> None:
    found = read(cells.normed(bias=True))
    for index, name in enumerate(GATES):
        np.testing.assert_array_equal(found.constants[f"{name}_weights"][:, :-1], gate(cells.W, index).T)
        np.testing.assert_array_equal(found.constants[f"{name}_weights"][:, -1], gate(cells.B, index))


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


def clipped_in_the_output(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """c' is clipped for h' alone."""
    *_, o = sums(x, h)
    _, new_c, _ = keras(h, c, x)
    near = ops.minimum(ops.maximum(new_c, np.float32(-1)), np.float32(1))
    new_h = ops.mul(ops.logistic(o), ops.tanh(near))
    return new_h, new_c, new_h


def clipped_below(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """c' has a lower bound alone."""
    i, f, g, o = sums(x, h)
    new_c = ops.add(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.tanh(g)))
    return cells.ended(ops.maximum(new_c, np.float32(-1)), o)


def clipped_h(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """h' has an upper bound alone."""
    new_h, new_c, _ = keras(h, c, x)
    new_h = ops.minimum(new_h, np.float32(0.5))
    return new_h, new_c, new_h


def negative_relu(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """f*c - i*relu(g): relu is not odd."""
    i, f, g, o = sums(x, h)
    new_c = ops.sub(ops.mul(ops.logistic(f), c), ops.mul(ops.logistic(i), ops.relu(g)))
    new_h = ops.mul(ops.logistic(o), ops.relu(new_c))
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
    "clipped_once": (clipped_in_the_output, "not_lstm"),
    "clipped_below": (clipped_below, "not_lstm"),
    "clipped_h": (clipped_h, "not_lstm"),
    "late_peephole": (cells.late_peephole, "peephole"),
    "full_peephole": (cells.full_peephole, "peephole"),
    "cell_peephole": (cells.cell_peephole, "peephole"),
    "relu_and_tanh": (cells.activated(ops.relu, ops.tanh), "not_lstm"),
    "relu6_and_relu": (cells.activated(ops.relu6, ops.relu), "not_lstm"),
    "negative_relu": (negative_relu, "not_lstm"),
    "leaky_relu": (cells.activated(lambda z: ops.leaky_relu(z, alpha=0.1)), "unexplained_switch"),
    "clip_at_2": (cells.activated(lambda z: ops.minimum(ops.relu(z), np.float32(2))), "not_lstm"),
    "no_activation": (cells.activated(lambda z: z), "not_lstm"),
    "epsilon": (cells.normed(epsilon=1e-3), "layer_norm_epsilon"),
    "small_epsilon": (cells.normed(epsilon=1e-7), "layer_norm_epsilon"),
    "no_epsilon": (cells.normed(epsilon=1e-12), "layer_norm_epsilon"),
    "some_norms": (cells.normed(gates=(0, 2, 3)), "mixed_layer_norm"),
    "root_mean_square": (cells.normed(cells.root_mean_square_norm), "nonlinear_gate"),
    "norm_over_all": (cells.normed_over_all, "nonlinear_gate"),
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


def test_a_gate_that_reads_a_copy_of_h_is_refused() -> None:
    """The copy becomes what h becomes, but may begin with something else."""
    into = weights(UNITS, INPUTS)

    def step(h: Array, c: Array, copy: Array, x: Array) -> tuple[Array, ...]:
        new_h, new_c, _ = keras(h, c, ops.add(x, dense(copy, into)))
        return new_h, new_c, new_h, new_h

    with pytest.raises(NotFused, match="extra_carry"):
        recover_lstm(ScanStep(Loop(step, carries=[f32(BATCH, UNITS)] * 3).eqn()))


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
