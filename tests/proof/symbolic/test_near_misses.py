"""Near misses of kinds that are easily taken for equal: none is proven, exactly or with rounded constants."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

from jfuse.ir.dims import symbol
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.proof.samples import Padded
from jfuse.proof.symbolic.prover import prove_symbolically
from tests import cells
from tests.cells import BATCH, STEPS, UNITS, f32

Function = Callable[..., Any]
I8, U8, I16, I32, I64, F16, F32 = DType.i8, DType.u8, DType.i16, DType.i32, DType.i64, DType.f16, DType.f32
ROW = [f32(BATCH, 4)]


class Pair(NamedTuple):
    """Two functions that differ for some operands. padded: of an operand that is a mask."""

    one: Function
    other: Function
    types: list[TensorType] = ROW
    padded: dict[int, Padded] = {}  # noqa: RUF012 (never written)


def f(number: float) -> np.ndarray:
    return np.asarray(number, np.float32)


def to(x: Array, *dtypes: DType) -> Array:
    for dtype in dtypes:
        x = ops.cast(x, out_data_type=dtype)
    return x


def same(x: Array) -> Array:
    return ops.add(x, f(0))


def of(dtype: DType, *shape: Any) -> list[TensorType]:
    return [TensorType(shape or (BATCH, 4), dtype)]


def number(dtype: DType, value: int) -> np.ndarray:
    return np.asarray(value, dtype.numpy)


_INT = of(I32)
INTEGERS: dict[str, Pair] = {
    "i8 + 1": Pair(lambda x: to(ops.add(x, number(I8, 1)), I32), lambda x: ops.add(to(x, I32), number(I32, 1)), of(I8)),
    "u8 - 1": Pair(lambda x: to(ops.sub(x, number(U8, 1)), I32), lambda x: ops.sub(to(x, I32), number(I32, 1)), of(U8)),
    "i32 * 2": Pair(lambda x: to(ops.mul(x, number(I32, 2)), I64), lambda x: ops.mul(to(x, I64), number(I64, 2)), _INT),
    "-i8": Pair(lambda x: to(ops.neg(x), I32), lambda x: ops.neg(to(x, I32)), of(I8)),
    "|i8|": Pair(lambda x: to(ops.abs_(x), I32), lambda x: ops.abs_(to(x, I32)), of(I8)),
    "i32 and back": Pair(lambda x: ops.sub(ops.add(x, number(I32, 7)), number(I32, 6)), lambda x: x, _INT),
    "half of twice": Pair(lambda x: ops.div(ops.mul(x, number(I32, 2)), number(I32, 2)), lambda x: x, _INT),
    "twice half": Pair(lambda x: ops.mul(ops.div(x, number(I32, 2)), number(I32, 2)), lambda x: x, _INT),
    "difference is positive": Pair(
        lambda x, y: ops.greater(ops.sub(x, y), number(I32, 0)), lambda x, y: ops.greater(x, y), _INT * 2
    ),
    "sum of two i8": Pair(
        lambda x, y: to(ops.add(x, y), I32), lambda x, y: ops.add(to(x, I32), to(y, I32)), of(I8) * 2
    ),
    "floor or truncated": Pair(lambda x: ops.floor_div(x, number(I32, 3)), lambda x: ops.div(x, number(I32, 3)), _INT),
    "remainders": Pair(
        lambda x: ops.floor_mod(x, number(I32, 3)),
        lambda x: ops.sub(x, ops.mul(ops.div(x, number(I32, 3)), number(I32, 3))),
        _INT,
    ),
    "sum of i8 rows": Pair(
        lambda x: to(ops.sum_(x, [1]), I32), lambda x: ops.sum_(to(x, I32), [1]), of(I8, BATCH, 200)
    ),
    "bits": Pair(lambda x: ops.bitwise_xor(x, number(I32, 1)), lambda x: ops.add(x, number(I32, 1)), _INT),
}
CASTS: dict[str, Pair] = {
    "f32 to i32": Pair(lambda x: to(x, I32, F32), same),
    "f32 to i64": Pair(lambda x: to(x, I64, F32), lambda x: ops.floor(x)),
    "i32 to i8": Pair(lambda x: to(x, I8, I32), lambda x: x, _INT),
    "i32 to i16": Pair(lambda x: to(x, I16, I32), lambda x: x, _INT),
    "i8 by u8": Pair(lambda x: to(x, U8, I32), lambda x: to(x, I32), of(I8)),
    "u8 by i8": Pair(lambda x: to(x, I8, I32), lambda x: to(x, I32), of(U8)),
    "i64 to i32": Pair(lambda x: to(x, I32, I64), lambda x: x, of(I64)),
    "f32 to f16": Pair(lambda x: to(x, F16, F32), same),
    "a bool of a float": Pair(lambda x: to(x, DType.bool, F32), lambda x: ops.sign(x)),
    "i32 to f32": Pair(lambda x: to(x, F32, I32), lambda x: x, _INT),
    "rounded by a cast": Pair(lambda x: to(ops.add(x, f(0.5)), I32, F32), ops.round_),
}
ROUNDING: dict[str, Pair] = {
    "floor of a sum": Pair(lambda x: ops.floor(ops.add(x, f(0.5))), ops.round_),
    "ceil": Pair(ops.ceil, lambda x: ops.add(ops.floor(x), f(1))),
    "ceil by floor": Pair(lambda x: ops.neg(ops.floor(x)), ops.ceil),
    "a fraction": Pair(lambda x: ops.sub(x, ops.floor(x)), lambda x: ops.sub(x, ops.round_(x))),
    "steps of 1/128": Pair(lambda x: ops.mul(ops.round_(ops.mul(x, f(128))), f(1 / 128)), same),
    "round of tanh": Pair(lambda x: ops.round_(ops.tanh(x)), ops.sign),
    "1.5 * 2^23": Pair(lambda x: ops.sub(ops.add(x, f(3 * 2**22)), f(3 * 2**22)), same),
    "2^24": Pair(lambda x: ops.sub(ops.add(x, f(2**24)), f(2**24)), same),
    "1e8 less": Pair(lambda x: ops.add(ops.sub(x, f(1e8)), f(1e8)), same),
    "two large sums": Pair(lambda x: ops.sub(ops.add(ops.tanh(x), f(2**23)), f(2**23)), ops.tanh),
    "f16 within": Pair(lambda x: ops.tanh(to(x, F16, F32)), ops.tanh),
}
NO_NUMBERS: dict[str, Pair] = {
    "NaN is 0": Pair(lambda x: ops.select_v2(ops.equal(x, x), x, ops.zeros_like(x)), same),
    "NaN is 1": Pair(lambda x: ops.select_v2(ops.not_equal(x, x), ops.add(ops.zeros_like(x), f(1)), x), same),
    "at least itself": Pair(lambda x: to(ops.greater_equal(x, x), F32), lambda x: to(ops.less_equal(x, same(x)), F32)),
    "more than less": Pair(
        lambda x: ops.select_v2(ops.greater(ops.add(x, f(1)), x), x, f(0)),
        same,
    ),
    "1e38 is a limit": Pair(lambda x: ops.minimum(x, f(1e38)), same),
    "-1e38 is a limit": Pair(lambda x: ops.maximum(x, f(-1e38)), same),
    "x / x": Pair(lambda x: ops.div(x, x), lambda x: ops.add(ops.zeros_like(x), f(1))),
    "1 / (1 / x)": Pair(lambda x: ops.div(f(1), ops.div(f(1), x)), same),
    "root of a square": Pair(lambda x: ops.square(ops.sqrt(x)), same),
    "exp of log": Pair(lambda x: ops.exp(ops.log(x)), same),
    "1 / sqrt(0)": Pair(lambda x: ops.mul(x, ops.rsqrt(ops.mul(x, x))), ops.sign),
}
SMALL: dict[str, Pair] = {
    "1 + 1e-6": Pair(lambda x: ops.mul(ops.tanh(x), f(1.000001)), ops.tanh),
    "1e-12 more": Pair(lambda x: ops.add(ops.tanh(x), f(1e-12)), ops.tanh),
    "1e-10 x": Pair(lambda x: ops.add(ops.tanh(x), ops.mul(x, f(1e-10))), ops.tanh),
    "a leak of 1e-9": Pair(lambda x: ops.leaky_relu(x, alpha=1e-9), ops.relu),
    "an epsilon of 2e-8": Pair(
        lambda x: ops.rsqrt(ops.add(ops.square(x), f(2e-8))), lambda x: ops.rsqrt(ops.add(ops.square(x), f(1e-8)))
    ),
    "relu6 at 6.0001": Pair(lambda x: ops.minimum(ops.relu(x), f(6.0001)), ops.relu6),
    "a step at 1e30": Pair(lambda x: ops.select_v2(ops.greater(x, f(1e30)), f(0), x), same),
    "a step at 1e-30": Pair(lambda x: to(ops.greater(x, f(1e-30)), F32), lambda x: to(ops.greater(x, f(0)), F32)),
    "one element of 1000": Pair(
        lambda x: ops.mul(x, np.where(np.arange(1000) == 777, 1.001, 1).astype(np.float32)), same, [f32(BATCH, 1000)]
    ),
}


def indexed(x: Array, i: Array, **options: Any) -> Array:
    return ops.gather(x, i, axis=1, **options)


_INDEX = [f32(BATCH, 4), TensorType((2,), I32)]
T = symbol("T")


def _lengths(m: Array) -> Array:
    return ops.sum_(to(m, I32), [0])


def _at(x: Array, index: Array) -> Array:
    return ops.gather(ops.transpose(x, [1, 0, 2]), ops.expand_dims(index, 1), axis=1, batch_dims=1)


def _at_last(x: Array, m: Array, less: int = 1) -> Array:
    return _at(x, ops.maximum(ops.sub(_lengths(m), number(I32, less)), number(I32, 0)))


def _turned(x: Array, m: Array) -> Array:
    return ops.reverse_sequence(x, _lengths(m), seq_dim=0, batch_dim=1)


def _counts_steps(m: Array) -> Array:
    return ops.cumsum(to(m, F32), np.int32(0))


_MASKED = [f32(T, BATCH, 4), TensorType((T, BATCH), DType.bool)]
RIGHT, LEFT = {1: Padded(0, "right")}, {1: Padded(0, "left")}
INDICES: dict[str, Pair] = {
    "two computed places": Pair(indexed, lambda x, i: indexed(x, ops.reverse_v2(i, [0])), _INDEX),
    "places one off": Pair(indexed, lambda x, i: indexed(x, ops.add(i, number(I32, 1))), _INDEX),
    "the last step but one": Pair(_at_last, lambda x, m: _at_last(x, m, 2), _MASKED, RIGHT),
    "the last step of all": Pair(
        lambda x, m: ops.squeeze(_at_last(x, m), squeeze_dims=(1,)),
        lambda x, m: ops.strided_slice(
            x, [-1, 0, 0], [0, 0, 0], [1, 1, 1], begin_mask=0b110, end_mask=0b111, shrink_axis_mask=1
        ),
        _MASKED,
        RIGHT,
    ),
    "the steps that do not count": Pair(_at_last, lambda x, m: _at_last(x, ops.logical_not(m)), _MASKED, RIGHT),
    "reversed rows": Pair(_turned, lambda x, m: ops.reverse_v2(x, [0]), _MASKED, RIGHT),
    "reversed rows of the contrary": Pair(_turned, lambda x, m: _turned(x, ops.logical_not(m)), _MASKED, RIGHT),
    "reversed rows twice, shifted": Pair(
        lambda x, m: _turned(ops.reverse_v2(x, [0]), m), lambda x, m: ops.reverse_v2(_turned(x, m), [0]), _MASKED, LEFT
    ),
    "the first step": Pair(_at_last, lambda x, m: _at(x, ops.minimum(_lengths(m), number(I32, 0))), _MASKED, RIGHT),
    "left for right": Pair(
        lambda x, m: ops.mul(_at_last(x, m), f(1)), lambda x, m: _at_last(ops.reverse_v2(x, [0]), m), _MASKED, LEFT
    ),
    "masked values": Pair(
        lambda x, m: ops.select_v2(ops.expand_dims(m, 2), x, f(0)), lambda x, m: same(x), _MASKED, RIGHT
    ),
    "steps that count, counted": Pair(lambda x, m: _counts_steps(m), lambda x, m: to(m, F32), _MASKED, RIGHT),
}


def _loop(step: Function, steps: Any = STEPS) -> Any:
    return cells.Loop(step, [f32(BATCH, UNITS)], xs=[f32(BATCH, UNITS)], steps=steps).graph()


def _plain(h: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(h, x))
    return new, new


def _grows(limit: float) -> Function:
    """A step whose state grows by x: the limit is reached after so many steps."""

    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new = ops.minimum(ops.add(h, ops.logistic(x)), f(limit))
        return new, new

    return step


def _leaks(rate: float) -> Function:
    def step(h: Array, x: Array) -> tuple[Array, ...]:
        new = ops.tanh(ops.add(ops.mul(h, f(rate)), x))
        return new, new

    return step


def _neighbours(h: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(ops.reverse_v2(h, [0]), x))
    return new, new


def _counting(use: Function, kind: DType = I32) -> Any:
    """A loop whose carry counts its steps, for any number of these."""

    def step(h: Array, k: Array, x: Array) -> tuple[Array, ...]:
        new = ops.tanh(ops.add(h, ops.add(x, use(k))))
        return new, ops.add(k, number(kind, 1)), new

    types = [f32(BATCH, UNITS), TensorType((), kind)]
    return cells.Loop(step, types, xs=[f32(BATCH, UNITS)]).graph()


def _two_behind(h: Array, g: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(g, x))
    return new, h, new


def _one_behind(h: Array, g: Array, x: Array) -> tuple[Array, ...]:
    new = ops.tanh(ops.add(h, x))
    return new, h, new


def _pair_of(step: Function) -> Any:
    return cells.Loop(step, [f32(BATCH, UNITS)] * 2, xs=[f32(BATCH, UNITS)]).graph()


def _nothing(k: Array) -> Array:
    return f(0)


def _keeps_undefined(h: Array, g: Array, x: Array) -> tuple[Array, ...]:
    """A carry that is a logarithm, of which nothing is added."""
    new = ops.tanh(ops.add(ops.add(h, x), ops.mul(g, f(0))))
    return new, ops.log(ops.add(x, f(1000))), new


def _keeps_defined(h: Array, g: Array, x: Array) -> tuple[Array, ...]:
    return ops.tanh(ops.add(h, x)), ops.log(ops.add(x, f(1000))), ops.tanh(ops.add(h, x))


STEPS_OF_LOOPS: dict[str, tuple[Any, Any]] = {
    "an i8 count below 0": (
        _counting(lambda k: to(ops.less(k, number(I8, 0)), F32), I8),
        _counting(_nothing, I8),
    ),
    "a u8 count that is 0 again": (
        _counting(lambda k: to(ops.equal(k, number(U8, 255)), F32), U8),
        _counting(_nothing, U8),
    ),
    "a count over 2^30": (_counting(lambda k: to(ops.greater(k, number(I32, 2**30)), F32)), _counting(_nothing)),
    "a count modulo 1000": (
        _counting(lambda k: to(ops.equal(ops.floor_mod(k, number(I32, 1000)), number(I32, 999)), F32)),
        _counting(_nothing),
    ),
    "a count times 2^24": (
        _counting(lambda k: to(ops.less(ops.mul(k, number(I32, 2**24)), number(I32, 0)), F32)),
        _counting(_nothing),
    ),
    "a count to 8 bits": (
        _counting(lambda k: ops.sub(to(k, I8, F32), to(k, F32))),
        _counting(_nothing),
    ),
    "the state two steps ago": (_pair_of(_two_behind), _pair_of(_one_behind)),
    "a carry that may be undefined": (_pair_of(_keeps_undefined), _pair_of(_keeps_defined)),
    "a limit of 1000": (_loop(_grows(1000)), _loop(_grows(1e6))),
    "a limit of 1e6": (_loop(_grows(1e6)), _loop(_grows(1e7))),
    "a rate of 0.999999": (_loop(_leaks(0.999999)), _loop(_plain)),
    "rows that read others": (_loop(_neighbours), _loop(_plain)),
    "one step more": (_loop(_plain, 64), _loop(lambda h, x: _plain(_plain(h, x)[0], x), 64)),
    "y before the step": (_loop(_plain), _loop(lambda h, x: (_plain(h, x)[0], same(h)))),
}
UNDEFINED: dict[str, Pair] = {
    "nothing times a logarithm": Pair(lambda x: ops.add(x, ops.mul(ops.log(ops.add(x, f(1000))), f(0))), same),
    "nothing over a difference": Pair(lambda x: ops.add(x, ops.div(f(0), ops.sub(x, f(7)))), same),
    "a logarithm less itself": Pair(lambda x: ops.add(x, ops.sub(ops.log(x), ops.log(x))), same),
    "a root less itself": Pair(
        lambda x: ops.sub(ops.add(x, ops.sqrt(ops.add(x, f(100)))), ops.sqrt(ops.add(f(100), x))), same
    ),
    "a logarithm chosen or multiplied": Pair(
        lambda x: ops.select_v2(ops.greater(x, f(0)), ops.log(x), f(0)),
        lambda x: ops.mul(to(ops.greater(x, f(0)), F32), ops.log(x)),
    ),
    "a quotient chosen or multiplied": Pair(
        lambda x: ops.select_v2(ops.equal(x, f(0)), f(0), ops.div(f(1), x)),
        lambda x: ops.div(to(ops.not_equal(x, f(0)), F32), x),
    ),
    "a clipped logarithm": Pair(
        lambda x: ops.relu(ops.sub(ops.minimum(ops.relu(ops.log(x)), f(1)), f(2))), lambda x: ops.mul(x, f(0))
    ),
    "a sum without its last": Pair(
        lambda x: ops.sum_(ops.mul(ops.log(x), np.array([1, 1, 1, 0], np.float32)), [1]),
        lambda x: ops.sum_(ops.log(ops.slice_(x, [0, 0], [-1, 3])), [1]),
    ),
}
ORDERS: dict[str, Pair] = {
    "sums of i8 in another order": Pair(
        lambda x, y: to(ops.sub(ops.add(x, y), y), I32), lambda x, y: ops.add(to(x, I32), number(I32, 0)), of(I8) * 2
    ),
    "products before quotients": Pair(
        lambda x, y: ops.div(ops.mul(x, y), number(I32, 3)),
        lambda x, y: ops.mul(x, ops.div(y, number(I32, 3))),
        _INT * 2,
    ),
    "a quotient turned around": Pair(
        lambda x: ops.neg(ops.floor_div(x, number(I32, 2))), lambda x: ops.floor_div(ops.neg(x), number(I32, 2)), _INT
    ),
    "a negative remainder": Pair(
        lambda x: ops.floor_mod(ops.neg(x), number(I32, 5)), lambda x: ops.neg(ops.floor_mod(x, number(I32, 5))), _INT
    ),
    "the lesser of sums": Pair(
        lambda x, y: ops.minimum(ops.add(x, y), x), lambda x, y: ops.add(x, ops.minimum(y, number(I32, 0))), _INT * 2
    ),
    "a shift and back": Pair(
        lambda x: ops.div(ops.mul(x, number(I32, 256)), number(I32, 256)), lambda x: ops.add(x, number(I32, 0)), _INT
    ),
    "i16 by f16": Pair(lambda x: to(x, F16, F32), lambda x: to(x, F32), of(I16)),
    "u8 less u8": Pair(lambda x, y: to(ops.sub(x, y), F32), lambda x, y: ops.sub(to(x, F32), to(y, F32)), of(U8) * 2),
    "the sign of a difference": Pair(
        lambda x, y: to(ops.less(ops.sub(x, y), number(I32, 0)), F32), lambda x, y: to(ops.less(x, y), F32), _INT * 2
    ),
    "saturated after a sum": Pair(
        lambda x, y: ops.relu6(ops.add(x, y)), lambda x, y: ops.add(ops.relu6(x), ops.relu6(y)), ROW * 2
    ),
    "clips in another order": Pair(
        lambda x: ops.maximum(ops.minimum(x, f(-1)), f(1)), lambda x: ops.minimum(ops.maximum(x, f(1)), f(-1))
    ),
    "an epsilon within the root": Pair(
        lambda x: ops.sqrt(ops.add(ops.square(x), f(1e-12))), lambda x: ops.add(ops.abs_(x), f(1e-6))
    ),
}
TABLE: dict[str, Pair] = {**INTEGERS, **CASTS, **ROUNDING, **NO_NUMBERS, **SMALL, **INDICES, **UNDEFINED, **ORDERS}


def test_there_are_many() -> None:
    assert len(TABLE) + len(STEPS_OF_LOOPS) >= 60


@pytest.mark.parametrize("name", TABLE)
def test_no_near_miss_is_proven(name: str) -> None:
    pair = TABLE[name]
    one, other = (trace_graph(function, pair.types) for function in (pair.one, pair.other))
    padded = {one.inputs[i]: of_mask for i, of_mask in pair.padded.items()}
    assert not prove_symbolically(one, other, padded=padded).is_proven
    assert not prove_symbolically(one, other, padded=padded, rounded=True).is_proven


@pytest.mark.parametrize("name", STEPS_OF_LOOPS)
def test_no_loop_that_differs_is_proven(name: str) -> None:
    one, other = STEPS_OF_LOOPS[name]
    assert not prove_symbolically(one, other).is_proven
    assert not prove_symbolically(one, other, rounded=True).is_proven
