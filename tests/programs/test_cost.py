"""What programs cost: products by their formulas, bytes, memory and measured time."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jfuse
from jfuse import ir, ops
from jfuse.programs.cost import arena_bytes

RNG = np.random.default_rng(0)


def weights(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def model_of(function: Any, *shapes: Any) -> jfuse.Model:
    types = [ir.TensorType(shape, ir.DType.f32) for shape in shapes]
    return jfuse.load(ir.trace_graph(function, types))


WINDOW = {"stride_h": 1, "stride_w": 1, "dilation_h_factor": 1, "dilation_w_factor": 1}


@pytest.mark.parametrize(
    ("function", "shapes", "macs"),
    [
        (lambda x: ops.fully_connected(x, weights(5, 8), None), [(3, 8)], 3 * 8 * 5),
        (lambda x, y: ops.batch_matmul(x, y), [(2, 3, 4), (2, 4, 5)], 2 * 3 * 4 * 5),
        (
            lambda x: ops.conv_2d(x, weights(7, 3, 2, 4), None, padding="SAME", **WINDOW),
            [(2, 6, 5, 4)],
            2 * 6 * 5 * 7 * 3 * 2 * 4,
        ),
        (
            lambda x: ops.depthwise_conv_2d(
                x, weights(1, 3, 3, 8), None, padding="VALID", depth_multiplier=2, **WINDOW
            ),
            [(1, 6, 6, 4)],
            4 * 4 * 8 * 3 * 3,
        ),
        (lambda x: ops.mul(ops.add(x, x), x), [(4, 4)], 0),
    ],
    ids=["dense", "matmul", "conv", "depthwise", "elements"],
)
def test_products_follow_the_formula(function: Any, shapes: Any, macs: int) -> None:
    assert model_of(function, *shapes).cost().macs == macs


def lstm(x: Any) -> Any:
    w, u = weights(8, 64), weights(16, 64)

    def step(carry: Any, row: Any) -> Any:
        h, c = carry
        i, f, g, o = jnp.split(row @ w + h @ u, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zero = jnp.zeros((x.shape[1], 16))
    return jax.lax.scan(step, (zero, zero), x)[1]


def test_a_loop_and_the_operator_that_it_becomes_cost_the_same_products() -> None:
    source = jfuse.load(lstm, [jax.ShapeDtypeStruct((5, 2, 8), jnp.float32)])
    wanted = 5 * 2 * (8 * 64 + 16 * 64)
    lite = jfuse.lower(source)
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    assert source.cost().macs == lite.cost().macs == wanted


def test_open_sizes_are_given_or_one() -> None:
    model = model_of(lambda x: ops.fully_connected(x, weights(5, 8), None), (ir.symbol("B"), 8))
    assert (model.cost().macs, model.cost().sizes) == (40, {"B": 1})
    with pytest.raises(jfuse.JfuseError, match=r"no open size(.|\n)*'B'(.|\n)*'batch'"):
        model.cost(sizes={"batch": 6})
    cost = model.cost(sizes={"B": 6})
    assert (cost.macs, cost.operators[0].activation_bytes, cost.weight_bytes) == (240, 6 * 5 * 4, 160)


def test_totals_by_type_and_sorting() -> None:
    shared = weights(8, 8)

    def two(x: Any) -> Any:
        return ops.tanh(ops.fully_connected(ops.fully_connected(x, shared, None), shared, None))

    cost = model_of(two, (3, 8)).cost()
    assert cost.weight_bytes == 8 * 8 * 4  # stored once
    assert [(row.op, row.count, row.macs) for row in cost.by_type()] == [("FULLY_CONNECTED", 2, 384), ("TANH", 1, 0)]
    assert [row.op for row in cost.sorted("graph")][-1] == "TANH"
    assert cost.to_json()["macs"] == 384
    with pytest.raises(jfuse.JfuseError, match="by"):
        cost.sorted("name")  # type: ignore[arg-type]


def test_operators_are_measured() -> None:
    cost = jfuse.lower(model_of(lambda x: ops.tanh(ops.fully_connected(x, weights(64, 64), None)), (8, 64))).cost(
        measure=True
    )
    assert [row.us is not None and row.us > 0 for row in cost.operators] == [True] * len(cost.operators)
    assert cost.us is not None
    assert "us" in str(cost)


def test_the_arena_holds_what_lives_at_once() -> None:
    def chain(x: Any) -> Any:
        return ops.neg(ops.tanh(ops.neg(x)))

    (graph,) = model_of(chain, (64,)).program.graphs()
    sizes = {v: 256 for v in (*graph.inputs, *(o for e in graph.eqns for o in e.outputs))}
    # The input stays; of the three results two live at once.
    assert arena_bytes(graph, sizes) == 3 * 256
    wide = model_of(lambda x: ops.add(ops.add(ops.neg(x), ops.tanh(x)), ops.exp(x)), (64,))
    assert wide.cost().arena_bytes == 4 * 256
