"""The check of random programs sees what is wrong, and does not see roundings."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.kernels import ops
from jfuse.lowering.rules import Rule
from tests.properties.compare import check
from tests.properties.forms import SPECIAL
from tests.properties.values import Input, RandomProgram, Step

PROGRAM = RandomProgram(
    (Input(("B", 4), np.float32),),
    (
        (Step("tanh", tf.tanh, (0,), {}, SPECIAL), 1),
        (Step("scaled", lambda x: x * 0.3 - 0.1, (1,), {}, SPECIAL), 1),
        (Step("argmax", tf.argmax, (0,), {"axis": 1, "output_type": tf.int32}), 1),
    ),
    (2, 3),
)


@jfuse.lowers("Tanh", default=False)
def lower_tanh_nearly(x: Any) -> Any:
    """Off by 2e-5 beside results of 1."""
    return ops.add(ops.tanh(x), np.float32(2e-5))


@jfuse.lowers("ArgMax", default=False)
def lower_arg_max_of_first(x: Any, axis: Any, *, output_type: Any) -> Any:
    """The greatest of all columns but the last."""
    columns = ops.strided_slice(x, [0, 0], [0, 3], [1, 1], begin_mask=3, end_mask=1)
    return ops.arg_max(columns, axis, output_type=output_type)


@jfuse.lowers("Mul", default=False)
def lower_mul_of_a_row(x: Any, y: Any) -> Any:
    """Right for one row."""
    return ops.mul(ops.strided_slice(x, [0], [1], [1]), y)


def test_what_is_right_passes() -> None:
    check(PROGRAM)


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lower_tanh_nearly, "result 0 of .*roundings explain"),
        (lower_arg_max_of_first, "result 1 of .*instead of"),
        (lower_mul_of_a_row, "result 0 of"),
    ],
)
def test_what_is_wrong_is_seen(rule: Rule, message: str) -> None:
    with pytest.raises(AssertionError, match=message):
        check(PROGRAM, rules=(rule,))
