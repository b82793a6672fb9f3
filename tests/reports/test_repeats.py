"""Steps that stand side by side are one block of the page."""

from __future__ import annotations

import numpy as np
import pytest

from jfuse.ir.graph import Graph
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.reports.rows import Repeat, repeats, rows_of

WEIGHTS = np.linspace(-1, 1, 64, dtype=np.float32).reshape(8, 8)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("xyz" + "abcd" * 5 + "w", [Repeat(3, 4, 5)]),
        ("abcd" * 5 + "abz", [Repeat(0, 4, 5)]),
        ("abcabcabcabc" + "def" * 4, [Repeat(0, 3, 4), Repeat(12, 3, 4)]),
        ("ab" * 3, []),  # too few to be in the way
        ("a" * 40, []),  # one operation after another is a chain, no loop
        ("abcdefgh", []),
        ("", []),
    ],
)
def test_what_repeats(keys: str, expected: list[Repeat]) -> None:
    assert repeats(keys, 0, len(keys)) == expected


def unrolled(steps: int) -> Graph:
    def run(x: Array) -> Array:
        for _ in range(steps):
            x = ops.mul(ops.tanh(ops.fully_connected(x, WEIGHTS, None)), 0.5)
        return ops.neg(x)

    return trace_graph(run, [TensorType((1, 8), DType.f32)])


def test_steps_are_folded_blocks() -> None:
    rows = rows_of(unrolled(5)).rows
    labels = [(row.kind, row.label, row.depth, row.end - i, row.folded) for i, row in enumerate(rows)]
    assert labels[:4] == [
        ("input", "kept 0", 0, 1, False),
        ("scope", "5 steps of 3 operations", 0, 21, True),
        ("scope", "step 1 of 5", 1, 4, True),
        ("op", "fully_connected", 2, 1, False),
    ]
    assert [row.path for row in rows if row.kind == "op"] == [(i,) for i in range(16)]
    assert labels[-2][:2] == ("op", "neg")


def test_constants_are_told_with_their_bytes() -> None:
    product = next(row for row in rows_of(unrolled(1)).rows if row.label == "fully_connected")
    assert product.bytes == WEIGHTS.nbytes
    (weights,) = (read for read in product.reads if read.get("value", "").startswith("const<"))
    assert "from -1 to 1, mean 0; -1 -0.968254 " in weights["value"].replace("e-17", "").replace("mean -0", "mean 0")
