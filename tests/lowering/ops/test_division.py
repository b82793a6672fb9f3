"""Quotients of 64-bit integers, which the runtime has no division for: exact for any two numbers."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.lowering.ops.math.division import floor_div, lower_mod, lower_truncate_div

LEAST = np.iinfo(np.int64).min
ENDS = [LEAST, LEAST + 1, LEAST + 5, -LEAST - 1, -LEAST - 2, 2**62, -(2**62), 1, -1, 2, 3, -3, 10**9 + 7]


def of_all_sizes(seed: int, count: int = 20000) -> np.ndarray:
    """Numbers of both signs with any number of bits, the ends of the type first."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(LEAST, -(LEAST + 1), count) >> rng.integers(0, 63, count)
    return np.concatenate([np.array(ENDS, np.int64), drawn])


def divisors(seed: int) -> np.ndarray:
    y = of_all_sizes(seed)
    np.random.default_rng(seed).shuffle(y)
    y[y == 0] = 7
    return y


@pytest.mark.parametrize("seed", range(4))
def test_tensors(seed: int) -> None:
    x, y = of_all_sizes(seed), divisors(seed + 100)
    x[(x == LEAST) & (y == -1)] = 0  # the one pair without a quotient
    np.testing.assert_array_equal(floor_div(x, y), x // y)
    pairs = [(int(a), int(b)) for a, b in zip(x, y, strict=True)]
    toward_zero = [abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in pairs]
    np.testing.assert_array_equal(lower_truncate_div(x, y), np.array(toward_zero, np.int64))
    rest = [a - b * q for (a, b), q in zip(pairs, toward_zero, strict=True)]
    np.testing.assert_array_equal(lower_mod(x, y), np.array(rest, np.int64))


@pytest.mark.parametrize("y", [*ENDS, 7, 10, 1000, -(10**12)])
def test_by_a_constant(y: int) -> None:
    x = of_all_sizes(0)
    x = x[(x != LEAST) | (y != -1)]
    np.testing.assert_array_equal(floor_div(x, np.asarray(y, np.int64)), x // np.int64(y))


def test_a_constant_takes_fewer_operators() -> None:
    x = TensorType((3,), DType.i64)
    short = trace_graph(lambda x: floor_div(x, np.asarray(7, np.int64)), [x])
    long = trace_graph(lambda x: floor_div(x, np.asarray(LEAST, np.int64)), [x])
    assert len(short.eqns) < 20 < len(long.eqns)
