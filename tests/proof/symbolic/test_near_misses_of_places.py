"""Near misses of places, directions, masks, ties, widths and tiny constants: none is proven."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest

from jfuse.ir.dims import Dim, symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.samples import Padded
from jfuse.proof.symbolic.prover import prove_symbolically
from tests.cells import BATCH, Loop, f32
from tests.proof.symbolic.test_near_misses import F16, F32, I8, I16, I32, I64, ROW, Function, Pair, f, number, of, to

T = symbol("T")
STATE = f32(BATCH, 4)
CLOSED, OPEN = [f32(6, BATCH, 4)], [f32(T, BATCH, 4)]


def part(start: int, size: int, x: Array) -> Array:
    return ops.slice_(x, [start, 0, 0], [size, -1, -1])


def without_last(x: Array) -> Array:
    return ops.strided_slice(x, [0, 0, 0], [-1, 0, 0], [1, 1, 1], begin_mask=0b111, end_mask=0b110)


def turned(x: Array) -> Array:
    return ops.reverse_v2(x, [0])


def accumulated(h: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(h, x))
    return new, new


def passed(h: Array, x: Array) -> tuple[Array, ...]:
    new = ops.add(ops.mul(h, f(0)), x)
    return new, new


def zeros(x: Array) -> Array:
    return ops.mul(ops.reshape(part(0, 1, x), [-1, 4]), f(0))


def looped(x: Array, h: Any = None, step: Function = accumulated, steps: Dim = T, reverse: bool = False) -> Any:
    """The last state of a loop, and the results of its steps; from 0 where no state is given."""
    eqn = Loop(step, [STATE], xs=[STATE], steps=steps, reverse=reverse).eqn()
    h = zeros(x) if h is None else h
    return eqn.op.run([h, x], eqn.params, eqn.bodies)


def last_of(x: Array, **options: Any) -> Array:
    return looped(x, **options)[0]


def steps_of(x: Array, **options: Any) -> Array:
    return looped(x, **options)[1]


PLACES: dict[str, Pair] = {
    "the last of all but the last": Pair(lambda x: part(4, 1, part(0, 5, x)), partial(part, 5, 1), CLOSED),
    "the first of a part turned around": Pair(
        lambda x: part(0, 1, turned(part(0, 5, x))), lambda x: part(0, 1, turned(x)), CLOSED
    ),
    "a part turned around": Pair(lambda x: turned(part(0, 5, x)), lambda x: part(0, 5, turned(x)), CLOSED),
    "the last step of a part": Pair(
        lambda x: last_of(part(0, 5, x), step=passed, steps=5), lambda x: ops.reshape(part(5, 1, x), [-1, 4]), CLOSED
    ),
    "the last step of an open part": Pair(
        lambda x: last_of(without_last(x), h=zeros(x), step=passed, steps=T - 1),
        lambda x: last_of(x, step=passed),
        OPEN,
    ),
    "a loop without the last step": Pair(lambda x: last_of(without_last(x), h=zeros(x), steps=T - 1), last_of, OPEN),
    "the same, from the end": Pair(
        lambda x: last_of(without_last(x), h=zeros(x), steps=T - 1, reverse=True),
        lambda x: last_of(x, reverse=True),
        OPEN,
    ),
    "all steps but the last, from the end": Pair(
        lambda x: without_last(steps_of(x, reverse=True)),
        lambda x: steps_of(without_last(x), h=zeros(x), steps=T - 1, reverse=True),
        OPEN,
    ),
    "turned before, not after": Pair(lambda x: steps_of(turned(x)), lambda x: steps_of(x, reverse=True), OPEN),
    "half of the steps turned": Pair(
        lambda x: last_of(ops.concatenation(turned(part(0, 3, x)), part(3, 3, x), axis=0), steps=6),
        lambda x: last_of(x, steps=6, reverse=True),
        CLOSED,
    ),
    "steps moved on by one": Pair(
        lambda x: ops.concatenation(part(1, 5, x), part(0, 1, x), axis=0),
        lambda x: ops.concatenation(part(5, 1, x), part(0, 5, x), axis=0),
        CLOSED,
    ),
    "rows for steps": Pair(turned, lambda x: ops.reverse_v2(x, [1]), [f32(4, 4, 4)]),
    "shaped anew, not transposed": Pair(
        lambda x: ops.reshape(x, [4, 6, 4]), lambda x: ops.transpose(x, [1, 0, 2]), [f32(6, 4, 4)]
    ),
}


def both(a: Array, b: Array, x: Array, activation: Function = ops.tanh, reverse: bool = True) -> tuple[Array, ...]:
    """Two directions over a sequence, from a state each."""

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new = activation(ops.add(h, x))
        return new, new

    (one, ys), (other, zs) = looped(x, a), looped(x, b, step=step, reverse=reverse)
    return one, other, ops.concatenation(ys, zs, axis=2)


_BOTH = [STATE, STATE, *OPEN]
DIRECTIONS: dict[str, Pair] = {
    "states of each other": Pair(both, lambda a, b, x: both(b, a, x), _BOTH),
    "the same state for both": Pair(both, lambda a, b, x: both(a, a, x), _BOTH),
    "last states of each other": Pair(both, lambda a, b, x: (lambda r: (r[1], r[0], r[2]))(both(a, b, x)), _BOTH),
    "another activation": Pair(both, partial(both, activation=ops.relu6), _BOTH),
    "one direction twice": Pair(both, partial(both, reverse=False), _BOTH),
}


def half(value: float) -> np.ndarray:
    return np.asarray(value, np.float16)


WIDTHS: dict[str, Pair] = {
    "1000 more in f16, and less": Pair(
        lambda x: to(ops.sub(ops.add(to(x, F16), half(1000)), half(1000)), F32), lambda x: to(x, F16, F32)
    ),
    "another f16, and less": Pair(
        lambda x, y: to(ops.sub(ops.add(to(x, F16), to(y, F16)), to(y, F16)), F32),
        lambda x, y: to(x, F16, F32),
        ROW * 2,
    ),
    "tanh in f16": Pair(lambda x: to(ops.tanh(to(x, F16)), F32), lambda x: ops.tanh(to(x, F16, F32))),
    "a third in f16": Pair(lambda x: ops.mul(x, to(half(1 / 3), F32)), lambda x: ops.mul(x, f(1 / 3))),
    "f16 constants, added": Pair(
        lambda x: ops.mul(x, to(ops.add(half(1), half(2e-4)), F32)), lambda x: ops.mul(x, f(1.0002))
    ),
    "twice i16": Pair(lambda x: to(ops.add(x, x), I32), lambda x: ops.mul(to(x, I32), number(I32, 2)), of(I16)),
    "2^40 times i64, and back": Pair(
        lambda x: ops.div(ops.mul(x, number(I64, 2**40)), number(I64, 2**40)), lambda x: x, of(I64)
    ),
    "a square of i32": Pair(lambda x: to(ops.mul(x, x), F32), lambda x: ops.square(to(x, F32)), of(I32)),
    "the greater less the other": Pair(
        lambda x, y: ops.maximum(ops.sub(x, y), number(I32, 0)),
        lambda x, y: ops.sub(ops.maximum(x, y), y),
        of(I32) * 2,
    ),
    "cumulative sums of i8": Pair(
        lambda x: to(ops.cumsum(x, np.int32(1)), I32), lambda x: ops.cumsum(to(x, I32), np.int32(1)), of(I8)
    ),
}


def normed(epsilon: float, x: Array) -> Array:
    left = ops.sub(x, ops.mean(x, [1], keep_dims=True))
    variance = ops.mean(ops.square(left), [1], keep_dims=True)
    return ops.mul(left, ops.rsqrt(ops.add(variance, f(epsilon))))


def _epsilons(one: float, other: float, width: int = 512) -> Pair:
    return Pair(partial(normed, one), partial(normed, other), [f32(BATCH, width)])


CONSTANTS: dict[str, Pair] = {
    "epsilons below the rounding": _epsilons(5e-13, 1e-13),
    "an epsilon of 1e-14, or none": _epsilons(1e-14, 0.0),
    "epsilons of 1e-14": _epsilons(1e-14, 3e-14),
    "an epsilon in a short row": _epsilons(3e-13, 0.0, 4),
    "a bool at 1e-14": Pair(
        lambda x: to(ops.greater(ops.add(ops.mean(x, [1]), f(1e-14)), f(0)), F32),
        lambda x: to(ops.greater(ops.mean(x, [1]), f(0)), F32),
        [f32(BATCH, 512)],
    ),
    "1.0001 after the exponential": Pair(
        ops.elu, lambda x: ops.select_v2(ops.greater(x, f(0)), x, ops.sub(ops.exp(x), f(1.0001)))
    ),
    "a twice of 2.000001": Pair(
        ops.tanh, lambda x: ops.sub(ops.mul(ops.logistic(ops.mul(x, f(2.000001))), f(2)), f(1))
    ),
    "a slope of 0.20001": Pair(partial(ops.leaky_relu, alpha=0.2), partial(ops.leaky_relu, alpha=0.20001)),
}
TIES: dict[str, Pair] = {
    "at least 0, or above": Pair(
        lambda x: to(ops.greater_equal(x, f(0)), F32), lambda x: to(ops.greater(x, f(0)), F32)
    ),
    "not below 1, or above": Pair(
        lambda x: to(ops.logical_not(ops.less(x, f(1))), F32), lambda x: to(ops.greater(x, f(1)), F32)
    ),
    "a choice among equals": Pair(
        lambda x, y: ops.select_v2(ops.greater(x, y), ops.add(x, f(1)), y),
        lambda x, y: ops.select_v2(ops.greater_equal(x, y), ops.add(x, f(1)), y),
        ROW * 2,
    ),
    "the first of the largest": Pair(
        lambda x: ops.arg_max(x, np.int32(1)),
        lambda x: ops.sub(number(I32, 3), to(ops.arg_max(ops.reverse_v2(x, [1]), np.int32(1)), I32)),
    ),
    "the sign of 0": Pair(
        lambda x: ops.sub(to(ops.greater(x, f(0)), F32), to(ops.less(x, f(0)), F32)),
        lambda x: ops.sub(ops.mul(to(ops.greater(x, f(0)), F32), f(2)), f(1)),
    ),
    "clipped by 1, then by 2": Pair(
        lambda x: ops.minimum(ops.maximum(ops.minimum(ops.maximum(x, f(-1)), f(2)), f(-2)), f(1)),
        lambda x: ops.minimum(ops.maximum(x, f(-1)), f(2)),
    ),
}


def masked(
    h: Array,
    x: Array,
    m: Array,
    keeps: Callable[[Array], Array] = lambda h: h,
    flag: Callable[[Array], Array] = lambda m: m,
    reverse: bool = False,
) -> Any:
    """A loop whose steps without the mask keep the state."""

    def step(h: Array, x: Array, m: Array) -> tuple[Array, ...]:
        after = ops.select_v2(flag(m), accumulated(h, x)[0], keeps(h))
        return after, after

    eqn = Loop(step, [STATE], xs=[STATE, TensorType((BATCH, 1), DType.bool)], reverse=reverse, steps=T).eqn()
    return eqn.op.run([h, x, m], eqn.params, eqn.bodies)


def at_last(less: int, h: Array, x: Array, m: Array) -> Array:
    """The result of a step that is looked up by the number of those that count."""
    count = ops.reshape(ops.sum_(to(m, I32), [0]), [-1])
    place = ops.maximum(ops.sub(count, number(I32, less)), number(I32, 0))
    steps = ops.transpose(masked(h, x, m)[1], [1, 0, 2])
    return ops.gather(steps, ops.expand_dims(place, 1), axis=1, batch_dims=1)


_MASKED = [STATE, *OPEN, TensorType((T, BATCH, 1), DType.bool)]
MASKS: dict[str, tuple[Function, Function]] = {
    "the mask turned": (masked, lambda h, x, m: masked(h, x, turned(m))),
    "both turned": (masked, lambda h, x, m: masked(h, turned(x), turned(m), reverse=True)),
    "rows of the mask turned": (masked, lambda h, x, m: masked(h, x, ops.reverse_v2(m, [1]))),
    "the contrary": (masked, partial(masked, flag=ops.logical_not)),
    "kept but for 1e-4": (masked, partial(masked, keeps=lambda h: ops.mul(h, f(0.9999)))),
    "kept up to 100": (masked, partial(masked, keeps=lambda h: ops.minimum(h, f(100)))),
    "one step too early": (partial(at_last, 1), partial(at_last, 2)),
}
TABLE = {**PLACES, **DIRECTIONS, **WIDTHS, **CONSTANTS, **TIES}


@pytest.mark.parametrize("name", TABLE)
def test_no_near_miss_is_proven(name: str) -> None:
    one, other = (trace_graph(function, TABLE[name].types) for function in (TABLE[name].one, TABLE[name].other))
    assert not prove_symbolically(one, other).is_proven
    assert not prove_symbolically(one, other, rounded=True).is_proven


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", MASKS)
def test_no_mask_that_differs_is_proven(name: str, side: str) -> None:
    one, other = (trace_graph(function, _MASKED) for function in MASKS[name])
    assert not prove_symbolically(one, other, padded={one.inputs[2]: Padded(0, side)}).is_proven


@pytest.mark.parametrize("function", [looped, partial(looped, reverse=True)], ids=["forwards", "backwards"])
def test_what_is_equal_is_proven(function: Function) -> None:
    """The same by other spellings: the rows above differ by what they are made to differ by."""

    def spelled(x: Array) -> Any:
        last, ys = function(ops.add(ops.mul(x, f(2)), ops.neg(x)))
        return last, ops.neg(ops.neg(ys))

    assert prove_symbolically(trace_graph(function, OPEN), trace_graph(spelled, OPEN)).is_proven
    one = trace_graph(masked, _MASKED)
    assert prove_symbolically(one, trace_graph(masked, _MASKED), padded={one.inputs[2]: Padded(0, "right")}).is_proven
