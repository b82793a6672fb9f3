"""States of every fused recurrent op: right on every invoke and batch, with and without delegates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import rename_dims, with_float
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.states.placement import place_states, prepare_results, with_homes
from jfuse.running.runner import Runner
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.kernels.fused import rnn_oracle, test_svdf
from tests.kernels.fused.lstm_oracle import LSTM, RESOLVERS, written, written_step
from tests.kernels.fused.rnn_oracle import RNN
from tests.passes.states.test_state import (
    BATCHES,
    TOLERANCE,
    Arrays,
    B,
    Model,
    Runtime,
    error,
    file_of,
    filled,
    lowered,
)

Cell = tuple[Callable[..., Any], Callable[..., Arrays], tuple[Any, ...], tuple[int, ...]]
"""The op over (x, *states), the same by the equations, the shape of x (B is the batch), and the sizes of the states."""


def in_tensors(program: Program) -> set[str]:
    """The names of the states that the file keeps in tensors."""
    return {s.name for s in program.states() if s.home == "tensor"}


def lstm_step(cell: LSTM) -> Cell:
    shared = ("fused_activation_function", "cell_clip", "proj_clip")
    options = {name: cell.options[name] for name in shared}

    def build(x: Any, h: Any, c: Any) -> Any:
        return ops.lstm(*cell.in_file_order(x, h, c), **options)

    def reference(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> Arrays:
        h, c = written_step(cell, x, h, c, cell.operands)
        return h, h, c

    return build, reference, (B, cell.inputs), (cell.outputs, cell.units)


def rnn_step(cell: RNN) -> Cell:
    def build(x: Any, h: Any) -> Any:
        return ops.rnn(x, cell.w, cell.r, cell.b, h, fused_activation_function=cell.activation)

    def reference(x: np.ndarray, h: np.ndarray) -> Arrays:
        h = rnn_oracle.written_step(cell, x, h)
        return h, h

    return build, reference, (B, cell.inputs), (cell.units,)


def sequence_shape(cell: LSTM | RNN) -> tuple[Any, ...]:
    return (5, B, cell.inputs) if cell.time_major else (B, 5, cell.inputs)


def rnn_sequence(cell: RNN) -> Cell:
    def build(x: Any, h: Any) -> Any:
        return ops.unidirectional_sequence_rnn(
            x, cell.w, cell.r, cell.b, h, time_major=cell.time_major, fused_activation_function=cell.activation
        )

    return build, lambda x, h: rnn_oracle.written(cell, x, h), sequence_shape(cell), (cell.units,)


def rnn_pair(first: RNN, second: RNN, merged: bool = False) -> Cell:
    def build(x: Any, h: Any, g: Any) -> Any:
        weights = (first.w, first.r, first.b), (second.w, second.r, second.b)
        return ops.bidirectional_sequence_rnn(
            x, *weights[0], h, *weights[1], g, time_major=first.time_major, merge_outputs=merged
        )

    def reference(x: np.ndarray, h: np.ndarray, g: np.ndarray) -> Arrays:
        y, h = rnn_oracle.written(first, x, h)
        z, g = rnn_oracle.written(second, x, g, backwards=True)
        return (*((np.concatenate([y, z], -1),) if merged else (y, z)), h, g)

    return build, reference, sequence_shape(first), (first.units, second.units)


def lstm_pair(first: LSTM, second: LSTM, merged: bool = False) -> Cell:
    axis = 0 if first.time_major else 1

    def build(x: Any, *states: Any) -> Any:
        weights = [cell.in_file_order(None, None, None)[1:18] for cell in (first, second)]
        return ops.bidirectional_sequence_lstm(
            x, *weights[0], *weights[1], *states, time_major=first.time_major, merge_outputs=merged
        )

    def reference(x: np.ndarray, *states: np.ndarray) -> Arrays:
        y, *finals = written(first, x, *states[:2])
        z, *others = written(second, np.flip(x, axis), *states[2:])
        z = np.flip(z, axis)
        return (*((np.concatenate([y, z], -1),) if merged else (y, z)), *finals, *others)

    sizes = (first.outputs, first.units, second.outputs, second.units)
    return build, reference, sequence_shape(first), sizes


def svdf(case: test_svdf.S) -> Cell:
    return (
        lambda x, s: test_svdf.run(case, x, s),
        lambda x, s: tuple(
            np.concatenate(r) for r in zip(*(test_svdf.written(case, *row) for row in rows(x, s)), strict=True)
        ),
        (B, case.inputs),
        (case.units * case.rank * case.memory,),
    )


def rows(x: np.ndarray, s: np.ndarray) -> Any:
    """Each row of a batch by itself."""
    return [(x[i : i + 1], s[i : i + 1]) for i in range(len(x))]


def time_major_lstm(seed: int, **options: Any) -> LSTM:
    return LSTM(units=32, inputs=8, steps=5, seed=seed, time_major=True, **options)


def time_major_rnn(seed: int) -> RNN:
    return RNN(units=32, inputs=8, seed=seed, time_major=True)


CELLS = {
    "lstm": lstm_step(LSTM(units=32, inputs=8)),
    "lstm_projection": lstm_step(LSTM(units=32, inputs=8, width=17, peephole=True, norm=True)),
    "rnn": rnn_step(RNN(units=32, inputs=8)),
    "rnn_none": rnn_step(RNN(units=32, inputs=8, activation="NONE")),
    "rnn_1": rnn_step(RNN(units=1, inputs=1)),
    "rnn_sequence": rnn_sequence(RNN(units=32, inputs=8)),
    "rnn_sequence_time_major": rnn_sequence(RNN(units=32, inputs=8, time_major=True, activation="RELU")),
    "svdf": svdf(test_svdf.S(batch=1, units=16, memory=10, inputs=8)),
    "svdf_relu": svdf(test_svdf.S(batch=1, units=32, rank=1, memory=3, inputs=8, activation="RELU", bias=False)),
    "rnn_pair": rnn_pair(RNN(units=32, inputs=8, seed=1), RNN(units=48, inputs=8, seed=2)),
    "rnn_pair_merged": rnn_pair(RNN(units=32, inputs=8, seed=1), RNN(units=48, inputs=8, seed=2), True),
    "rnn_pair_time_major": rnn_pair(time_major_rnn(1), time_major_rnn(2), True),
    "lstm_pair": lstm_pair(LSTM(units=32, inputs=8, steps=5, seed=1), LSTM(units=32, inputs=8, steps=5, seed=2)),
    "lstm_pair_projection": lstm_pair(time_major_lstm(1, width=17), time_major_lstm(2, width=17)),
    "lstm_pair_merged": lstm_pair(time_major_lstm(1), time_major_lstm(2), True),
}
each_cell = pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS.keys())
each_resolver = pytest.mark.parametrize("resolver", RESOLVERS)


def from_zero(cell: Cell) -> Model:
    """Every state starts from zero; all results and final states are read."""
    build, reference, shape, sizes = cell
    axis = shape.index(B)

    def zeros(x: np.ndarray) -> list[np.ndarray]:
        return [np.zeros((x.shape[axis], n), x.dtype) for n in sizes]

    return Model(
        lambda x: build(x, *(filled(x, n, axis=axis) for n in sizes)), lambda x: reference(x, *zeros(x)), (shape,)
    )


def delegated_on_both_sides(cell: Cell) -> Model:
    """States from inputs, between ops that XNNPACK takes: a read of a state alone would run before the fused op."""
    build, reference, shape, sizes = cell
    half = np.float32(0.5)
    return Model(
        lambda x, *states: tuple(ops.mul(v, half) for v in build(ops.tanh(x), *states)),
        lambda x, *states: tuple(half * v for v in reference(np.tanh(x), *states)),
        (shape, *((B, n) for n in sizes)),
    )


def chained(cell: Cell) -> Model:
    """Two of the op: the second starts from the final states of the first."""
    build, reference, shape, sizes = cell
    count = len(sizes)
    return Model(
        lambda x, *states: build(x, *build(x, *states)[-count:]),
        lambda x, *states: reference(x, *reference(x, *states)[-count:]),
        (shape, *((B, n) for n in sizes)),
    )


USES = {"from_zero": from_zero, "delegated_on_both_sides": delegated_on_both_sides, "chained": chained}


@each_resolver
@pytest.mark.parametrize("use", USES.values(), ids=USES.keys())
@each_cell
def test_is_right_on_every_invoke_and_batch(cell: Cell, use: Callable[[Cell], Model], resolver: str) -> None:
    model = use(cell)
    runtime = Runtime(file_of(model.graph()), resolver)
    for batch in BATCHES:
        runtime.resize(model.draw(batch, 0))
        # Not with delegates: XNNPACK leaves the tensors inside its own partitions as they are in the file.
        assert resolver == "delegates" or not list(runtime.stale(batch))
        for seed in range(3):
            inputs = model.draw(batch, seed)
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


@each_cell
def test_a_file_gives_the_same_text_and_bytes_again(cell: Cell) -> None:
    content = file_of(from_zero(cell).graph())
    found = load_tflite(content)
    assert to_bytes(found) == content
    graph = found.signatures[0].graph
    axis = cell[2].index(B)
    batch = str(graph.inputs[0].type.shape[axis])  # a file has no names for its open dimensions
    assert str(rename_dims(graph, {batch: B})) == str(lowered(from_zero(cell).graph()))


@each_cell
def test_computes_in_the_width_of_proofs(cell: Cell) -> None:
    build, reference, shape, sizes = cell
    types = [TensorType(shape, DType.f32), *(TensorType((B, n), DType.f32) for n in sizes)]
    wide = with_float(trace_graph(build, types), DType.f64)
    rng = np.random.default_rng(5)
    x, *states = (rng.normal(size=[3 if d is B else d for d in t.shape]) for t in types)
    found, wanted = Runner(wide, quick=True)([x, *states]), reference(x, *states)
    assert {np.asarray(f).dtype for f in found} == {np.dtype(np.float64)}
    # 1e-13: sums of up to 48 + 8 terms in f64.
    assert error([np.asarray(f) for f in found], wanted) < 1e-13


def in_branch(cell: Cell) -> Model:
    """The op in both branches of an IF, from zero states."""
    shape, plain = cell[2], from_zero(cell)
    types = [TensorType(shape, DType.f32)]

    def main(x: Any) -> Any:
        then = trace_graph(plain.build, types, "then")
        other = trace_graph(lambda v: plain.build(ops.neg(v)), types, "other")
        return ops.if_((ops.greater(ops.sum_(x, list(range(len(shape)))), np.float32(0)), x), (then, other))

    return Model(main, lambda x: plain.reference(x if x.sum() > 0 else -x), (shape,))


def in_loop(cell: Cell) -> Model:
    """The op in the body of a WHILE that carries its states."""
    build, reference, shape, sizes = cell
    types = [TensorType((), DType.i32), TensorType(shape, DType.f32), *(TensorType((B, n), DType.f32) for n in sizes)]

    def main(x: Any, *states: Any) -> Any:
        cond = trace_graph(lambda i, *_: ops.less(i, np.int32(3)), types, "cond")
        body = trace_graph(
            lambda i, x, *s: (ops.add(i, np.int32(1)), ops.mul(x, np.float32(0.75)), *build(x, *s)[-len(sizes) :]),
            types,
            "body",
        )
        return tuple(ops.while_((np.int32(0), x, *states), (cond, body))[2:])

    def wanted(x: np.ndarray, *states: np.ndarray) -> Arrays:
        for _ in range(3):
            states = reference(x, *states)[-len(sizes) :]
            x = x * np.float32(0.75)
        return states

    return Model(main, wanted, (shape, *((B, n) for n in sizes)))


BODIES = {"in_branch": in_branch, "in_loop": in_loop}


@each_resolver
@pytest.mark.parametrize("use", BODIES.values(), ids=BODIES.keys())
@each_cell
def test_is_right_inside_of_bodies(cell: Cell, use: Callable[[Cell], Model], resolver: str) -> None:
    model = use(cell)
    runtime = Runtime(file_of(model.graph()), resolver)
    for batch in BATCHES:
        runtime.resize(model.draw(batch, 0))
        for seed in range(3):
            inputs = model.draw(batch, seed)
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


@each_resolver
@pytest.mark.parametrize("batch", [1, 3])
@each_cell
def test_states_that_are_kept_go_on_from_invoke_to_invoke(cell: Cell, batch: int, resolver: str) -> None:
    """Without writers: each state lives in the op's own tensor, and the next invoke starts where this one ended."""
    build, reference, shape, sizes = cell
    count = len(sizes)
    types = [
        TensorType(tuple(batch if d is B else d for d in shape), DType.f32),
        *(TensorType((batch, n), DType.f32) for n in sizes),
    ]
    graph = trace_graph(build, types)
    zeros = [np.zeros((batch, n), np.float32) for n in sizes]
    states = tuple(State(f"state_{i}", Const(zero)) for i, zero in enumerate(zeros))
    results = tuple(f"out_{i}" for i in range(len(graph.outputs) - count))
    given = Program((Signature("serving_default", graph, ("x",), results, states),))
    assert in_tensors(with_homes(given)) == {s.name for s in states}
    program = prepare_results(place_states(given, Context()))
    assert [e.op.name for e in program.signatures[0].graph.eqns] == [graph.eqns[0].op.name]
    runtime, kept = Runtime(to_bytes(program), resolver), tuple(zeros)
    runtime.interpreter.allocate_tensors()
    for seed in range(4):
        x = np.random.default_rng(seed).normal(size=types[0].shape).astype(np.float32)
        wanted = reference(x, *kept)
        assert error(runtime([x]), wanted[:-count]) < TOLERANCE
        kept = wanted[-count:]
