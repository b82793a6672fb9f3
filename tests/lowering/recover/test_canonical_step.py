"""Loops whose states or step inputs have other ranks, in the form that recover rules read."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from jfuse.ir.check import check_graph
from jfuse.ir.graph import Graph
from jfuse.ir.trace import recording
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.composites.recurrent import fuse_lstm
from jfuse.lowering.recover.cells.canonical_step import normal_form
from jfuse.lowering.recover.cells.lstm import recover_lstm
from jfuse.lowering.rules import RuleSet
from jfuse.passes.context import Context
from jfuse.passes.fuse.fuse import fuse
from jfuse.passes.fuse.recover import recover
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.running.runner import Runner
from tests import cells
from tests.cells import BATCH, INPUTS, STEPS, UNITS, B, Loop, R, W, dense, f32, keras, update


def batch_free(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """States and inputs of one row are vectors."""
    products = [ops.reshape(dense(ops.expand_dims(v, 0), k), [-1]) for v, k in ((x, W), (h, R))]
    new_h, new_c = update(ops.split(0, ops.add(ops.add(*products), B), num_splits=4), c)
    return new_h, new_c, new_h


def axis_of_one(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    new_h, new_c, _ = keras(ops.squeeze(h, squeeze_dims=(1,)), ops.squeeze(c, squeeze_dims=(1,)), x)
    return ops.expand_dims(new_h, 1), ops.expand_dims(new_c, 1), ops.expand_dims(new_h, 1)


def image_rows(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    return keras(h, c, ops.reshape(x, [-1, INPUTS]))


def two_inputs(h: Array, c: Array, x: Array, other: Array) -> tuple[Array, ...]:
    z = ops.add(ops.add(dense(x, W), dense(other, cells.R[:2])), ops.add(dense(h, R), B))
    new_h, new_c = update(ops.split(1, z, num_splits=4), c)
    return new_h, new_c, new_h


def two_axes(h: Array, c: Array, x: Array) -> tuple[Array, ...]:
    """Rows along two axes."""
    new_h, new_c, _ = keras(*(ops.reshape(v, [6, v.shape[2]]) for v in (h, c, x)))
    return tuple(ops.reshape(v, [2, 3, UNITS]) for v in (new_h, new_c, new_h))


LOOPS = {
    "batch_free": Loop(batch_free, carries=[f32(UNITS)] * 2, xs=[f32(INPUTS)]),
    "axis_of_one": Loop(axis_of_one, carries=[f32(BATCH, 1, UNITS)] * 2),
    "image_rows": Loop(image_rows, xs=[f32(BATCH, 1, INPUTS)]),
    "image_columns": Loop(image_rows, xs=[f32(BATCH, INPUTS, 1)]),
    "two_inputs": Loop(two_inputs, xs=[f32(BATCH, INPUTS), f32(BATCH, 2)]),
    "two_axes": Loop(two_axes, carries=[f32(2, 3, UNITS)] * 2, xs=[f32(2, 3, INPUTS)]),
    "reversed": Loop(image_rows, xs=[f32(BATCH, 1, INPUTS)], reverse=True),
}


def draw(graph: Graph) -> list[np.ndarray]:
    """Inputs of 2 rows and 5 steps."""
    random = np.random.default_rng(3)
    sizes = {str(BATCH): 2, str(STEPS): 5}
    return [
        random.standard_normal([sizes.get(str(d), d) for d in v.type.shape]).astype(np.float32) for v in graph.inputs
    ]


@pytest.mark.parametrize("name", LOOPS)
def test_the_normal_form_is_fused_and_answers_like_the_loop(name: str) -> None:
    graph = LOOPS[name].graph()
    ctx = Context(rules=RuleSet().extended([recover_lstm, fuse_lstm]), sub=SUB_PASSES)
    result = fuse(recover(graph, ctx), ctx)
    check_graph(result, types=True)
    assert ctx.report.refused == []
    assert [e.op.name for e in result.eqns].count("unidirectional_sequence_lstm") == 1
    args = draw(graph)
    for found, wanted in zip(Runner(result, quick=True)(args), Runner(graph, quick=True)(args), strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-6)  # f32, 5 steps


UNCHANGED: dict[str, Loop] = {
    "plain": Loop(keras),
    "images": Loop(lambda h, x: (ops.add(h, x), h), carries=[f32(BATCH, 8, 8, 2)], xs=[f32(BATCH, 8, 8, 2)]),
    "integers": Loop(
        lambda h, x: (ops.add(h, x), h), carries=[TensorType((3,), DType.i32)], xs=[TensorType((3,), DType.i32)]
    ),
}


@pytest.mark.parametrize("name", UNCHANGED)
def test_what_needs_no_other_form_stays_as_it_is(name: str) -> None:
    eqn = UNCHANGED[name].eqn()
    with recording() as trace:
        normal, finish = normal_form(eqn)
    results: list[Any] = [*eqn.outputs]
    assert normal is eqn
    assert finish(results) == results
    assert trace.eqns == []
