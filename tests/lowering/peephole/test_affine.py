"""Scales and shifts by constants: into which weights they go, and where they must stay."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.simplify.simplify import simplify
from jfuse.quantization.recipe import QuantizeRule, Recipe
from tests.lowering.peephole.rewriting import B, Case, case, check, f32, floats, ints
from tests.memory import mapped_copy, of_files_mib

KERNEL, BIAS = floats(6, 3, 3, 4), floats(6)
DENSE = floats(6, 4)
DEPTHWISE = floats(1, 3, 3, 8)
SCALE, SHIFT = floats(6) + 3, floats(6) / 2
IN_SCALE, IN_SHIFT = floats(4) + 3, floats(4) / 2


def convolved(
    x: Any, padding: str = "VALID", stride: int = 1, kernel: Any = KERNEL, bias: Any = BIAS, **options: Any
) -> Any:
    return ops.conv_2d(x, kernel, bias, padding=padding, stride_w=stride, stride_h=stride, **options)


def depthwise(x: Any, padding: str = "VALID") -> Any:
    """Two channels for each of four."""
    return ops.depthwise_conv_2d(x, DEPTHWISE, floats(8), padding=padding, stride_w=1, stride_h=1, depth_multiplier=2)


def dense(x: Any, **options: Any) -> Any:
    return ops.fully_connected(x, DENSE, BIAS, **options)


def upwards(x: Any) -> Any:
    return ops.transpose_conv(ints(2, 12, 12, 6), KERNEL, x, BIAS, padding="SAME", stride_w=2, stride_h=2)


def cubes(x: Any, padding: str = "VALID") -> Any:
    return ops.conv_3d(x, floats(2, 2, 2, 4, 6), BIAS, padding=padding, stride_d=1, stride_w=1, stride_h=1)


def batch_norm(x: Any, scale: Any = SCALE, shift: Any = SHIFT, **options: Any) -> Any:
    return ops.add(ops.mul(x, scale), shift, **options)


IMAGE, CUBE = f32(B, 6, 6, 4), f32(B, 4, 4, 4, 4)

AFTER = [
    case("batch-norm", lambda x: batch_norm(convolved(x)), IMAGE, left="conv_2d"),
    case("batch-norm-same", lambda x: batch_norm(convolved(x, "SAME", 2)), IMAGE, left="conv_2d"),
    case("batch-norm-relu", lambda x: ops.relu(batch_norm(convolved(x))), IMAGE, left="conv_2d"),
    case("batch-norm-dense", lambda x: batch_norm(dense(x)), f32(B, 4), left="fully_connected"),
    case("batch-norm-rows", lambda x: batch_norm(dense(x, keep_num_dims=True)), f32(B, 5, 4), left="fully_connected"),
    case(
        "batch-norm-depthwise",
        lambda x: batch_norm(depthwise(x), floats(8), floats(8)),
        IMAGE,
        left="depthwise_conv_2d",
    ),
    case("batch-norm-transposed", lambda x: batch_norm(upwards(x)), f32(2, 6, 6, 4), left="transpose_conv"),
    case("batch-norm-cubes", lambda x: batch_norm(cubes(x)), CUBE, left="conv_3d"),
    case("scalar", lambda x: ops.mul(np.float32(3), convolved(x)), IMAGE, left="conv_2d"),
    case("divided", lambda x: ops.div(convolved(x), SCALE), IMAGE, left="conv_2d"),
    case("negated", lambda x: ops.neg(convolved(x)), IMAGE, left="conv_2d"),
    case("subtracted-from", lambda x: ops.sub(SHIFT, convolved(x)), IMAGE, left="conv_2d"),
    case("relu-then-positive", lambda x: ops.mul(ops.relu(convolved(x)), SCALE), IMAGE, left="conv_2d"),
    case(
        "scalar-behind-reshape-and-transpose",
        lambda x: ops.mul(ops.reshape(dense(x), ints(-1, 2, 3)), np.float32(0.125)),
        f32(B, 4),
        left="fully_connected reshape",
    ),
    case(
        "vector-behind-transpose-that-keeps-the-last-axis",
        lambda x: ops.mul(ops.transpose(convolved(x), ints(0, 2, 1, 3)), SCALE),
        IMAGE,
        left="conv_2d transpose",
    ),
    case("divided-by-0", lambda x: ops.div(convolved(x), np.zeros(6, np.float32)), IMAGE, left="conv_2d div"),
    case("divides", lambda x: ops.div(np.float32(3), convolved(x)), IMAGE, left="conv_2d div"),
    case("relu-then-any-sign", lambda x: ops.mul(ops.relu(convolved(x)), -SCALE), IMAGE, left="conv_2d mul"),
    case("relu-then-shift", lambda x: ops.add(ops.relu(convolved(x)), SHIFT), IMAGE, left="conv_2d add"),
    case("relu6-then-positive", lambda x: ops.mul(ops.relu6(convolved(x)), SCALE), IMAGE, left="conv_2d mul"),
    case("along-height", lambda x: ops.mul(convolved(x), floats(4, 1, 1)), IMAGE, left="conv_2d mul"),
    case("second-reader", lambda x: (y := convolved(x), ops.mul(y, SCALE)), IMAGE, left="conv_2d mul"),
    case("by-input", lambda x, y: ops.mul(convolved(x), y), IMAGE, f32(6), left="conv_2d mul"),
    case(
        "weights-are-input",
        lambda x, w: ops.mul(convolved(x, kernel=w), SCALE),
        IMAGE,
        f32(6, 3, 3, 4),
        left="conv_2d mul",
    ),
    case(
        "vector-behind-reshape-of-the-last-axis",
        lambda x: ops.mul(ops.reshape(dense(x), ints(-1, 4)), floats(4)),
        f32(2, 4),
        left="fully_connected reshape mul",
    ),
    case(
        "weights-read-twice",
        lambda x, y: (ops.mul(dense(x), SCALE), dense(y)),
        f32(B, 4),
        f32(B, 4),
        left="fully_connected mul fully_connected",
    ),
]

BEFORE = [
    case("scaled", lambda x: convolved(ops.mul(x, IN_SCALE)), IMAGE, left="conv_2d"),
    case("scaled-same", lambda x: convolved(ops.mul(x, IN_SCALE), "SAME"), IMAGE, left="conv_2d"),
    case("divided-by-255", lambda x: convolved(ops.div(x, np.float32(255)), "SAME"), IMAGE, left="conv_2d"),
    case("shifted", lambda x: convolved(ops.sub(x, IN_SHIFT)), IMAGE, left="conv_2d"),
    case("batch-norm", lambda x: convolved(batch_norm(x, IN_SCALE, IN_SHIFT)), IMAGE, left="conv_2d"),
    case(
        "batch-norm-same-pixel",
        lambda x: convolved(batch_norm(x, IN_SCALE, IN_SHIFT), "SAME", kernel=KERNEL[:, :1, :1]),
        IMAGE,
        left="conv_2d",
    ),
    case(
        "same-that-pads-nothing",
        lambda x: convolved(batch_norm(x, IN_SCALE, IN_SHIFT), "SAME", 3),
        IMAGE,
        left="conv_2d",
    ),
    case(
        "batch-norm-depthwise", lambda x: depthwise(batch_norm(x, IN_SCALE, IN_SHIFT)), IMAGE, left="depthwise_conv_2d"
    ),
    case("batch-norm-dense", lambda x: dense(batch_norm(x, IN_SCALE, IN_SHIFT)), f32(B, 4), left="fully_connected"),
    case("batch-norm-cubes", lambda x: cubes(batch_norm(x, IN_SCALE, IN_SHIFT)), CUBE, left="conv_3d"),
    case("scaled-transposed", lambda x: upwards(ops.mul(x, IN_SCALE)), f32(2, 6, 6, 4), left="transpose_conv"),
    case("groups", lambda x: convolved(ops.mul(x, floats(8) + 3)), f32(B, 6, 6, 8), left="conv_2d"),
    case(
        "flattened",
        lambda x: ops.fully_connected(ops.reshape(batch_norm(x, IN_SCALE, IN_SHIFT), ints(-1, 12)), floats(6, 12)),
        f32(B, 3, 4),
        left="fully_connected",
    ),
    case(
        "scaled-then-padded",
        lambda x: convolved(ops.pad(ops.mul(x, IN_SCALE), ints(0, 0, 2, 1, 0, 3, 0, 0).reshape(4, 2))),
        IMAGE,
        left="pad conv_2d",
    ),
    case(
        "a-factor-of-the-gate",
        lambda x, y: convolved(ops.mul(x, ops.mul(ops.relu6(y), np.float32(1 / 6)))),
        IMAGE,
        f32(B, 1, 1, 4),
        left="relu6 mul conv_2d",
    ),
    case("shifted-same", lambda x: convolved(ops.add(x, IN_SHIFT), "SAME"), IMAGE, left="add conv_2d"),
    case(
        "batch-norm-same",
        lambda x: convolved(batch_norm(x, IN_SCALE, IN_SHIFT), "SAME"),
        IMAGE,
        left="depthwise_conv_2d conv_2d",
    ),
    case("shifted-transposed", lambda x: upwards(ops.add(x, IN_SHIFT)), f32(2, 6, 6, 4), left="add transpose_conv"),
    case("shifted-far", lambda x: convolved(ops.add(x, np.float32(1000))), IMAGE, left="add conv_2d"),
    case("activated", lambda x: convolved(ops.relu(ops.mul(x, IN_SCALE))), IMAGE, left="mul conv_2d"),
    case("second-reader", lambda x: (y := ops.mul(x, IN_SCALE), convolved(y)), IMAGE, left="mul conv_2d"),
    case("along-height", lambda x: convolved(ops.mul(x, floats(6, 1, 1))), IMAGE, left="mul conv_2d"),
    case("broadcast", lambda x: convolved(ops.mul(x, IN_SCALE)), f32(B, 6, 6, 1), left="mul conv_2d"),
]

CHAIN = [
    case("two-factors", lambda x: ops.mul(ops.mul(x, IN_SCALE), np.float32(0.5)), f32(B, 4), left="mul"),
    case("batch-norm-of-images", lambda x: batch_norm(x, IN_SCALE, IN_SHIFT), IMAGE, left="depthwise_conv_2d"),
    case(
        "normalized-images",
        lambda x: ops.div(ops.sub(x, IN_SHIFT), IN_SCALE, fused_activation_function="RELU"),
        IMAGE,
        left="depthwise_conv_2d",
    ),
    case(
        "two-batch-norms",
        lambda x: batch_norm(batch_norm(x, IN_SCALE, IN_SHIFT), IN_SCALE, IN_SHIFT),
        IMAGE,
        left="depthwise_conv_2d",
    ),
    case("scalars", lambda x: batch_norm(x, np.float32(3), np.float32(2)), IMAGE, left="mul add"),
    case("rows", lambda x: batch_norm(x, IN_SCALE, IN_SHIFT), f32(B, 4), left="mul add"),
    case("open-channels", lambda x: batch_norm(x, IN_SCALE[:1], IN_SHIFT[:1]), f32(2, 3, 3, B), left="mul add"),
    case("two-shifts", lambda x: ops.sub(ops.add(x, np.float32(1e8)), np.float32(1e8)), f32(B, 4), left="add sub"),
    case(
        "shift-that-cancels",
        lambda x: ops.mul(ops.sub(x, np.full(4, 1000, np.float32)), IN_SCALE),
        IMAGE,
        left="sub mul",
    ),
    case("too-small", lambda x: ops.mul(ops.mul(x, np.float32(1e-30)), np.float32(1e-30)), f32(4), left="mul mul"),
    case(
        "before-a-comparison",
        lambda x: ops.less(ops.add(ops.div(ops.mul(x, np.float32(3)), np.float32(7)), np.float32(1)), np.float32(2)),
        f32(B, 4),
        left="mul div add less",
    ),
    case("before-floor", lambda x: ops.floor(ops.mul(ops.mul(x, IN_SCALE), IN_SCALE)), f32(B, 4), left="mul mul floor"),
    case("activated", lambda x: ops.mul(ops.relu(ops.mul(x, IN_SCALE)), IN_SCALE), f32(B, 4), left="mul mul"),
    case("second-reader", lambda x: (y := ops.mul(x, IN_SCALE), ops.mul(y, IN_SCALE)), f32(B, 4), left="mul mul"),
]


@pytest.mark.parametrize("item", AFTER)
def test_after_a_product(item: Case) -> None:
    check(item, rtol=1e-5)  # sums of 36 terms, each rounded once more


@pytest.mark.parametrize("item", BEFORE)
def test_before_a_product(item: Case) -> None:
    check(item, rtol=1e-5)


@pytest.mark.parametrize("item", CHAIN)
def test_chain(item: Case) -> None:
    check(item)


@pytest.mark.parametrize("dtype", [DType.i32, DType.f16])
def test_other_types_stay(dtype: DType) -> None:
    from jfuse.ir.types import TensorType

    two = np.array(2, dtype.numpy)
    function: Callable[[Any], Any] = lambda x: ops.mul(ops.mul(x, two), two)  # noqa: E731
    graph = simplify(trace_graph(function, [TensorType((4,), dtype)]), Context())
    assert [eqn.op.name for eqn in graph.eqns] == ["mul", "mul"]


def test_weights_of_a_mapped_file_leave_memory_when_they_are_scaled(tmp_path: Path) -> None:
    weights = mapped_copy(floats(1024, 4096), tmp_path / "weights")
    before = of_files_mib()
    scaled = trace_graph(lambda x: ops.mul(ops.fully_connected(x, weights, None), floats(1024)), [f32(B, 4096)])
    (eqn,) = simplify(scaled, Context()).eqns
    assert eqn.op is ops.fully_connected
    assert of_files_mib() < before + 4  # of 16


def _noise(weights: np.ndarray, factors: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The mean square that rounding to 8 bits adds to each channel, of terms of these mean squares.   f64[outputs]"""
    steps = np.abs(weights * factors).max(1, keepdims=True) / 127
    return np.asarray((steps**2 / 12 * sizes).sum(1))


