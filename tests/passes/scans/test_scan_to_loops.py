"""Scans as WHILE: against a loop over the same step written in NumPy, on XLA and in LiteRT over several invokes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import is_known, symbol
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Const, Graph, Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import all_eqns
from jfuse.kernels import ops
from jfuse.kernels.array.lists import reserve
from jfuse.lowering.rule_tools.shape_tensors import size_of
from jfuse.passes.context import Context
from jfuse.passes.fuse.run_time_shapes import with_run_time_shape
from jfuse.passes.options import Forms
from jfuse.passes.pipeline import SUB_PASSES
from jfuse.passes.scans.to_loops.loop_cost import LoopSpelling
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops
from jfuse.passes.simplify.simplify import simplify
from jfuse.running.interpreter import LiteRt
from jfuse.running.runner import Runner
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.conftest import Golden

B, T = symbol("B"), symbol("T")
WIDTH = 20  # rows of more than 64 bytes: the runtime aligns buffers to that
SIZES = ({"T": 4, "B": 3}, {"T": 9, "B": 1}, {"T": 1, "B": 30}, {"T": 4, "B": 3})
WEIGHTS = np.random.default_rng(0).standard_normal((WIDTH, WIDTH)).astype(np.float32) / 4
BIAS = np.random.default_rng(1).standard_normal(WIDTH).astype(np.float32)


def f32(*shape: Any) -> TensorType:
    return TensorType(shape, DType.f32)


@dataclass(frozen=True)
class Loop:
    """A scan over x[T, B, WIDTH] from states h and g [B, WIDTH]: its step in ops, and the same step in NumPy.

    Both take (h, g, x) and give (new h, new g, *rows of the stacked results).
    """

    step: Callable[..., Any]
    written: Callable[..., Any]


LOOPS = {
    "rnn": Loop(
        lambda h, g, x: (ops.tanh(ops.add(ops.fully_connected(h, WEIGHTS, BIAS), x)), ops.add(g, x), ops.mul(h, x)),
        lambda h, g, x: (np.tanh(h @ WEIGHTS.T + BIAS + x), g + x, h * x),
    ),
    "swapped-carries": Loop(lambda h, g, x: (ops.sub(g, x), h, h, g), lambda h, g, x: (g - x, h, h, g)),
    "equal-results": Loop(
        lambda h, g, x: ((n := ops.sub(ops.exp(ops.neg(ops.abs_(h))), x)), n, n, n, x),
        lambda h, g, x: ((n := np.exp(-np.abs(h)) - x), n, n, n, x),
    ),
    "unchanged-carry": Loop(lambda h, g, x: (h, ops.sub(h, g), g), lambda h, g, x: (h, h - g, g)),
    "no-rows": Loop(lambda h, g, x: (ops.sub(x, h), ops.maximum(g, x)), lambda h, g, x: (x - h, np.maximum(g, x))),
    "scalar-and-constant-rows": Loop(
        lambda h, g, x: (g, h, ops.reduce_max(x, np.array([0, 1], np.int32)), BIAS, ops.expand_dims(h, 1)),
        lambda h, g, x: (g, h, np.max(x), BIAS, h[:, None]),
    ),
}


def graph_of(loop: Loop, length: Any, batch: Any, reverse: bool) -> Graph:
    state = f32(batch, WIDTH)
    body = trace_graph(loop.step, [state] * 3, "step")

    def function(x: Any, h: Any, g: Any) -> Any:
        return ops.scan([h, g, x], [body], consts=0, carries=2, length=x.shape[0], reverse=reverse)

    return trace_graph(function, [f32(length, batch, WIDTH), state, state])


def written(loop: Loop, args: Sequence[np.ndarray], reverse: bool) -> list[np.ndarray]:
    """The results by a loop over the step in NumPy."""
    x, h, g = args
    stacked = []
    for row in x[::-1] if reverse else x:
        h, g, *rows = loop.written(h, g, row)
        stacked.append(rows)
    columns = [np.stack(column) for column in zip(*stacked, strict=True)]
    return [h, g, *(column[::-1] if reverse else column for column in columns)]


def arguments(graph: Graph, sizes: dict[str, int], seed: int) -> list[np.ndarray]:
    rng = np.random.default_rng(seed)
    shapes = [[sizes.get(str(d), d) for d in var.type.shape] for var in graph.inputs]
    return [rng.standard_normal(shape).astype(np.float32) for shape in shapes]


def expect(found: Sequence[Any], wanted: Sequence[Any]) -> None:
    for f, w in zip(found, wanted, strict=True):
        # 1e-5: up to nine steps of products of 20 f32 terms
        np.testing.assert_allclose(np.asarray(f), w, rtol=1e-5, atol=1e-5)


def unlooped(graph: Graph, form: LoopSpelling | None = None) -> Graph:
    flat = (
        scan_to_loops(graph, Context(sub=SUB_PASSES))
        if form is None
        else scan_to_loops(graph, Context(sub=SUB_PASSES), lambda size, room: form)
    )
    check_graph(flat)
    assert not {"scan", "reserve"} & {eqn.op.name for eqn in all_eqns(flat)}
    return flat


def file_of(graph: Graph, form: LoopSpelling | None = None) -> bytes:
    ready = prepare_outputs(simplify(unlooped(graph, form), Context(sub=SUB_PASSES)))
    names = tuple(f"x{i}" for i in range(len(graph.inputs))), tuple(f"y{i}" for i in range(len(graph.outputs)))
    return to_bytes(Program((Signature("main", ready, *names),)))


def run(runtime: LiteRt, args: Sequence[np.ndarray]) -> list[np.ndarray]:
    results = runtime.run("main", {f"x{i}": a for i, a in enumerate(args)})
    return [results[f"y{i}"] for i in range(len(results))]


ONE_STEP, THREE_STEPS, UNROLLED = LoopSpelling(), LoopSpelling(steps=3), LoopSpelling(unrolled=True)
BLOCKS, BLOCKS_OF_TURNS = LoopSpelling(block=3), LoopSpelling(steps=2, block=4)

every_loop = pytest.mark.parametrize("loop", LOOPS.values(), ids=LOOPS)
every_direction = pytest.mark.parametrize(
    "reverse", [pytest.param(False, id="forward"), pytest.param(True, id="reverse", marks=pytest.mark.slow)]
)
every_while = pytest.mark.parametrize(
    "form", [ONE_STEP, THREE_STEPS, BLOCKS, BLOCKS_OF_TURNS], ids=["one", "three", "blocks", "blocks-of-turns"]
)
every_size = pytest.mark.parametrize(
    ("length", "batch"),
    [(4, 3), (4, B), (T, 3), (T, B), (1, 1)],
    ids=["fixed", "open-batch", "open-time", "open", "ones"],
)


@every_loop
@every_direction
@pytest.mark.parametrize("form", [None, BLOCKS_OF_TURNS], ids=["auto", "blocks-of-turns"])
@pytest.mark.parametrize(("length", "batch"), [(4, 3), (T, B)], ids=["fixed", "open"])
def test_scan_on_xla(loop: Loop, length: Any, batch: Any, reverse: bool, form: LoopSpelling | None) -> None:
    graph = graph_of(loop, length, batch, reverse)
    args = arguments(graph, SIZES[0], 5)
    flat = unlooped(graph, form)
    expect(Runner(flat, quick=True)(args), written(loop, args, reverse))


@every_loop
@every_direction
@every_size
def test_scan_in_litert(loop: Loop, length: Any, batch: Any, reverse: bool) -> None:
    expect_in_litert(loop, graph_of(loop, length, batch, reverse), reverse)


@pytest.mark.parametrize(
    "loop",
    [
        pytest.param(loop, id=name, marks=() if name in ("rnn", "scalar-and-constant-rows") else pytest.mark.slow)
        for name, loop in LOOPS.items()
    ],
)
@every_direction
@every_while
@pytest.mark.parametrize(("length", "batch"), [(11, 3), (T, B)], ids=["fixed", "open"])
def test_forms_in_litert(loop: Loop, length: Any, batch: Any, reverse: bool, form: LoopSpelling) -> None:
    expect_in_litert(loop, graph_of(loop, length, batch, reverse), reverse, form)


@every_loop
@every_direction
@pytest.mark.parametrize(
    ("length", "batch", "form"),
    [(2, 1, THREE_STEPS), (2, 1, BLOCKS), (6, B, BLOCKS), (5, B, UNROLLED), (1, 3, UNROLLED)],
    ids=["two-three", "two-blocks", "whole-blocks", "unrolled", "one-unrolled"],
)
def test_known_lengths_in_litert(loop: Loop, length: Any, batch: Any, reverse: bool, form: LoopSpelling) -> None:
    expect_in_litert(loop, graph_of(loop, length, batch, reverse), reverse, form)


def expect_in_litert(loop: Loop, graph: Graph, reverse: bool, form: LoopSpelling | None = None) -> None:
    data = file_of(graph, form)
    for delegates in (True, False):
        runtime = LiteRt(data, delegates=delegates)
        for seed, sizes in enumerate(SIZES):
            args = arguments(graph, sizes, seed)
            expect(run(runtime, args), written(loop, args, reverse))


@every_direction
def test_scan_is_lax_scan(reverse: bool) -> None:
    graph = graph_of(LOOPS["rnn"], T, B, reverse)
    x, h, g = arguments(graph, SIZES[0], 5)

    def step(carry: Any, row: Any) -> Any:
        h, g = carry
        return (jnp.tanh(h @ WEIGHTS.T + BIAS + row), g + row), (h * row,)

    finals, stacked = jax.lax.scan(step, (h, g), x, reverse=reverse)
    expect(Runner(unlooped(graph), quick=True)([x, h, g]), [*finals, *stacked])


@every_direction
@every_while
@pytest.mark.parametrize("batch", [3, B], ids=["fixed", "open-batch"])
def test_no_step_at_all(reverse: bool, form: LoopSpelling, batch: Any) -> None:
    loop = LOOPS["rnn"]
    for length in (0, T):
        graph = graph_of(loop, length, batch, reverse)
        x, h, g = arguments(graph, {"T": 0, "B": 3}, 1)
        wanted = [h, g, np.zeros((0, 3, WIDTH), np.float32)]
        expect(evaluate(unlooped(graph, form), [x, h, g]), wanted)
        runtime = LiteRt(file_of(graph, form))
        expect(run(runtime, [x, h, g]), wanted)
        if length is T:  # and then steps again
            args = arguments(graph, {"T": 6, "B": 2}, 1)
            expect(run(runtime, args), written(loop, args, reverse))


def test_while_of_a_small_scan(golden: Golden) -> None:
    body = trace_graph(lambda w, h, x: (n := ops.add(ops.mul(h, w), x), n), [f32(2)] * 3, "step")

    def function(h: Any, x: Any) -> Any:
        weights = np.array([0.5, 2], np.float32)
        return ops.scan([weights, h, x], [body], consts=1, carries=1, length=x.shape[0], reverse=True)

    golden.check(unlooped(trace_graph(function, [f32(2), f32(T, 2)]), ONE_STEP))


def nested(x: Any, h: Any) -> Any:
    """For each row of x in reverse, a scan over its rows; in a branch."""
    inner = trace_graph(lambda h, x: (ops.add(h, ops.tanh(x)), ops.mul(h, x)), [f32(WIDTH)] * 2, "inner")

    def outer_step(h: Any, rows: Any) -> Any:
        return ops.scan([h, rows], [inner], consts=0, carries=1, length=rows.shape[0], reverse=False)

    outer = trace_graph(outer_step, [f32(WIDTH), f32(B, WIDTH)], "outer")

    def loop(x: Any, h: Any) -> Any:
        return ops.scan([h, x], [outer], consts=0, carries=1, length=x.shape[0], reverse=True)

    types = [f32(T, B, WIDTH), f32(WIDTH)]
    then, other = trace_graph(loop, types, "then"), trace_graph(lambda x, h: (ops.neg(h), ops.exp(x)), types, "else")
    positive = ops.greater(ops.reduce_max(h, np.array([0], np.int32)), np.float32(0))
    return ops.if_([positive, x, h], [then, other])


def nested_written(x: np.ndarray, h: np.ndarray) -> list[np.ndarray]:
    if h.max() <= 0:
        return [-h, np.exp(x)]
    stacked = np.zeros_like(x)
    for t in reversed(range(x.shape[0])):
        for b in range(x.shape[1]):
            stacked[t, b] = h * x[t, b]
            h = h + np.tanh(x[t, b])
    return [h, stacked]


def test_scans_in_bodies() -> None:
    graph = trace_graph(nested, [f32(T, B, WIDTH), f32(WIDTH)])
    on_xla = Runner(unlooped(graph), quick=True)
    runtimes = [LiteRt(file_of(graph), delegates=d) for d in (True, False)]
    for seed, sizes in enumerate(SIZES):
        for sign in (1, -1):
            x, h = arguments(graph, sizes, seed)
            h = sign * np.abs(h)
            wanted = nested_written(x, h)
            expect(on_xla([x, h]), wanted)
            for runtime in runtimes:
                expect(run(runtime, [x, h]), wanted)


def test_constants_are_bound_in_the_body() -> None:
    body = trace_graph(
        lambda w, h, x: ops.add(ops.fully_connected(h, w), x), [f32(WIDTH, WIDTH), *[f32(1, WIDTH)] * 2], "step"
    )
    rows = np.random.default_rng(3).standard_normal((5, 1, WIDTH)).astype(np.float32)

    def function(h: Any) -> Any:
        return ops.scan([WEIGHTS, h, rows], [body], consts=1, carries=1, length=5, reverse=False)

    (loop,) = unlooped(trace_graph(function, [f32(1, WIDTH)]), ONE_STEP).eqns
    assert len(loop.inputs) == 2  # the counter and h
    arrays = {id(a.array) for e in loop.bodies[1].eqns for a in e.inputs if isinstance(a, Const)}
    assert {id(WEIGHTS), id(rows)} <= arrays


def test_steps_share_one_read_of_an_operand_given_twice() -> None:
    body = trace_graph(lambda h, x, y: ops.add(h, ops.mul(x, y)), [f32(2)] * 3, "step")
    graph = trace_graph(
        lambda h, x: ops.scan([h, x, x], [body], consts=0, carries=1, length=3, reverse=False), [f32(2), f32(3, 2)]
    )
    loop = unlooped(graph, ONE_STEP).eqns[-1]
    assert len(loop.inputs) == 3  # the counter, h and x once


def plain_loop(length: Any) -> Graph:
    body = trace_graph(
        lambda h, x: (n := ops.tanh(ops.add(ops.fully_connected(h, WEIGHTS, BIAS), x)), n), [f32(3, WIDTH)] * 2, "step"
    )
    return trace_graph(
        lambda x, h: ops.scan([h, x], [body], consts=0, carries=1, length=length, reverse=False),
        [f32(length, 3, WIDTH), f32(3, WIDTH)],
    )


def ops_of(graph: Graph) -> set[str]:
    return {eqn.op.name for eqn in all_eqns(graph)}


@pytest.mark.parametrize(("option", "is_loop"), [("auto", False), ("while", True), ("unroll", False)])
def test_the_form_that_the_user_asks_for(option: Any, is_loop: bool) -> None:
    ctx = Context(forms=Forms(loop=option), sub=SUB_PASSES)
    flat = scan_to_loops(plain_loop(6), ctx)
    assert ("while" in ops_of(flat)) is is_loop
    (found,) = ctx.report.loops
    assert found.size == "6 steps of 3 operators and 1600 bytes of weights"
    assert ("WHILE" in found.form) is is_loop


@pytest.mark.parametrize("option", ["auto", "while", "unroll"])
def test_one_step_is_no_loop(option: Any) -> None:
    assert "while" not in ops_of(scan_to_loops(plain_loop(1), Context(forms=Forms(loop=option), sub=SUB_PASSES)))


def test_a_loop_of_open_length_cannot_be_unrolled() -> None:
    with pytest.raises(
        LowerError, match=r"cannot be unrolled(.|\n)*T steps, known only at run time(.|\n)*loop=\"auto\""
    ):
        scan_to_loops(plain_loop(T), Context(forms=Forms(loop="unroll"), sub=SUB_PASSES))


def test_steps_share_the_loop_inside_them() -> None:
    inner = trace_graph(lambda h, x: ops.sub(x, h), [f32(WIDTH)] * 2, "inner")

    def outer_step(h: Any, rows: Any) -> Any:
        return ops.scan([h, rows], [inner], consts=0, carries=1, length=rows.shape[0], reverse=False)

    outer = trace_graph(outer_step, [f32(WIDTH), f32(T, WIDTH)], "outer")
    graph = trace_graph(
        lambda h, x: ops.scan([h, x], [outer], consts=0, carries=1, length=3, reverse=False),
        [f32(WIDTH), f32(3, T, WIDTH)],
    )
    flat = scan_to_loops(
        graph, Context(sub=SUB_PASSES), lambda size, room: LoopSpelling(unrolled=is_known(size.length))
    )
    loops = [eqn for eqn in flat.eqns if eqn.op.name == "while"]
    assert len(loops) == 3
    assert len({id(eqn.bodies[1]) for eqn in loops}) == 1


@every_while
def test_a_loop_of_open_sizes_leaves_no_shape_to_run_time(form: LoopSpelling) -> None:
    body = trace_graph(LOOPS["rnn"].step, [f32(B, WIDTH)] * 3, "step")

    def function(x: Any) -> Any:
        state = ops.fill(ops.pack(size_of(x, 1), np.int32(WIDTH)), np.float32(0.5))
        return ops.scan([state, state, x], [body], consts=0, carries=2, length=T, reverse=False)

    graph = trace_graph(function, [f32(T, B, WIDTH)])
    ready = simplify(unlooped(graph, form), Context(sub=SUB_PASSES))
    assert not list(with_run_time_shape(ready))
    runtime = LiteRt(file_of(graph, form))
    for seed, sizes in enumerate(SIZES):
        (x,) = arguments(graph, sizes, seed)
        state = np.full(x.shape[1:], 0.5, np.float32)
        expect(run(runtime, [x]), written(LOOPS["rnn"], [x, state, state], False))


def test_reserve_of_a_computed_size_is_fill() -> None:
    graph = trace_graph(lambda x: ops.concatenation(x, x, reserve((B, 2 * T), DType.f32), axis=1), [f32(B, T)])
    assert "reserve" in [eqn.op.name for eqn in graph.eqns]
    flat = unlooped(graph)
    assert "fill" in [eqn.op.name for eqn in flat.eqns]
    (found,) = Runner(flat, quick=True)([np.ones((3, 2), np.float32)])
    np.testing.assert_array_equal(found, np.repeat([[1, 0]], 4, axis=1).repeat(3, axis=0))


def test_reserve_of_a_size_that_no_tensor_has() -> None:
    graph = trace_graph(lambda x: (x, reserve((T,), DType.f32)), [f32(B)])
    with pytest.raises(LowerError, match="the size T is needed at run time, and no tensor at hand has it"):
        scan_to_loops(graph, Context(sub=SUB_PASSES))


def test_a_graph_without_loops_is_returned_as_it_is() -> None:
    graph = trace_graph(lambda x: ops.exp(x), [f32(B)])
    assert scan_to_loops(graph, Context(sub=SUB_PASSES)) is graph
