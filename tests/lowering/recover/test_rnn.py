"""Reading scans as simple RNNs, and by name what TFLite has no op for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import NotFused
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.recover.cells.rnn import recover_rnn
from jfuse.lowering.recover.cells.step import Step as ScanStep
from jfuse.lowering.recover.cells.unfused import recover_gru
from jfuse.lowering.rules import Proposal
from tests import cells
from tests.cells import BATCH, INPUTS, UNITS, Loop, Step, dense, f32, gate, weights

STATE = [f32(BATCH, UNITS)]


def step_of(step: Step, **loop: Any) -> ScanStep:
    return ScanStep(Loop(step, **{"carries": STATE, **loop}).eqn())


def read(step: Step, **loop: Any) -> Proposal:
    return recover_rnn(step_of(step, **loop))


ACTIVATIONS: dict[str, Any] = {
    "TANH": ops.tanh,
    "RELU": ops.relu,
    "RELU6": lambda z: ops.minimum(ops.maximum(z, np.float32(0)), np.float32(6)),
    "RELU_N1_TO_1": ops.relu_n1_to_1,
    "NONE": lambda z: z,
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name: str) -> None:
    found = read(cells.simple(ACTIVATIONS[name]))
    assert found.operands == {"x": 1, "h": 0}
    assert found.attributes == {"results": ("h", "y"), "reverse": False, "activation": name}
    np.testing.assert_array_equal(found.constants["weights"], gate(cells.W, 0).T)
    np.testing.assert_array_equal(found.constants["recurrent"], gate(cells.R, 0).T)
    np.testing.assert_array_equal(found.constants["bias"], gate(cells.B, 0))


@pytest.mark.parametrize(
    ("act", "scale"),
    [
        (lambda z: ops.neg(ops.tanh(z)), -1.0),
        (lambda z: ops.neg(z), -1.0),
        (lambda z: ops.relu(ops.neg(z)), -1.0),
        (lambda z: ops.sub(ops.mul(ops.logistic(ops.mul(z, 2.0)), 2.0), 1.0), 1.0),
    ],
    ids=["odd", "linear", "inside", "sigmoid"],
)
def test_signs_and_spellings_go_into_the_weights(act: Any, scale: float) -> None:
    np.testing.assert_array_equal(read(cells.simple(act)).constants["weights"], scale * gate(cells.W, 0).T)


def test_a_copy_of_the_state() -> None:
    def step(copy: Array, h: Array, x: Array) -> tuple[Array, ...]:
        new_h, _ = cells.simple()(h, x)
        return new_h, new_h, new_h

    found = read(step, carries=STATE * 2)
    assert found.operands == {"x": 2, "h": 1}
    assert found.attributes["results"] == ("h", "h", "y")


def negative_relu(h: Array, x: Array) -> tuple[Array, ...]:
    new_h = ops.neg(cells.simple(ops.relu)(h, x)[0])
    return new_h, new_h


def leaky(h: Array, x: Array) -> tuple[Array, ...]:
    new_h = ops.add(ops.mul(h, 0.5), ops.mul(cells.simple()(h, x)[0], 0.5))
    return new_h, new_h


def squared(h: Array, x: Array) -> tuple[Array, ...]:
    return cells.simple()(h, ops.square(x))


def other_output(h: Array, x: Array) -> tuple[Array, ...]:
    new_h, _ = cells.simple()(h, x)
    return new_h, ops.square(new_h)


def gated(h: Array, x: Array) -> tuple[Array, ...]:
    new_h = ops.select_v2(ops.greater(first(x), np.float32(0)), h, dense(x, gate(cells.W, 0)))
    return new_h, new_h


def first(x: Array) -> Array:
    return ops.strided_slice(x, [0, 0], [0, 1], [1, 1], begin_mask=3, end_mask=1)


DECOYS = {
    "negative_relu": (negative_relu, "not_rnn"),
    "leaky": (leaky, "not_rnn"),
    "sigmoid": (cells.simple(ops.logistic), "not_rnn"),
    "leaky_relu": (cells.simple(lambda z: ops.leaky_relu(z, alpha=0.1)), "not_rnn"),
    "clip_at_2": (cells.simple(lambda z: ops.minimum(ops.relu(z), np.float32(2))), "not_rnn"),
    "chosen": (gated, "not_rnn"),
    "squared": (squared, "nonlinear_gate"),
    "tanh_of_tanh": (cells.simple(lambda z: ops.tanh(ops.tanh(z))), "nonlinear_gate"),
    "other_output": (other_output, "output_is_h"),
}


@pytest.mark.parametrize("decoy", DECOYS)
def test_decoys_are_refused_by_name(decoy: str) -> None:
    step, condition = DECOYS[decoy]
    with pytest.raises(NotFused) as refusal:
        read(step)
    assert refusal.value.condition == condition


def test_a_second_state_is_refused() -> None:
    def step(h: Array, total: Array, x: Array) -> tuple[Array, ...]:
        new_h, _ = cells.simple()(h, x)
        return new_h, ops.add(total, new_h), new_h

    with pytest.raises(NotFused, match="extra_carry"):
        read(step, carries=STATE * 2)


def test_a_step_that_reads_a_copy_of_h_is_refused() -> None:
    """The copy becomes what h becomes, but may begin with something else."""
    into = weights(UNITS, INPUTS)

    def step(h: Array, copy: Array, x: Array) -> tuple[Array, ...]:
        new_h, _ = cells.simple()(h, ops.add(x, dense(copy, into)))
        return new_h, new_h, new_h

    with pytest.raises(NotFused, match="extra_carry"):
        read(step, carries=STATE * 2)


def recurrence(units: int, recurrent: np.ndarray) -> Step:
    kernel = weights(INPUTS, units)

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new_h = ops.add(dense(x, kernel), dense(h, recurrent))
        return new_h, new_h

    return step


def test_large_matrices_of_zeros_stay_a_loop() -> None:
    units = 256
    identity = np.eye(units, dtype=np.float32)
    with pytest.raises(NotFused, match=r"sparse_recurrence: .* got 1024 of 66304 weights that are not 0"):
        read(recurrence(units, identity), carries=[f32(BATCH, units)])
    full = weights(units, units)
    assert read(recurrence(units, full), carries=[f32(BATCH, units)]).constants["recurrent"].shape == (units, units)
    assert read(recurrence(8, identity[:8, :8]), carries=[f32(BATCH, 8)])


def elementwise(act: Any, into: np.ndarray | None = None) -> Step:
    """h' = act(decay * h + x), x multiplied with a matrix first where there is one."""
    decay = np.linspace(0.5, 0.9, UNITS, dtype=np.float32)

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new_h = act(ops.add(ops.mul(h, decay), x if into is None else dense(x, into)))
        return new_h, new_h

    return step


