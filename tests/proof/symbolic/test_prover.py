"""The prover: what it proves, where it stops, and that it proves nothing that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.symbolic.prover import Verdict, prove_symbolically
from tests import cells
from tests.cells import BATCH, UNITS, f32
from tests.proof.symbolic.pairs import PAIRS, lstm, rnn

ROW = [f32(BATCH, 4)]
Function = Callable[..., Any]


def verdict(body: Function, replacement: Function, types: Sequence[TensorType] = ROW, **options: Any) -> Verdict:
    return prove_symbolically(trace_graph(body, list(types)), trace_graph(replacement, list(types)), **options)


@pytest.mark.parametrize("name", PAIRS)
def test_a_body_is_its_operator_for_all_inputs_and_lengths(name: str) -> None:
    pair = PAIRS[name]()
    assert prove_symbolically(pair.body, pair.replacement).stopped == ""


def test_what_holds_for_a_step_or_more_only_says_so() -> None:
    pair = PAIRS["lstm"]()
    assert prove_symbolically(pair.body, pair.replacement).assumptions == ("T >= 1",)


def f(number: float) -> np.ndarray:
    return np.asarray(number, np.float32)


def rounded(x: Array) -> Array:
    return ops.sub(ops.add(x, f(1.5 * 2**23)), f(1.5 * 2**23))


def wraps(x: Array) -> Array:
    return ops.cast(ops.cast(ops.cast(x, out_data_type=DType.i32), out_data_type=DType.i8), out_data_type=DType.f32)


def truncated(x: Array) -> Array:
    return ops.cast(ops.cast(x, out_data_type=DType.i32), out_data_type=DType.f32)


def masked(x: Array, other: float) -> Array:
    return ops.select_v2(ops.greater(x, f(0)), x, f(other))


def huge(factor: float) -> Function:
    def run(x: Array) -> Array:
        for _ in range(9):
            x = ops.mul(x, f(1e38))
        return ops.mul(x, f(factor))

    return run


def shifted_rows(x: Array) -> Array:
    return ops.concatenation(ops.slice_(x, [0, 1], [-1, 3]), ops.slice_(x, [0, 0], [-1, 1]), axis=1)


EQUAL: dict[str, tuple[Function, Function]] = {
    "sigmoid as tanh": (
        lambda x: ops.mul(f(0.5), ops.add(f(1), ops.tanh(ops.mul(x, f(0.5))))),
        ops.logistic,
    ),
    "sigmoid as exp": (lambda x: ops.div(f(1), ops.add(f(1), ops.exp(ops.neg(x)))), ops.logistic),
    "one minus sigmoid": (lambda x: ops.sub(f(1), ops.logistic(x)), lambda x: ops.logistic(ops.neg(x))),
    "relu6 as clips": (lambda x: ops.minimum(ops.maximum(x, f(0)), f(6)), ops.relu6),
    "relu6 as clips, the upper one first": (lambda x: ops.maximum(ops.minimum(x, f(6)), f(0)), ops.relu6),
    "relu as a choice": (lambda x: ops.select_v2(ops.greater(x, f(0)), x, ops.zeros_like(x)), ops.relu),
    "leaky relu": (
        lambda x: ops.select_v2(ops.greater(x, f(0)), x, ops.mul(x, f(0.25))),
        lambda x: ops.leaky_relu(x, alpha=0.25),
    ),
    "a distributed product": (
        lambda x: ops.mul(ops.add(x, f(1)), ops.tanh(x)),
        lambda x: ops.add(ops.tanh(x), ops.mul(ops.tanh(x), x)),
    ),
    "gelu": (
        lambda x: ops.mul(ops.mul(f(0.5), x), ops.add(f(1), ops.tanh(x))),
        lambda x: ops.mul(x, ops.logistic(ops.add(x, x))),
    ),
    "moves": (
        lambda x: ops.reverse_v2(ops.reverse_v2(shifted_rows(x), [0]), [0]),
        lambda x: ops.gather(x, np.array([1, 2, 3, 0], np.int32), axis=1),
    ),
    "the same rounding": (ops.round_, ops.round_),
    "the same cast": (truncated, truncated),
}


@pytest.mark.parametrize("name", EQUAL)
def test_spellings_of_one_function_are_proven(name: str) -> None:
    assert verdict(*EQUAL[name]).stopped == ""


DIFFERENT: dict[str, tuple[Function, Function]] = {
    "a factor of 1.000001": (lambda x: ops.tanh(ops.mul(x, f(1.000001))), ops.tanh),
    "a leak of 1e-7": (lambda x: ops.maximum(x, ops.mul(x, f(1e-7))), ops.relu),
    "a leak beside tanh": (lambda x: ops.add(ops.tanh(x), ops.mul(x, f(5e-7))), ops.tanh),
    "a leak of 1e-7, rounded": (lambda x: ops.maximum(x, ops.mul(x, f(1e-7))), ops.relu),
    "a clip at 100": (lambda x: ops.minimum(x, f(100)), lambda x: ops.add(x, f(0))),
    "a clip at 1e6": (lambda x: ops.minimum(x, f(1e6)), lambda x: ops.add(x, f(0))),
    "relu6 or relu": (ops.relu6, ops.relu),
    "relu6 and a limit of 7": (lambda x: ops.minimum(ops.relu(x), f(7)), ops.relu6),
    "another value at 7": (lambda x: ops.select_v2(ops.equal(x, f(7)), f(0), x), lambda x: ops.add(x, f(0))),
    "rounding by a large sum": (rounded, lambda x: ops.add(x, f(0))),
    "a cast that truncates": (truncated, lambda x: ops.add(x, f(0))),
    "a cast that wraps": (wraps, truncated),
    "floor": (lambda x: ops.add(ops.floor(x), f(0)), lambda x: ops.add(x, f(0))),
    "round or floor": (ops.round_, ops.floor),
    "the last place": (lambda x: ops.slice_(x, [0, 0], [-1, 3]), lambda x: ops.slice_(x, [0, 1], [-1, 3])),
    "a mean over rows": (
        lambda x: ops.sub(x, ops.mean(x, [0], keep_dims=True)),
        lambda x: ops.sub(x, x),
    ),
    "rows turned around": (lambda x: ops.reverse_v2(x, [0]), lambda x: ops.add(x, f(0))),
    "columns turned around": (lambda x: ops.reverse_v2(x, [1]), lambda x: ops.add(x, f(0))),
    "greater or equal": (
        lambda x: ops.select_v2(ops.greater_equal(x, f(0)), f(1), f(0)),
        lambda x: ops.select_v2(ops.greater(x, f(0)), f(1), f(0)),
    ),
    "another activation": (ops.tanh, ops.sin),
    "an odd function turned": (lambda x: ops.tanh(ops.neg(x)), ops.tanh),
    "exp or expm1": (ops.exp, lambda x: ops.sub(ops.exp(x), f(1))),
    "elu": (ops.elu, ops.relu),
    "hard swish": (ops.hard_swish, lambda x: ops.mul(x, ops.logistic(x))),
    "gelu or its tanh form": (ops.gelu, lambda x: ops.gelu(x, approximate=True)),
    "a square": (lambda x: ops.mul(x, x), lambda x: ops.mul(x, ops.abs_(x))),
    "a root of a square": (lambda x: ops.sqrt(ops.mul(x, x)), lambda x: ops.add(x, f(0))),
    "the greatest": (
        lambda x: ops.reduce_max(x, [1]),
        lambda x: ops.reduce_min(x, [1]),
    ),
    "softmax of another beta": (ops.softmax, lambda x: ops.softmax(x, beta=2.0)),
    "a choice beside -3e38": (lambda x: masked(ops.tanh(x), -3e38), lambda x: masked(ops.sin(x), -3e38)),
    "a constant beside -1e30": (
        lambda x: ops.relu(masked(ops.add(ops.tanh(x), f(0.1)), -1e30)),
        lambda x: ops.relu(masked(ops.add(ops.tanh(x), f(0.2)), -1e30)),
    ),
    "a leak beside -1e9": (
        lambda x: masked(ops.add(ops.add(ops.tanh(x), ops.mul(x, f(1e-8))), f(0.1)), -1e9),
        lambda x: masked(ops.add(ops.tanh(x), f(0.1)), -1e9),
    ),
    "a small column beside a large one": (
        lambda x: cells.dense(x, np.diag(np.array([1e10, 1, 1, 1e-5], np.float32))),
        lambda x: cells.dense(x, np.diag(np.array([1e10, 1, 1, 2e-5], np.float32))),
    ),
    "factors beyond float64": (huge(1.0), huge(2.0)),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_nothing_that_differs_is_proven(name: str) -> None:
    body, replacement = DIFFERENT[name]
    assert verdict(body, replacement).stopped
    assert verdict(body, replacement, rounded=True).stopped


def cast(x: Array, dtype: DType) -> Array:
    return ops.cast(x, out_data_type=dtype)


ONES = np.ones((4, 2), np.int8)
INTEGERS_THAT_WRAP: dict[str, tuple[DType, Function, Function]] = {
    "a square": (DType.i8, lambda x: cast(ops.square(x), DType.i32), lambda x: ops.square(cast(x, DType.i32))),
    "a sum": (DType.i8, lambda x: cast(ops.sum_(x, [1]), DType.i32), lambda x: ops.sum_(cast(x, DType.i32), [1])),
    "a sum of bools": (
        DType.bool,
        lambda x: cast(ops.sum_(cast(x, DType.i8), [1]), DType.i32),
        lambda x: ops.sum_(cast(x, DType.i32), [1]),
    ),
    "a product with a matrix": (
        DType.i8,
        lambda x: cast(ops.batch_matmul(x, ONES), DType.i32),
        lambda x: ops.batch_matmul(cast(x, DType.i32), ONES.astype(np.int32)),
    ),
}


@pytest.mark.parametrize("name", INTEGERS_THAT_WRAP)
def test_integers_that_wrap_are_not_those_that_do_not(name: str) -> None:
    dtype, body, replacement = INTEGERS_THAT_WRAP[name]
    assert verdict(body, replacement, [TensorType((BATCH, 4), dtype)]).stopped


STEPS_THAT_DIFFER: dict[str, tuple[Any, Any]] = {
    "late peephole": (cells.late_peephole, lstm(peepholes=(cells.PEEPHOLES["input"],) * 3)),
    "negative update": (cells.negative_update, lstm()),
    "another epsilon": (cells.normed(epsilon=1e-7), lstm(norms=cells.SCALES, biases=cells.SHIFTS)),
    "an epsilon of 1.0001e-8": (cells.normed(epsilon=1.0001e-8), lstm(norms=cells.SCALES, biases=cells.SHIFTS)),
    "a larger epsilon": (cells.normed(epsilon=1e-3), lstm(norms=cells.SCALES, biases=cells.SHIFTS)),
    "a norm over all gates": (cells.normed_over_all, lstm(norms=cells.SCALES, biases=cells.SHIFTS)),
    "a norm without mean": (
        cells.normed(cells.root_mean_square_norm),
        lstm(norms=cells.SCALES, biases=cells.SHIFTS),
    ),
    "a clip of 5 for 10": (cells.clipped(5.0), lstm(cell_clip=10.0)),
    "a clip of 100 for none": (cells.clipped(100.0), lstm()),
    "no clip for 1000": (cells.keras, lstm(cell_clip=1000.0)),
    "coupled gates": (cells.coupled_input, lstm(coupled=True)),
    "gates in another order": (cells.permuted, lstm()),
    "a step of rnn for relu": (cells.simple(ops.relu6), rnn("RELU")),
    "a step without activation": (cells.simple(lambda x: ops.add(x, f(0))), rnn("TANH")),
    "relu6 twice": (cells.activated(ops.relu6, ops.relu), lstm(fused_activation_function="RELU6")),
}


@pytest.mark.parametrize("name", STEPS_THAT_DIFFER)
def test_no_step_that_differs_is_proven(name: str) -> None:
    step, replacement = STEPS_THAT_DIFFER[name]
    carries = [f32(BATCH, UNITS)] if len(replacement.inputs) == 2 else None
    body = cells.Loop(step, carries).graph()
    assert prove_symbolically(body, replacement).stopped
    assert prove_symbolically(body, replacement, rounded=True).stopped


def _loop(step: Function, carries: Sequence[TensorType], **sizes: Any) -> Any:
    return cells.Loop(step, carries, xs=[f32(BATCH, UNITS)], **sizes).graph()


def _sum(h: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(h, x))
    return new, new


def _counted(use: Callable[[Array, Array], Array]) -> Function:
    def step(h: Array, i: Array, x: Array) -> tuple[Array, ...]:
        new = ops.tanh(ops.add(h, use(x, i)))
        return new, ops.add(i, np.int32(1)), new

    return step


USES_OF_THE_STEP: dict[str, Callable[[Array, Array], Array]] = {
    "after step 100": lambda x, i: ops.select_v2(ops.greater(i, np.int32(100)), ops.neg(x), x),
    "a cast to 8 bits": lambda x, i: ops.add(
        x,
        ops.cast(
            ops.sub(ops.cast(ops.cast(i, out_data_type=DType.i8), out_data_type=DType.i32), i), out_data_type=DType.f32
        ),
    ),
    "a division": lambda x, i: ops.add(x, ops.cast(ops.div(i, np.int32(100)), out_data_type=DType.f32)),
    "bits": lambda x, i: ops.add(x, ops.cast(ops.bitwise_xor(i, np.int32(128)), out_data_type=DType.f32)),
    "the number itself": lambda x, i: ops.add(x, ops.cast(i, out_data_type=DType.f32)),
}


@pytest.mark.parametrize("name", USES_OF_THE_STEP)
def test_a_step_that_reads_its_number_is_no_step_that_does_not(name: str) -> None:
    i32 = TensorType((), DType.i32)
    state = f32(BATCH, UNITS)
    body = _loop(_counted(USES_OF_THE_STEP[name]), [state, i32])
    other = _loop(_counted(lambda x, i: x), [state, i32])
    assert prove_symbolically(body, other).stopped
    assert prove_symbolically(other, other).stopped == ""


@pytest.mark.parametrize("sizes", [{"reverse": True}, {"steps": symbol("S")}], ids=["backwards", "another length"])
def test_loops_over_other_steps_are_not_equal(sizes: dict[str, Any]) -> None:
    body, other = _loop(_sum, [f32(BATCH, UNITS)]), _loop(_sum, [f32(BATCH, UNITS)], **sizes)
    assert prove_symbolically(body, other).stopped


@pytest.mark.parametrize("place", [0, -1])
def test_a_read_of_one_step_leaves_the_steps_open(place: int) -> None:
    """So many steps are not written out: the loop is proven by induction."""
    loop = cells.Loop(cells.simple(), [f32(BATCH, UNITS)], steps=2000).eqn()

    def body(h: Any, x: Any) -> Any:
        begin, ones = np.array([place, 0, 0], np.int32), np.ones(3, np.int32)
        one = ops.strided_slice(x, begin, ones, ones, begin_mask=2, end_mask=2, shrink_axis_mask=1)
        return tuple(loop.op.run([ops.add(h, ops.zeros_like(one)), x], loop.params, loop.bodies))

    replacement = rnn(steps=2000)
    assert prove_symbolically(trace_graph(body, [v.type for v in replacement.inputs]), replacement).stopped == ""


def test_other_initial_states_are_not_equal() -> None:
    body = _loop(_sum, [f32(BATCH, UNITS)])
    h, x = body.inputs
    ones = np.ones((1, UNITS), np.float32)
    assert prove_symbolically(body, body, {h: ones}).is_proven
    shifted = trace_graph(
        lambda h, x: tuple(body.eqns[0].op.run([ops.add(h, f(1)), x], body.eqns[0].params, body.eqns[0].bodies)),
        [h.type, x.type],
    )
    assert prove_symbolically(body, shifted).stopped


def _mixing(kernel: np.ndarray) -> Any:
    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new = ops.relu(ops.add(cells.dense(h, kernel), x))
        return new, new

    return _loop(step, [f32(BATCH, UNITS)])


@pytest.mark.parametrize("value", [0.125, -10.0], ids=["equal weights", "units that are never awake"])
def test_units_with_equal_numbers_are_told_apart(value: float) -> None:
    """From states of zero, with equal inputs, no number tells which unit is which."""
    body, other = (_mixing(np.full((UNITS, UNITS), value, np.float32)) for _ in range(2))
    changed = _mixing(np.full((UNITS, UNITS), 1.001 * value, np.float32))
    zeros = {body.inputs[0]: np.zeros((1, UNITS), np.float32)}
    assert prove_symbolically(body, other, zeros).is_proven
    assert not prove_symbolically(body, changed, zeros).is_proven


def test_constants_that_round_alike_are_an_assumption() -> None:
    third, near = f(1 / 3), np.nextafter(f(1 / 3), f(1))
    body, other = (lambda x, k=k: ops.tanh(ops.mul(x, k)) for k in (third, near))
    assert verdict(body, other).stopped
    found = verdict(body, other, rounded=True)
    assert found.is_proven
    assert found.assumptions == ("constants are equal up to their rounding to float32",)


def test_the_prover_tells_where_it_stopped() -> None:
    found = verdict(lambda x: ops.cumsum(x, np.int32(1)), lambda x: ops.add(x, x))
    assert "not known to the prover" in found.stopped
    assert "cumsum" in found.stopped
