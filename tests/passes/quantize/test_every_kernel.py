"""Every builtin that LiteRT computes in integers, as its row says: all of them in one file, each output against floats.

A row that claims too much ends LiteRT's process, is refused, or answers something else here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.quantization.recipe import Recipe
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.runtime.table import ROWS
from tests.passes.quantize.models import KEY, calibrated, drawn, eqns_of, program_of, quantized, snr_db

X = TensorType((2, 6, 4, 8), DType.f32)
WINDOW = {"padding": "SAME", "stride_w": 1, "stride_h": 1}
POOL = {**WINDOW, "filter_width": 2, "filter_height": 2}
AXES = np.array([1, 2], np.int32)
CASES: dict[str, Callable[[Any], Any]] = {
    "ABS": ops.abs_,
    "ADD": lambda x: ops.add(x, drawn(8)),
    "ARG_MAX": lambda x: ops.arg_max(x, np.array(3, np.int32), output_type=DType.i32),
    "ARG_MIN": lambda x: ops.arg_min(x, np.array(3, np.int32), output_type=DType.i32),
    "AVERAGE_POOL_2D": lambda x: ops.average_pool_2d(x, **POOL),
    "BATCH_MATMUL": lambda x: ops.batch_matmul(x, drawn(8, 5)),
    "BATCH_TO_SPACE_ND": lambda x: ops.batch_to_space_nd(x, [2, 1], np.zeros((2, 2), np.int32)),
    "BROADCAST_TO": lambda x: ops.broadcast_to(ops.slice_(x, [0, 0, 0, 0], [1, 6, 4, 8]), [3, 6, 4, 8]),
    "CONCATENATION": lambda x: ops.logistic(ops.concatenation(x, ops.relu(x), axis=3)),
    "CONV_2D": lambda x: ops.conv_2d(x, drawn(7, 3, 3, 8), drawn(7), **WINDOW),
    "DEPTHWISE_CONV_2D": lambda x: ops.depthwise_conv_2d(x, drawn(1, 3, 3, 8), drawn(8), depth_multiplier=1, **WINDOW),
    "DEPTH_TO_SPACE": lambda x: ops.depth_to_space(x, block_size=2),
    "DYNAMIC_UPDATE_SLICE": lambda x: ops.dynamic_update_slice(x, drawn(1, 2, 4, 8), np.array([0, 1, 0, 0], np.int32)),
    "ELU": ops.elu,
    "EMBEDDING_LOOKUP": lambda x: ops.relu(ops.embedding_lookup(_ids(x), drawn(8, 6))),
    "EQUAL": lambda x: ops.equal(ops.relu(x), ops.relu(ops.mul(x, np.float32(1)))),
    "EXP": ops.exp,
    "EXPAND_DIMS": lambda x: ops.expand_dims(x, 1),
    "FILL": lambda x: ops.fill(np.array([2, 3], np.int32), ops.reshape(ops.slice_(x, [0] * 4, [1] * 4), [])),
    "FULLY_CONNECTED": lambda x: ops.fully_connected(x, drawn(5, 8), drawn(5)),
    "GATHER": lambda x: ops.gather(x, np.array([2, 0], np.int32), axis=1, batch_dims=0),
    "GATHER_ND": lambda x: ops.gather_nd(x, np.array([[0, 2], [1, 1]], np.int32)),
    "GELU": lambda x: ops.gelu(x, approximate=False),
    "GREATER": lambda x: ops.greater(x, np.float32(0.3)),
    "GREATER_EQUAL": lambda x: ops.greater_equal(x, np.float32(0.3)),
    "HARD_SWISH": ops.hard_swish,
    "L2_NORMALIZATION": lambda x: ops.l2_normalization(x),
    "LEAKY_RELU": lambda x: ops.leaky_relu(x, alpha=0.2),
    "LESS": lambda x: ops.less(x, np.float32(0.3)),
    "LESS_EQUAL": lambda x: ops.less_equal(x, np.float32(0.3)),
    "LOG": lambda x: ops.log(ops.add(ops.abs_(x), np.float32(0.5))),
    "LOGISTIC": ops.logistic,
    "LOG_SOFTMAX": ops.log_softmax,
    "MAXIMUM": lambda x: ops.maximum(x, np.float32(0.25)),
    "MAX_POOL_2D": lambda x: ops.max_pool_2d(x, **POOL),
    "MEAN": lambda x: ops.mean(x, AXES),
    "MINIMUM": lambda x: ops.minimum(x, drawn(8)),
    "MIRROR_PAD": lambda x: ops.mirror_pad(x, np.array([[0, 0], [1, 2], [1, 0], [0, 0]], np.int32), mode="REFLECT"),
    "MUL": lambda x: ops.mul(x, drawn(8)),
    "NOT_EQUAL": lambda x: ops.not_equal(ops.relu(x), np.float32(0)),
    "PACK": lambda x: ops.pack(x, x, axis=1),
    "PAD": lambda x: ops.pad(x, np.array([[0, 0], [1, 2], [1, 0], [0, 0]], np.int32)),
    "PADV2": lambda x: ops.padv2(x, np.array([[0, 0], [1, 2], [1, 0], [0, 0]], np.int32), np.float32(0.5)),
    "PRELU": lambda x: ops.prelu(x, drawn(1, 1, 8)),
    "REDUCE_MAX": lambda x: ops.reduce_max(x, AXES),
    "REDUCE_MIN": lambda x: ops.reduce_min(x, AXES),
    "RELU": ops.relu,
    "RELU6": ops.relu6,
    "RELU_0_TO_1": ops.relu_0_to_1,
    "RELU_N1_TO_1": ops.relu_n1_to_1,
    "RESHAPE": lambda x: ops.reshape(x, [12, 32]),
    "RESIZE_BILINEAR": lambda x: ops.resize_bilinear(x, [9, 5]),
    "RESIZE_NEAREST_NEIGHBOR": lambda x: ops.resize_nearest_neighbor(x, [9, 5]),
    "REVERSE_SEQUENCE": lambda x: ops.reverse_sequence(x, np.array([3, 6], np.int32), seq_dim=1, batch_dim=0),
    "REVERSE_V2": lambda x: ops.reverse_v2(x, [1]),
    "RSQRT": lambda x: ops.rsqrt(ops.add(ops.abs_(x), np.float32(0.5))),
    "SELECT": lambda x: ops.select(ops.greater(x, np.float32(0)), x, ops.relu6(x)),
    "SELECT_V2": lambda x: ops.select_v2(np.array([True, False] * 4), x, np.float32(0.5)),
    "SLICE": lambda x: ops.slice_(x, [0, 1, 0, 2], [2, 3, 4, 4]),
    "SOFTMAX": lambda x: ops.softmax(x, beta=1.0),
    "SPACE_TO_BATCH_ND": lambda x: ops.space_to_batch_nd(x, [2, 2], np.zeros((2, 2), np.int32)),
    "SPACE_TO_DEPTH": lambda x: ops.space_to_depth(x, block_size=2),
    "SPLIT": lambda x: ops.split(np.array(3, np.int32), x, num_splits=2)[1],
    "SPLIT_V": lambda x: ops.split_v(x, np.array([3, 5], np.int32), np.array(3, np.int32))[1],
    "SQRT": lambda x: ops.sqrt(ops.abs_(x)),
    "SQUARED_DIFFERENCE": lambda x: ops.squared_difference(x, drawn(8)),
    "SQUEEZE": lambda x: ops.squeeze(ops.expand_dims(x, 1), squeeze_dims=(1,)),
    "STRIDED_SLICE": lambda x: ops.strided_slice(x, [0, 1, 0, 0], [2, 6, 4, 8], [1, 2, 1, 3]),
    "SUB": lambda x: ops.sub(drawn(4, 8), x),
    "SUM": lambda x: ops.sum_(x, AXES),
    "TANH": ops.tanh,
    "TILE": lambda x: ops.tile(x, np.array([1, 2, 1, 1], np.int32)),
    "TOPK_V2": lambda x: ops.topk_v2(x, np.array(3, np.int32))[0],
    "TRANSPOSE": lambda x: ops.transpose(x, [0, 3, 1, 2]),
    "TRANSPOSE_CONV": lambda x: ops.transpose_conv(
        [2, 12, 8, 5], drawn(5, 3, 3, 8), x, None, padding="SAME", stride_w=2, stride_h=2
    ),
    "UNPACK": lambda x: ops.unpack(x, axis=1)[2],
}


def _ids(x: Any) -> Any:
    return ops.reshape(ops.arg_max(x, np.array(3, np.int32), output_type=DType.i32), [48])


def _on_integers(builtin: str, x: Any) -> Any:
    """The case on what integers compute: what only moves and compares follows its operand."""
    return CASES[builtin](ops.mul(x, np.float32(0.9)))


def _claimed(dtype: DType) -> set[str]:
    """All but recurrences, which test_integer_lstm.py runs, and what only says a range (test_trained_ranges.py)."""
    rows = ((r.builtin, r.litert.quantized) for r in ROWS.values() if r.litert is not None)
    return {
        builtin
        for builtin, row in rows
        if row.integers is not None and row.recurrence is None and dtype in row.integers.types
        if row.integers.trained is None
    }


@pytest.mark.slow
@pytest.mark.parametrize(
    ("recipe", "dtype", "at_least_db"),
    [("int8", DType.i8, 28), ("int16x8", DType.i16, 32)],
)
def test_what_a_row_claims_runs(recipe: str, dtype: DType, at_least_db: float) -> None:
    claimed = sorted(_claimed(dtype))
    assert not set(claimed) - set(CASES)
    program = program_of(lambda x: tuple(_on_integers(builtin, x) for builtin in claimed), X)
    calls = [{"x0": drawn(*(int(d) for d in X.shape), seed=i)} for i in range(3)]
    model = calibrated(program, Recipe.named(recipe), calls)
    integers = {
        str(e.op.builtin)
        for e in eqns_of(model.program)
        if any(a is not None and a.type.dtype is dtype and a.type.quantization for a in e.inputs)
    }
    assert set(claimed) - integers == set()
    wanted = LiteRt(quantized(program, None).to_bytes())
    for delegates in (True, False):
        runner = LiteRt(model.to_bytes(), delegates=delegates)
        for call in calls:
            found, floats = runner.run(KEY, call), wanted.run(KEY, call)
            for i, builtin in enumerate(claimed):
                a, b = found[f"y{i}"], floats[f"y{i}"]
                if b.dtype.kind != "f":
                    assert np.mean(a == b) > 0.9, builtin
                else:
                    assert snr_db(a, b) > at_least_db, builtin