@pytest.mark.parametrize(
    ("act", "into", "fuses"),
    [("NONE", False, False), ("RELU", True, False), ("TANH", False, False), ("TANH", True, True)],
)
def test_a_recurrence_of_single_elements_fuses_where_no_infinity_meets_a_zero(
    act: str, into: bool, fuses: bool
) -> None:
    step = elementwise(ACTIVATIONS[act], weights(UNITS, UNITS) if into else None)
    loop = {"xs": [f32(BATCH, UNITS)]}
    if fuses:
        assert read(step, **loop).constants["recurrent"].shape == (UNITS, UNITS)
        return
    with pytest.raises(NotFused, match="elementwise_recurrence"):
        read(step, **loop)


def name_of(step: Step) -> str:
    with pytest.raises(NotFused) as refusal:
        recover_gru(step_of(step))
    assert refusal.value.condition == "no_builtin_op"
    return str(refusal.value.got)


@pytest.mark.parametrize("reset_after", [True, False])
def test_grus_are_named(reset_after: bool) -> None:
    assert name_of(cells.gru(reset_after=reset_after)) == f"GRU, reset_after={reset_after}, 4 units, tanh, sigmoid"


def test_units_without_a_reset_gate_are_named() -> None:
    def step(h: Array, x: Array) -> tuple[Array, ...]:
        z = ops.logistic(ops.add(dense(x, gate(cells.W, 0)), dense(h, gate(cells.R, 0))))
        new = ops.relu(ops.add(dense(x, gate(cells.W, 1)), dense(h, gate(cells.R, 1))))
        new_h = ops.add(h, ops.mul(z, ops.sub(new, h)))
        return new_h, new_h

    assert name_of(step) == "minimal gated unit, 4 units, relu, sigmoid"


def gates(x: Array, h: Array, count: int) -> list[Array]:
    """Some affine values of input and state."""
    return [ops.add(dense(x, gate(cells.W, i % 4)), dense(h, gate(cells.R, i % 4))) for i in range(count)]


def stabilized(h: Array, c: Array, n: Array, m: Array, x: Array) -> tuple[Array, ...]:
    """An sLSTM."""
    i, f, z, o = gates(x, h, 4)
    new_m = ops.maximum(ops.add(f, m), i)
    keep, admit = ops.exp(ops.sub(ops.add(f, m), new_m)), ops.exp(ops.sub(i, new_m))
    new_c, new_n = ops.add(ops.mul(keep, c), ops.mul(admit, ops.tanh(z))), ops.add(ops.mul(keep, n), admit)
    new_h = ops.mul(ops.logistic(o), ops.div(new_c, new_n))
    return new_h, new_c, new_n, new_m, new_h


def nested(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Of a NAS cell the way from h to h."""
    a, b, e, f = gates(x, h, 4)
    new_c = ops.mul(ops.tanh(ops.add(ops.tanh(ops.mul(ops.logistic(a), ops.relu(b))), c)), ops.tanh(e))
    new_h = ops.tanh(ops.mul(new_c, ops.logistic(f)))
    return new_h, new_c, new_h


@pytest.mark.parametrize(
    ("step", "states", "words"),
    [
        (elementwise(lambda z: z), 1, r"a linear recurrence h' = a\*h \+ b, a constant, states of f32\[B,4\]"),
        (lambda h, x: (ops.add(ops.mul(ops.tanh(x), h), x),) * 2, 1, "a linear recurrence .* a computed from data"),
        (lambda h, g, x: (ops.sub(h, g), ops.add(g, h), h), 2, "2 states that read each other"),
        (lambda h, x: (ops.maximum(ops.add(h, x), x),) * 2, 1, r"a running maximum h' = max\(h \+ a, b\)"),
        (stabilized, 4, "exponential gates, a normalizer and a running maximum in 4 states"),
        (nested, 2, "activations of activations"),
    ],
)
def test_recurrences_without_an_operator_are_told_in_words(step: Step, states: int, words: str) -> None:
    inputs = INPUTS if step in (stabilized, nested) else UNITS
    with pytest.raises(NotFused, match=words):
        recover_gru(step_of(step, carries=STATE * states, xs=[f32(BATCH, inputs)]))


def test_other_cells_have_no_name() -> None:
    with pytest.raises(NotFused, match="not_gru"):
        recover_gru(step_of(cells.simple()))
