"""What attention is spelled with: biases of heads, scaled scores, masks of ones, norms that several products read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.kernels import ops
from tests.lowering.peephole.rewriting import B, Case, T, case, check, f32, flags, floats, ints

WEIGHTS, OTHERS, VECTOR = floats(6, 4), floats(6, 4) + 1, floats(4)


def dense(x: Any, weights: np.ndarray = WEIGHTS, bias: Any = None, **options: Any) -> Any:
    return ops.fully_connected(x, weights, bias, keep_num_dims=True, **options)


def heads(x: Any, weights: np.ndarray = WEIGHTS, **options: Any) -> Any:
    """f32[b,5,4] -> f32[b,5,2,3]."""
    return ops.reshape(dense(x, weights, **options), ints(-1, 5, 2, 3))


def turned(x: Any) -> Any:
    return ops.transpose(x, ints(0, 2, 1, 3))


def scores(x: Any, **options: Any) -> Any:
    """f32[b,5,4] -> f32[b,2,5,5]."""
    return ops.batch_matmul(turned(heads(x, **options)), turned(heads(x, OTHERS, **options)), adj_y=True)


SCORES = "fully_connected reshape transpose fully_connected reshape transpose batch_matmul"
ROWS = f32(B, 5, 4)
HEADS = [
    case("bias", lambda x: ops.add(heads(x), floats(2, 3)), ROWS, left="fully_connected reshape"),
    case("bias-first", lambda x: ops.add(floats(2, 3), heads(x)), ROWS, left="fully_connected reshape"),
    case("bias-taken-off", lambda x: ops.sub(heads(x), floats(2, 3)), ROWS, left="fully_connected reshape"),
    case(
        "bias-beside-another",
        lambda x: ops.add(heads(x, bias=floats(6)), floats(2, 3)),
        ROWS,
        left="fully_connected reshape",
    ),
    case("bias-of-each-head", lambda x: ops.add(heads(x), floats(2, 1)), ROWS, left="fully_connected reshape"),
    case("bias-with-ones", lambda x: ops.add(heads(x), floats(1, 1, 2, 3)), ROWS, left="fully_connected reshape"),
    case("bias-and-relu", lambda x: ops.relu(ops.add(heads(x), floats(2, 3))), ROWS, left="fully_connected reshape"),
    case("bias-of-each-step", lambda x: ops.add(heads(x), floats(5, 2, 3)), ROWS, left="fully_connected reshape add"),
    case(
        "bias-after-relu",
        lambda x: ops.add(heads(x, fused_activation_function="RELU"), floats(2, 3)),
        ROWS,
        left="fully_connected reshape add",
    ),
    case(
        "bias-beside-another-reader",
        lambda x: (h := heads(x), ops.add(h, floats(2, 3))),
        ROWS,
        left="fully_connected reshape add",
    ),
    case(
        "bias-of-more-axes",
        lambda x: ops.add(heads(x), floats(1, 1, 1, 2, 3)),
        ROWS,
        left="fully_connected reshape add",
    ),
]
SCALES = [
    case("scale", lambda x: ops.mul(scores(x), np.float32(0.5)), ROWS, left=SCORES),
    case("scale-first", lambda x: ops.mul(np.float32(0.5), scores(x)), ROWS, left=SCORES),
    case("divided", lambda x: ops.div(scores(x), np.float32(3)), ROWS, left=SCORES),
    case("divided-by", lambda x: ops.div(np.float32(3), scores(x)), ROWS, left=f"{SCORES} div"),
    case("scale-of-columns", lambda x: ops.mul(scores(x), floats(5)), ROWS, left=f"{SCORES} mul"),
    case(
        "scale-after-relu",
        lambda x: ops.mul(scores(x, fused_activation_function="RELU"), np.float32(0.5)),
        ROWS,
        left=f"{SCORES} mul",
    ),
    case(
        "scale-beside-another-reader",
        lambda x: (s := scores(x), ops.mul(s, np.float32(0.5))),
        ROWS,
        left=f"{SCORES} mul",
    ),
    case(
        "scale-of-inputs",
        lambda x, y: ops.mul(ops.batch_matmul(x, y), np.float32(0.5)),
        f32(B, 2, 3),
        f32(B, 3, 2),
        left="batch_matmul mul",
    ),
]
TRANSPOSED = [
    case(
        "transposed",
        lambda x, y: ops.batch_matmul(x, ops.transpose(y, ints(0, 2, 1))),
        f32(B, 2, 3),
        f32(B, 4, 3),
        left="batch_matmul",
    ),
    case(
        "transposed-twice",
        lambda x, y: ops.batch_matmul(x, ops.transpose(y, ints(0, 2, 1)), adj_y=True),
        f32(B, 2, 3),
        f32(B, 3, 4),
        left="batch_matmul",
    ),
    case(
        "transposed-batch",
        lambda x, y: ops.batch_matmul(x, ops.transpose(y, ints(1, 0, 2))),
        f32(5, 2, 3),
        f32(3, 5, 4),
        left="transpose batch_matmul",
    ),
    case(
        "transposed-for-two",
        lambda x, y: (z := ops.transpose(y, ints(0, 2, 1)), ops.batch_matmul(x, z)),
        f32(B, 2, 3),
        f32(B, 4, 3),
        left="transpose batch_matmul",
    ),
    case(
        "transposed-x",
        lambda x, y: ops.batch_matmul(ops.transpose(x, ints(0, 2, 1)), y),
        f32(B, 3, 2),
        f32(B, 3, 4),
        left="transpose batch_matmul",
    ),
]


def attention_of_one(q: Any, k: Any, v: Any) -> Any:
    """f32[1,5,4], f32[1,6,4], f32[1,6,3] -> f32[1,5,3], as jax lowers it: products without the batch."""
    keys = ops.reshape(ops.transpose(k, ints(0, 2, 1)), ints(4, 6))
    scores = ops.reshape(ops.batch_matmul(ops.reshape(q, ints(5, 4)), keys), ints(1, 5, 6))
    rows = ops.reshape(ops.softmax(scores), ints(5, 6))
    return ops.reshape(ops.batch_matmul(rows, ops.reshape(v, ints(6, 3))), ints(1, 5, 3))


BATCHES = [
    case(
        "batch-of-one",
        attention_of_one,
        f32(1, 5, 4),
        f32(1, 6, 4),
        f32(1, 6, 3),
        left="batch_matmul softmax batch_matmul",
    ),
    case(
        "two-ones",
        lambda x, y: ops.batch_matmul(ops.reshape(x, ints(5, 4)), ops.squeeze(y, squeeze_dims=(0, 1))),
        f32(1, 1, 5, 4),
        f32(1, 1, 4, 3),
        left="batch_matmul reshape",
    ),
    case(
        "rows-of-a-matrix",
        lambda x, y: ops.batch_matmul(ops.reshape(x, ints(6, 4)), ops.reshape(y, ints(4, 3))),
        f32(2, 3, 4),
        f32(1, 4, 3),
        left="reshape reshape batch_matmul",
    ),
    case(
        "another-number-of-axes",
        lambda x, y: ops.batch_matmul(ops.reshape(x, ints(5, 4)), ops.reshape(y, ints(4, 3))),
        f32(1, 5, 4),
        f32(1, 1, 4, 3),
        left="reshape reshape batch_matmul",
    ),
    case(
        "both-read-elsewhere",
        lambda x, y: (
            a := ops.reshape(x, ints(5, 4)),
            b := ops.reshape(y, ints(4, 3)),
            ops.batch_matmul(a, b),
        ),
        f32(1, 5, 4),
        f32(1, 4, 3),
        left="reshape reshape batch_matmul",
    ),
]


def joined(x: Any, mask: Any, ones: Any = True) -> Any:
    filled = ops.fill(ops.shape(x), np.asarray(ones))
    return ops.select_v2(ops.logical_and(filled, mask), x, np.float32(-9))


MASKS = [
    case("mask-of-ones", joined, f32(B, 2, 3), flags(B, 1, 3), left="select_v2"),
    case(
        "mask-of-zeros",
        lambda x, m: joined(x, m, False),
        f32(B, 2, 3),
        flags(B, 1, 3),
        left="shape fill logical_and select_v2",
    ),
    case(
        "shape-of-ones",
        lambda x, m: ops.select_v2(ops.logical_and(ops.fill(ops.shape(x), np.True_), m), np.float32(1), np.float32(2)),
        f32(B, 2, 3),
        flags(1, 3),
        left="shape fill logical_and select_v2",
    ),
]


def read_by_both(x: Any, **options: Any) -> Any:
    return dense(x, WEIGHTS, **options), dense(x, OTHERS, **options)


TWO = "fully_connected fully_connected"
SHARED = [
    case("scale-of-two", lambda x: read_by_both(ops.mul(x, VECTOR)), f32(B, T, 4), left=TWO),
    case("norm-of-two", lambda x: read_by_both(ops.add(ops.mul(x, VECTOR), VECTOR)), f32(B, 4), left=TWO),
    case("scale-and-a-result", lambda x: (y := ops.mul(x, VECTOR), *read_by_both(y)), f32(B, 4), left=f"mul {TWO}"),
    case(
        "scale-and-another-reader",
        lambda x: (ops.tanh(y := ops.mul(x, VECTOR)), *read_by_both(y)),
        f32(B, 4),
        left=f"mul tanh {TWO}",
    ),
    case(
        "relu-of-two",
        lambda x: read_by_both(ops.mul(x, VECTOR, fused_activation_function="RELU")),
        f32(B, 4),
        left=f"mul {TWO}",
    ),
    case(
        "weights-of-two",
        lambda x: (dense(y := ops.mul(x, VECTOR)), ops.tanh(dense(ops.abs_(x))), dense(y, OTHERS)),
        f32(B, 4),
        left="mul fully_connected abs fully_connected tanh fully_connected",
    ),
    case("rows", lambda x: read_by_both(ops.mul(x, floats(5, 1))), f32(B, 5, 4), left=f"mul {TWO}"),
]


@pytest.mark.parametrize("item", [*HEADS, *SCALES, *TRANSPOSED, *BATCHES, *MASKS, *SHARED])
def test_merge(item: Case) -> None:
    check(item, rtol=1e-5)  # factors rounded into weights, products of two of them
