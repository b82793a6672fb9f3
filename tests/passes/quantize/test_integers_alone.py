"""What floats are left out of: kernels of few bits alone, where only integers may be; ids that come as floats."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.quantization.real_numbers.numbers import as_real
from jfuse.quantization.recipe import Recipe
from tests.passes.quantize.models import (
    calibrated,
    drawn,
    in_litert,
    names_of,
    program_of,
    quantized,
    snr_db,
)

ROWS = TensorType((3, 16), DType.f32)
CALLS = [{"x0": drawn(3, 16, seed=i)} for i in range(8)]
ALONE = {bits: Recipe.named(name, int8_only=True) for bits, name in ((8, "int8"), (16, "int16x8"))}
COUNTS = np.arange(1, 17, dtype=np.float32)


def quotient(x: Any) -> Any:
    """Sums divided by a number from 1 to 16 that depends on the input, as means of what a mask leaves."""
    return ops.div(
        ops.mul(x, np.float32(4)), ops.minimum(ops.add(ops.abs_(ops.mul(x, np.float32(5))), np.float32(1)), COUNTS)
    )


def root(x: Any) -> Any:
    """As in a normalization: by a factor of ten from the least to the greatest."""
    return ops.rsqrt(ops.add(ops.mul(x, x), np.float32(0.1)))


def length(x: Any) -> Any:
    """By the other root."""
    return ops.sqrt(ops.add(ops.mul(x, x), np.float32(0.1)))


@pytest.mark.parametrize(
    ("function", "bits", "at_least_db"),
    [(quotient, 8, 22), (quotient, 16, 42), (root, 8, 25), (root, 16, 42), (length, 16, 42)],
)
def test_what_has_no_kernel_of_so_many_bits_is_made_of_fewer(
    function: Callable[..., Any], bits: int, at_least_db: float
) -> None:
    program = program_of(lambda x: function(ops.mul(x, np.float32(0.9))), ROWS)
    model = calibrated(program, ALONE[bits], CALLS)
    assert (names_of(model.program)[0], names_of(model.program)[-1]) == ("quantize", "dequantize")
    assert names_of(model.program).count("dequantize") == 1
    wanted = np.stack(in_litert(quantized(program, None), CALLS, delegates=True))
    for delegates in (True, False):
        assert snr_db(np.stack(in_litert(model, CALLS, delegates=delegates)), wanted) > at_least_db
    fewer = [q.reason for q in model.report.quantized if q.op == "rsqrt"]
    assert fewer == (["the runtime has no kernel for i16"] if bits == 16 else [""])


def test_floats_are_nearer_where_they_are_allowed() -> None:
    program = program_of(lambda x: quotient(ops.mul(x, np.float32(0.9))), ROWS)
    model = calibrated(program, Recipe.named("int8"), CALLS)
    assert ["div"] == [n for n in names_of(model.program) if n in ("div", "rsqrt")]


TABLE = drawn(300, 16)


def of_ids(x: Any) -> Any:
    """Rows of a table by numbers that come as floats, of those that are not 0; the numbers count, too."""
    moved = ops.reshape(x, np.array([48], np.int32))
    rows = ops.gather(TABLE, ops.cast(moved, out_data_type=DType.i32))
    told = ops.select_v2(
        ops.reshape(ops.not_equal(moved, np.float32(0)), np.array([48, 1], np.int32)), rows, np.float32(0)
    )
    return ops.add(told, ops.mul(ops.reshape(moved, np.array([48, 1], np.int32)), np.float32(1e-3)))


@pytest.mark.parametrize("ends", ["float32", "int8"])
def test_ids_that_come_as_floats_stay_whole_numbers(ends: str) -> None:
    rng = np.random.default_rng(3)
    calls = [{"x0": rng.integers(0, 300, (3, 16)).astype(np.float32)} for _ in range(4)]
    program = program_of(of_ids, ROWS)
    model = calibrated(program, Recipe.named("int8", inputs=ends, outputs=ends), calls)
    (signature,) = model.program.signatures
    assert signature.graph.inputs[0].type.dtype is DType.f32
    result = signature.graph.outputs[0].type
    wanted = np.stack(in_litert(quantized(program, None), calls, delegates=True))
    found = [as_real(y, result.quantization) for y in in_litert(model, calls, delegates=True)]
    assert snr_db(np.stack(found), wanted) > 30
    text = r'cast at(.|\n)*an input of ids is of integers itself, as keras.Input\(…, dtype="int32"\)'
    with pytest.raises(LowerError, match=text):
        calibrated(program, Recipe.named("micro"), calls)
