"""Rows of lowering/ops/math/random.py: the ops that take seeds. Keys and counters are u64."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from tests.op_cases.case import Case, Gap, Operand, case, const, given

SEEDS = (given([7, -9], DType.i32), given([2**40 + 3, 5], DType.i64))


def number(value: int) -> Operand:
    return const(np.int32(value))


CASES: tuple[Case, ...] = (
    *(case("StatelessRandomUniform", args=[const([3, 3]), seed]) for seed in SEEDS),
    case("StatelessRandomUniform", args=[given([2, 4], DType.i32), SEEDS[0]]),
    *(case("StatelessRandomNormal", args=[const([5]), seed]) for seed in SEEDS),
    case("StatelessRandomUniformInt", args=[const([2, 5]), SEEDS[0], number(-3), number(11)]),
    case("StatelessRandomUniformInt", args=[const([9]), SEEDS[1], number(-(2**31)), number(2**31 - 1)]),
)

GAPS = tuple(
    Gap(op, "LiteRT takes no inputs of u64: tests/lowering/ops/test_stateless_random.py")
    for op in (
        "StatelessRandomGetKeyCounter",
        "StatelessRandomNormalV2",
        "StatelessRandomUniformFullIntV2",
        "StatelessRandomUniformIntV2",
        "StatelessRandomUniformV2",
    )
)