@pytest.mark.parametrize("spread", [1.2, 1.6, 5.0, 1e6])
@pytest.mark.parametrize("is_recipe", [False, True])
def test_factors_that_cost_weights_in_few_bits_3_db_stay(spread: float, is_recipe: bool) -> None:
    """Of terms that are alike once they are multiplied: MUL stays where one channel gets twice the noise."""
    weights = floats(64, 24)
    factors = np.geomspace(1 / spread, spread, 24).astype(np.float32)
    graph = trace_graph(lambda x: ops.fully_connected(ops.mul(x, factors), weights, None), (f32(B, 24),))
    recipe = Recipe((QuantizeRule("dynamic"),)) if is_recipe else None
    left = [eqn.op for eqn in simplify(graph, Context(recipe=recipe)).eqns]
    grown = _noise(weights, factors, 1 / factors**2) / _noise(weights, np.ones(24), np.ones(24))
    assert (ops.mul in left) is (is_recipe and bool(grown.max() > 2))


def test_what_keeps_precision_moves_on() -> None:
    """Weights that stay float, channels by themselves, one factor for all, and the factors of a layer norm."""
    factors = np.geomspace(0.1, 10, 24).astype(np.float32)
    weights, kernel = floats(64, 24), floats(1, 3, 3, 24)
    gain = np.linspace(0.7, 1.4, 24, dtype=np.float32)

    def normed(x: Any) -> Any:
        size = ops.rsqrt(ops.mean(ops.mul(x, x), ints(-1), keep_dims=True))
        return ops.fully_connected(ops.mul(ops.mul(x, size), gain), weights, None)

    def by_channel(x: Any) -> Any:
        return ops.depthwise_conv_2d(
            ops.mul(x, factors), kernel, None, padding="VALID", stride_w=1, stride_h=1, depth_multiplier=1
        )

    few = QuantizeRule("dynamic", min_elements=0)
    rows: list[tuple[Any, Any, QuantizeRule, int]] = [
        (lambda x: ops.fully_connected(ops.mul(x, factors), weights, None), f32(B, 24), QuantizeRule("float16"), 0),
        (
            lambda x: ops.fully_connected(ops.mul(x, factors), floats(2, 24), None),
            f32(B, 24),
            QuantizeRule("dynamic"),
            0,
        ),
        (lambda x: ops.fully_connected(ops.mul(x, np.float32(1e-3)), weights, None), f32(B, 24), few, 0),
        (by_channel, f32(B, 8, 8, 24), few, 0),
        (normed, f32(B, 24), few, 1),  # by the size of the row
    ]
    for function, given, rule, count in rows:
        left = simplify(trace_graph(function, (given,)), Context(recipe=Recipe((rule,)))).eqns
        assert sum(eqn.op is ops.mul for eqn in left) == count


def test_shared_factors_stay_as_well() -> None:
    factors = np.geomspace(0.1, 10, 24).astype(np.float32)

    def function(x: Any) -> Any:
        y = ops.mul(x, factors)
        return ops.fully_connected(y, floats(64, 24), None), ops.fully_connected(y, floats(48, 24), None)

    graph = trace_graph(function, (f32(B, 24),))
    for recipe, count in ((None, 0), (Recipe((QuantizeRule("dynamic"),)), 1)):
        left = simplify(graph, Context(recipe=recipe)).eqns
        assert sum(eqn.op is ops.mul for eqn in left) == count
