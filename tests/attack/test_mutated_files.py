"""Files of the kinds that `bench/fuzz.py` found: each is one clear error, whatever is asked of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Program
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from jfuse.running.litert_call import LiteRtCall
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import BATCH, KEY, f32, program
from tests.tflite.read.test_whole import changed, integer_dense, integer_lstm


@dataclass(frozen=True)
class Row:
    """A file, what is changed in its tables, and what is said of it when it is read."""

    make: Callable[[], Program]
    change: Callable[[Any], object]
    message: str


def _shaped(name: bytes, *shape: int) -> Callable[[Any], object]:
    def change(model: Any) -> None:
        found = next(t for t in model.subgraphs[0].tensors if t.name == name)
        found.shape = np.array(shape, np.int32)

    return change


def _far_zero_points(model: Any) -> None:
    for found in model.subgraphs[0].tensors:
        if found.isVariable:
            found.quantization.zeroPoint = np.array([2**20], np.int64)


def _without_second_operand(model: Any) -> None:
    operator = model.subgraphs[0].operators[0]
    operator.inputs = np.array([operator.inputs[0], -1, *operator.inputs[2:]], np.int32)


ROWS: dict[str, Row] = {
    "an operand that is left out": Row(
        integer_dense, _without_second_operand, r"an operator lacks an operand(.|\n)*expected  weights"
    ),
    # LiteRT's kernel takes the 10 numbers for one row of 8, and drops the others.
    "integers that no shape of their operator takes": Row(
        integer_dense, _shaped(b"x", 2, 5), r"fully_connected does not take these operands"
    ),
    "a state whose zero point is none of its numbers": Row(
        lambda: integer_lstm(3), _far_zero_points, "zero point of a state is none"
    ),
}


@pytest.mark.parametrize("name", ROWS)
def test_reading(name: str) -> None:
    row = ROWS[name]
    with pytest.raises(jfuse.BadFlatbuffer, match=row.message):
        load_tflite(changed(row.make(), row.change))


@pytest.mark.parametrize(
    ("begin", "end", "mask"), [(-9, 2, 0), (-3, 3, 0), (2, 3, 0), (-9, 2, 1), (2, 3, 1), (-9, None, 1)]
)
def test_a_slice_whose_end_counts_from_its_begin(begin: int, end: int | None, mask: int) -> None:
    """bench/fuzz.py found one whose size was asked for without end."""

    def main(x: Any) -> Any:
        ends = ops.shape(x) if end is None else [end]
        return ops.strided_slice(x, [begin], ends, [1], begin_mask=mask, offset=True)

    made = program(main, f32(BATCH))
    x = np.arange(12, dtype=np.float32)
    found = LiteRt(to_bytes(made)).run(KEY, {"x0": x})["y0"]
    np.testing.assert_array_equal(Model(made)(x), found)


def test_a_result_of_litert_that_is_none_of_the_stated_type() -> None:
    graph = integer_dense().signatures[0].graph
    (eqn,) = graph.eqns
    wrong = replace(eqn.outputs[0], type=replace(eqn.outputs[0].type, shape=(3, 5)))
    call = LiteRtCall(replace(graph, eqns=(replace(eqn, outputs=(wrong,)),), outputs=(wrong,)), {})
    with pytest.raises(jfuse.JfuseError, match=r"another type than the file states\n.*i8\[3,5\].*\n.*int8\[2, 5\]"):
        call([np.ones((2, 8), np.int8)])
