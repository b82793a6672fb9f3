"""States: right on every invoke and batch, with and without delegates. The traps that were measured, as tests."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from jfuse.base.errors import LowerError
from jfuse.ir.check import check_graph
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import producers, use_counts
from jfuse.kernels import ops
from jfuse.kernels.core.op import TflOp
from jfuse.passes.context import Context
from jfuse.passes.fuse.run_time_shapes import dynamic_before_fused, dynamic_before_replacement
from jfuse.passes.states.state import state
from jfuse.running.runner import Runner
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.conftest import Golden
from tests.kernels.fused.lstm_oracle import LSTM, RESOLVERS, written
from tests.slow import every_other

B = symbol("B")
BATCHES = (1, 24, 2, 36)  # grows and shrinks; with 32 units every state is larger than 64 bytes
TOLERANCE = 1e-5  # f32 sums of up to 264 terms, carried over 5 steps
Arrays = tuple[np.ndarray, ...]


def sizes(units: int = 32, inputs: int = 8, **options: Any) -> LSTM:
    return LSTM(units=units, inputs=inputs, steps=5, seed=units, **options)


@dataclass(frozen=True)
class Model:
    """A function over ops, what it is by the equations, and its inputs (B is the batch)."""

    build: Callable[..., Any]
    reference: Callable[..., Arrays]
    inputs: tuple[tuple[Any, ...], ...]

    def graph(self) -> Graph:
        return trace_graph(self.build, [TensorType(shape, DType.f32) for shape in self.inputs])

    def draw(self, batch: int, seed: int) -> list[np.ndarray]:
        rng = np.random.default_rng(seed)
        shapes = [[batch if d is B else d for d in shape] for shape in self.inputs]
        return [rng.normal(size=shape).astype(np.float32) for shape in shapes]


def lstm(cell: LSTM, x: Any, h: Any, c: Any) -> Any:
    return ops.unidirectional_sequence_lstm(*cell.in_file_order(x, h, c), **cell.options)


def batch_shape(x: Any, width: int, axis: int = 0) -> Any:
    """The run-time shape [batch, width], as TensorFlow programs compute it."""
    batch = ops.strided_slice(ops.shape(x), [axis], [axis + 1], [1], shrink_axis_mask=1)
    return ops.pack(batch, np.int32(width))


def filled(x: Any, width: int, value: float = 0.0, axis: int = 0) -> Any:
    return ops.fill(batch_shape(x, width, axis), np.float32(value))


def zeros_of(cell: LSTM, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    batch = x.shape[1 if cell.time_major else 0]
    return np.zeros((batch, cell.outputs), x.dtype), np.zeros((batch, cell.units), x.dtype)


def plain(cell: LSTM) -> Model:
    """Zero states, the whole output."""
    axis = 1 if cell.time_major else 0
    shape = (5, B, cell.inputs) if cell.time_major else (B, 5, cell.inputs)
    return Model(
        lambda x: lstm(cell, x, filled(x, cell.outputs, axis=axis), filled(x, cell.units, axis=axis))[0],
        lambda x: written(cell, x, *zeros_of(cell, x))[:1],
        (shape,),
    )


def finals(cell: LSTM) -> Model:
    """Zero states; the output and both final states."""
    return Model(
        lambda x: lstm(cell, x, filled(x, cell.outputs), filled(x, cell.units)),
        lambda x: written(cell, x, *zeros_of(cell, x)),
        ((B, 5, cell.inputs),),
    )


def from_inputs(cell: LSTM) -> Model:
    """Initial states are inputs of the graph."""
    return Model(
        lambda x, h, c: lstm(cell, x, h, c),
        lambda x, h, c: written(cell, x, h, c),
        ((B, 5, cell.inputs), (B, cell.outputs), (B, cell.units)),
    )


def delegated_on_both_sides(cell: LSTM) -> Model:
    """Ops that XNNPACK takes, before and after, while the states are written by then.

    A read of the state alone would then run with the first ones, before the fused op. (REVERSE_V2 is not taken.)
    """
    half = np.float32(0.5)

    def build(x: Any, h: Any, c: Any) -> Any:
        y, h, c = lstm(cell, ops.tanh(ops.reverse_v2(x, [1])), h, c)
        return ops.mul(y, half), ops.mul(h, half), ops.mul(c, half)

    def reference(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> Arrays:
        return tuple(half * v for v in written(cell, np.tanh(x[:, ::-1]), h, c))

    return Model(build, reference, from_inputs(cell).inputs)


def one_state_for_both(cell: LSTM) -> Model:
    """One computed tensor is both initial states, and is read once more afterwards."""

    def build(x: Any, s: Any) -> Any:
        start = ops.add(s, s)
        return lstm(cell, x, start, start)[0], start

    return Model(build, lambda x, s: (written(cell, x, s + s, s + s)[0], s + s), ((B, 5, cell.inputs), (B, cell.units)))


def constant_row(cell: LSTM) -> Model:
    """Initial states that are one constant row for every batch entry."""
    row = np.arange(cell.units, dtype=np.float32)[None] / cell.units

    def build(x: Any) -> Any:
        h = ops.broadcast_to(row, batch_shape(x, cell.units))
        c = ops.add(filled(x, cell.units, 0.25), row)
        return lstm(cell, x, h, c)

    def reference(x: np.ndarray) -> Arrays:
        rows = np.repeat(row, len(x), 0)
        return written(cell, x, rows, rows + np.float32(0.25))

    return Model(build, reference, ((B, 5, cell.inputs),))


def computed_row(cell: LSTM) -> Model:
    """Initial states that are one computed row for every batch entry, broadcast and tiled."""

    def build(x: Any, row: Any) -> Any:
        tiled = ops.tile(row, ops.pack(ops.strided_slice(ops.shape(x), [0], [1], [1], shrink_axis_mask=1), np.int32(1)))
        return lstm(cell, x, ops.broadcast_to(row, batch_shape(x, cell.units)), tiled)

    def reference(x: np.ndarray, row: np.ndarray) -> Arrays:
        rows = np.repeat(row, len(x), 0)
        return written(cell, x, rows, rows)

    return Model(build, reference, ((B, 5, cell.inputs), (1, cell.units)))


def encoder_decoder(first: LSTM, second: LSTM) -> Model:
    """The second op starts from the final states of the first."""

    def build(x: Any, z: Any) -> Any:
        _, h, c = lstm(first, x, filled(x, first.units), filled(x, first.units))
        return (*lstm(second, z, h, c), h)

    def reference(x: np.ndarray, z: np.ndarray) -> Arrays:
        _, h, c = written(first, x, *zeros_of(first, x))
        return (*written(second, z, h, c), h)

    return Model(build, reference, ((B, 5, first.inputs), (B, 5, second.inputs)))


def stacked(first: LSTM, second: LSTM) -> Model:
    def build(x: Any) -> Any:
        y, _, c = lstm(first, x, filled(x, first.units), filled(x, first.units))
        return (*lstm(second, y, filled(x, second.units), filled(x, second.units)), c)

    def reference(x: np.ndarray) -> Arrays:
        y, _, c = written(first, x, *zeros_of(first, x))
        return (*written(second, y, *zeros_of(second, x)), c)

    return Model(build, reference, ((B, 5, first.inputs),))


def after_layout(cell: LSTM) -> Model:
    """Ops that keep their shapes known at allocation, before the fused op."""

    def build(x: Any) -> Any:
        flat = ops.reshape(x, [-1, 8])
        wide = ops.pad(ops.reshape(ops.mul(flat, np.float32(2)), [-1, 5, 8]), [[0, 0], [0, 0], [1, 0]])
        turned = ops.reverse_v2(ops.transpose(wide, [1, 0, 2]), [0])
        back = ops.gather(ops.transpose(turned, [1, 0, 2]), np.arange(8, dtype=np.int32)[::-1].copy(), axis=2)
        return lstm(cell, back, filled(x, cell.units), filled(x, cell.units))

    def reference(x: np.ndarray) -> Arrays:
        wide = np.pad(2 * x, [(0, 0), (0, 0), (1, 0)])
        return written(cell, wide[:, ::-1, 7::-1], *zeros_of(cell, x))

    return Model(build, reference, ((B, 5, 8),))


def after_loop(cell: LSTM) -> Model:
    """A WHILE that carries tensors with an open batch, before the fused op."""
    types = [TensorType((), DType.i32), TensorType((B, 5, cell.inputs), DType.f32)]

    def build(x: Any) -> Any:
        cond = trace_graph(lambda i, _: ops.less(i, np.int32(3)), types, "cond")
        body = trace_graph(lambda i, v: (ops.add(i, np.int32(1)), ops.tanh(ops.add(v, v))), types, "body")
        _, x = ops.while_((np.int32(0), x), (cond, body))
        return lstm(cell, x, filled(x, cell.units), filled(x, cell.units))

    def reference(x: np.ndarray) -> Arrays:
        for _ in range(3):
            x = np.tanh(x + x)
        return written(cell, x, *zeros_of(cell, x))

    return Model(build, reference, ((B, 5, cell.inputs),))


def after_branch(cell: LSTM) -> Model:
    """An IF whose results have an open batch, before the fused op."""
    types = [TensorType((B, 5, cell.inputs), DType.f32)]

    def build(x: Any) -> Any:
        then, other = trace_graph(ops.tanh, types, "then"), trace_graph(lambda v: ops.add(v, v), types, "other")
        (x,) = ops.if_((ops.greater(ops.sum_(x, [0, 1, 2]), np.float32(0)), x), (then, other))
        return lstm(cell, x, filled(x, cell.units), filled(x, cell.units))

    def reference(x: np.ndarray) -> Arrays:
        x = np.tanh(x) if x.sum() > 0 else x + x
        return written(cell, x, *zeros_of(cell, x))

    return Model(build, reference, ((B, 5, cell.inputs),))


def around_it(cell: LSTM) -> Model:
    """Ops on both sides, in place where the runtime likes: nothing of it may touch the states."""

    def build(x: Any) -> Any:
        y, h, c = lstm(cell, ops.tanh(ops.add(x, x)), filled(x, cell.units), filled(x, cell.units))
        return ops.mul(ops.add(h, c), np.float32(0.5)), ops.relu(y), ops.sub(c, h)

    def reference(x: np.ndarray) -> Arrays:
        y, h, c = written(cell, np.tanh(x + x), *zeros_of(cell, x))
        return (h + c) * np.float32(0.5), np.maximum(y, 0), c - h

    return Model(build, reference, ((B, 5, cell.inputs),))


MODELS = {
    "plain_1": plain(sizes(1)),
    "plain_32": plain(sizes(32)),
    "plain_256": plain(sizes(256)),
    "time_major": plain(sizes(32, time_major=True)),
    "projection": finals(sizes(32, width=17, projection_bias=True)),
    "finals_32": finals(sizes(32)),
    "finals_256": finals(sizes(256)),
    "from_inputs_32": from_inputs(sizes(32)),
    "from_inputs_256": from_inputs(sizes(256)),
    "from_inputs_projection": from_inputs(sizes(32, width=24)),
    "delegated_on_both_sides": delegated_on_both_sides(sizes(32)),
    "one_state_for_both": one_state_for_both(sizes(32)),
    "constant_row": constant_row(sizes(32)),
    "computed_row": computed_row(sizes(32)),
    "encoder_decoder": encoder_decoder(sizes(32), LSTM(units=32, inputs=3, steps=5, seed=7)),
    "stacked_32": stacked(sizes(32), LSTM(units=48, inputs=32, steps=5, seed=8)),
    "stacked_256": stacked(sizes(256), LSTM(units=33, inputs=256, steps=5, seed=9)),
    "around_it": around_it(sizes(32)),
    "after_layout": after_layout(sizes(32)),
    "after_loop": after_loop(sizes(32)),
    "after_branch": after_branch(sizes(32)),
}
each_model = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
each_resolver = pytest.mark.parametrize("resolver", RESOLVERS)


def lowered(graph: Graph) -> Graph:
    graph = state(graph, Context())
    check_graph(graph)
    return prepare_outputs(graph)


def file_of(graph: Graph) -> bytes:
    names = tuple(f"in_{i}" for i in range(len(graph.inputs))), tuple(f"out_{i}" for i in range(len(graph.outputs)))
    return to_bytes(Program((Signature("serving_default", lowered(graph), *names),)))


class Runtime:
    """One interpreter over the bytes; inputs and outputs in the graph's order."""

    def __init__(self, content: bytes, resolver: str) -> None:
        self.interpreter = Interpreter(model_content=content, experimental_op_resolver_type=RESOLVERS[resolver])

    def resize(self, inputs: Sequence[np.ndarray]) -> None:
        for place, array in zip(self.interpreter.get_input_details(), inputs, strict=True):
            self.interpreter.resize_tensor_input(place["index"], array.shape)
        self.interpreter.allocate_tensors()

    def __call__(self, inputs: Sequence[np.ndarray]) -> list[np.ndarray]:
        for place, array in zip(self.interpreter.get_input_details(), inputs, strict=True):
            self.interpreter.set_tensor(place["index"], array)
        self.interpreter.invoke()
        return [self.interpreter.get_tensor(place["index"]).copy() for place in self.interpreter.get_output_details()]

    def stale(self, batch: int) -> Iterator[str]:
        """Tensors with an open dimension that is not the batch, or a multiple of it."""
        for tensor in self.interpreter.get_tensor_details():
            for size, declared in zip(tensor["shape"], tensor["shape_signature"], strict=True):
                if declared == -1 and size % batch:
                    yield f"{tensor['name']}: {tensor['shape']}"


def error(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    assert [f.shape for f in found] == [w.shape for w in wanted]
    return max(float(np.max(np.abs(f - w)) / max(np.max(np.abs(w)), 1e-3)) for f, w in zip(found, wanted, strict=True))


@each_resolver
@each_model
def test_is_right_on_every_invoke_and_batch(model: Model, resolver: str) -> None:
    runtime = Runtime(file_of(model.graph()), resolver)
    for batch in BATCHES:
        runtime.resize(model.draw(batch, 0))
        for seed in range(3):
            inputs = model.draw(batch, seed)
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE, f"batch {batch}, invoke {seed}"


@each_model
def test_sizes_are_known_at_allocation(model: Model) -> None:
    # Without delegates: XNNPACK leaves the tensors inside its own partitions as they are in the file.
    runtime = Runtime(file_of(model.graph()), "builtin")
    for batch in BATCHES[1:]:  # the file's own batch is 1
        runtime.resize(model.draw(batch, 0))
        assert list(runtime.stale(batch)) == []


@each_model
def test_the_answer_of_the_graph_is_unchanged(model: Model) -> None:
    inputs = model.draw(3, 1)
    found = Runner(lowered(model.graph()), quick=True)(inputs)
    assert error([np.asarray(f) for f in found], model.reference(*inputs)) < TOLERANCE


@each_model
def test_each_state_has_a_writer_of_its_own(model: Model) -> None:
    graph = lowered(model.graph())
    made_by, reads = producers(graph), use_counts(graph)
    fused = [e for e in graph.eqns if isinstance(e.op, TflOp) and e.op.updates]
    assert fused
    for eqn in fused:
        for place in (18, 19):
            operand = eqn.inputs[place]
            assert isinstance(operand, Var)
            assert made_by[operand].op in (ops.pad, ops.concatenation)
            assert reads[operand] == 1


@each_resolver
def test_nan_does_not_outlive_its_invoke(resolver: str) -> None:
    for name in ("finals_32", "from_inputs_32", "constant_row"):
        model = MODELS[name]
        runtime = Runtime(file_of(model.graph()), resolver)
        runtime.resize(model.draw(4, 0))
        poisoned = model.draw(4, 0)
        poisoned[0][2, :, 0] = np.nan  # not the whole row: the kernel takes a step of nothing but NaN for one of zeros
        found = runtime(poisoned)
        clean = [0, 1, 3]
        assert np.isnan(found[0][2]).all()
        assert error([f[clean] for f in found], [w[clean] for w in model.reference(*poisoned)]) < TOLERANCE
        inputs = model.draw(4, 1)
        assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


@each_resolver
def test_constant_states_of_a_fixed_batch(resolver: str) -> None:
    cell = sizes(32)
    h, c = (np.random.default_rng(n).normal(size=(2, 32)).astype(np.float32) for n in (1, 2))
    model = Model(lambda x: lstm(cell, x, h, c), lambda x: written(cell, x, h, c), ((2, 5, 8),))
    runtime = Runtime(file_of(model.graph()), resolver)
    runtime.resize(model.draw(2, 0))
    for seed in range(3):
        inputs = model.draw(2, seed)
        assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


@each_resolver
def test_constant_input(resolver: str) -> None:
    """The writers then depend on the initial state that is computed."""
    cell = sizes(32)
    x = np.random.default_rng(5).normal(size=(3, 5, 8)).astype(np.float32)
    zeros = np.zeros((3, 32), np.float32)
    model = Model(lambda h: lstm(cell, x, h, zeros), lambda h: written(cell, x, h, zeros), ((3, 32),))
    runtime = Runtime(file_of(model.graph()), resolver)
    runtime.resize(model.draw(3, 0))
    for seed in range(3):
        inputs = model.draw(3, seed)
        assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


def in_branch(cell: LSTM) -> Model:
    """The fused op in one branch of an IF: taken where the sum of x is positive."""
    width = cell.units
    types = [TensorType((B, 5, cell.inputs), DType.f32)]

    def build(x: Any) -> Any:
        then = trace_graph(lambda v: lstm(cell, v, filled(v, width), filled(v, width))[1:], types, "then")
        other = trace_graph(lambda v: (row(v), row(v)), types, "other")
        return ops.if_((ops.greater(ops.sum_(x, [0, 1, 2]), np.float32(0)), x), (then, other))

    def row(v: Any) -> Any:
        first = ops.strided_slice(v, [0, 0, 0], [0, 0, 1], [1, 1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
        return ops.tile(first, [1, width])

    def reference(x: np.ndarray) -> Arrays:
        if x.sum() > 0:
            return written(cell, x, *zeros_of(cell, x))[1:]
        return (np.tile(x[:, 0, :1], (1, width)),) * 2

    return Model(build, reference, ((B, 5, cell.inputs),))


def in_loop(cell: LSTM, turns: int = 3) -> Model:
    """The fused op in the body of a WHILE, each turn from the states of the one before."""
    x_type, state_type = TensorType((B, 5, cell.inputs), DType.f32), TensorType((B, cell.units), DType.f32)
    types = [TensorType((), DType.i32), x_type, state_type, state_type]

    def turn(i: Any, x: Any, h: Any, c: Any) -> Any:
        _, h, c = lstm(cell, x, h, c)
        return ops.add(i, np.int32(1)), x, h, c

    def build(x: Any, h: Any, c: Any) -> Any:
        cond = trace_graph(lambda i, *_: ops.less(i, np.int32(turns)), types, "cond")
        return ops.while_((np.int32(0), x, h, c), (cond, trace_graph(turn, types, "body")))[2:]

    def reference(x: np.ndarray, h: np.ndarray, c: np.ndarray) -> Arrays:
        for _ in range(turns):
            _, h, c = written(cell, x, h, c)
        return h, c

    return Model(build, reference, ((B, 5, cell.inputs), (B, cell.units), (B, cell.units)))


IN_BODIES = {
    "branch_32": in_branch(sizes(32)),
    "branch_256": in_branch(sizes(256)),
    "loop_32": in_loop(sizes(32)),
    "loop_256": in_loop(sizes(256)),
}


@each_resolver
@pytest.mark.parametrize("model", every_other(IN_BODIES.values()), ids=IN_BODIES.keys())
def test_bodies_of_branches_and_loops(model: Model, resolver: str) -> None:
    runtime = Runtime(file_of(model.graph()), resolver)
    for batch in BATCHES:
        runtime.resize(model.draw(batch, 0))
        for seed in range(4):
            inputs = [x if seed % 2 else -x for x in model.draw(batch, seed)]
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE, f"batch {batch}, invoke {seed}"


def dynamic_elsewhere(cell: LSTM) -> Model:
    """A result of run-time size that stands before the fused op, but need not."""

    def build(x: Any) -> Any:
        places = ops.where(ops.greater(x, np.float32(0)))
        return ops.cast(places, out_data_type=DType.f32), lstm(cell, x, filled(x, cell.units), filled(x, cell.units))[2]

    def reference(x: np.ndarray) -> Arrays:
        return np.argwhere(x > 0).astype(np.float32), written(cell, x, *zeros_of(cell, x))[2]

    return Model(build, reference, ((B, 5, cell.inputs),))


@each_resolver
@pytest.mark.parametrize("batches", [BATCHES, (4,)], ids=["open", "fixed"])
def test_fused_ops_come_before_what_is_dynamic(batches: Sequence[int], resolver: str) -> None:
    model = dynamic_elsewhere(sizes(32))
    if len(batches) == 1:
        model = replace(model, inputs=tuple((batches[0], *shape[1:]) for shape in model.inputs))
    writer = ops.tile if len(batches) > 1 else ops.pad
    assert any(e.op is writer for e in lowered(model.graph()).eqns)
    runtime = Runtime(file_of(model.graph()), resolver)
    for batch in batches:
        runtime.resize(model.draw(batch, 0))
        for seed in range(2):
            inputs = model.draw(batch, seed)
            assert error(runtime(inputs), model.reference(*inputs)) < TOLERANCE


def after_dynamic(shape: tuple[Any, ...]) -> Graph:
    """A fused op whose input comes from an op that LiteRT sizes at run time."""
    cell = sizes(32)

    def build(x: Any) -> Any:
        x = ops.slice_(x, [0, 0, 0], [-1, 5, -1])
        return lstm(cell, x, filled(x, 32), filled(x, 32))[0]

    return trace_graph(build, [TensorType(shape, DType.f32)])


def fused_of(graph: Graph) -> Eqn:
    return next(e for e in graph.eqns if e.op is ops.unidirectional_sequence_lstm)


def test_refuses_what_is_dynamic_before_a_fused_op() -> None:
    graph = after_dynamic((B, 9, 8))
    dynamic = dynamic_before_fused(graph, fused_of(graph))
    assert dynamic is not None
    assert dynamic.op is ops.slice_
    with pytest.raises(
        LowerError, match=r"cannot follow slice, whose result LiteRT sizes at run time(.|\n)*fix the batch"
    ):
        state(graph, Context())


def test_takes_it_where_the_batch_is_fixed() -> None:
    graph = after_dynamic((4, 9, 8))
    assert dynamic_before_fused(graph, fused_of(graph)) is None
    assert any(e.op is ops.pad for e in state(graph, Context()).eqns)


def test_a_replacement_is_asked_about_before_it_is_put_in_place() -> None:
    cell = sizes(32)
    zeros = np.zeros((1, 32), np.float32)
    types = [TensorType(shape, DType.f32) for shape in ((B, 5, 8), (B, 32))]
    fused = trace_graph(lambda x, h: lstm(cell, x, h, ops.mul(h, np.float32(0.5)))[0], types, "fused")

    def before(x: Any) -> Any:
        sliced = ops.slice_(x, [0, 0, 0], [-1, 5, -1])
        reshaped = ops.reshape(x, ops.pack(np.int32(-1), np.int32(5), np.int32(8)))
        by_shape = ops.reshape(x, ops.concatenation(batch_shape(x, 5), np.array([8], np.int32), axis=0))
        return sliced, reshaped, by_shape, ops.tanh(ops.broadcast_to(zeros, batch_shape(x, 32))), ops.tanh(x)

    graph = trace_graph(before, [types[0]])
    sliced, reshaped, by_shape, h, plain = graph.outputs
    first = {x: dynamic_before_replacement(graph.eqns, fused, (x, h)) for x in (sliced, reshaped, by_shape, plain)}
    assert [None if e is None else e.op for e in first.values()] == [ops.slice_, None, None, None]


@each_model
def test_zero_states_are_not_dynamic(model: Model) -> None:
    graph = model.graph()
    assert [dynamic_before_fused(graph, e) for e in graph.eqns if e.op is ops.unidirectional_sequence_lstm][:1] == [
        None
    ]


def test_refuses_a_constant_input_with_constant_states() -> None:
    cell = sizes(32)
    x, zeros = np.ones((3, 5, 8), np.float32), np.zeros((3, 32), np.float32)

    def build(bias: Any) -> Any:
        operands = cell.in_file_order(x, zeros, zeros)
        return ops.unidirectional_sequence_lstm(*operands[:15], bias, *operands[16:])[0]

    graph = trace_graph(build, [TensorType((32,), DType.f32)])
    with pytest.raises(LowerError, match="constant input and constant initial states"):
        state(graph, Context())


def test_a_graph_without_states_stays_the_same_object() -> None:
    graph = trace_graph(lambda x: ops.tanh(x), [TensorType((B, 4), DType.f32)])
    assert state(graph, Context()) is graph


@pytest.mark.parametrize("name", ["finals", "constant_row", "encoder_decoder"])
def test_text(golden: Golden, name: str) -> None:
    cell = LSTM(units=2, inputs=2, steps=5)
    for array in cell.operands.values():
        array.fill(0.5)
    models = {
        "finals": finals(cell),
        "constant_row": constant_row(cell),
        "encoder_decoder": encoder_decoder(cell, cell),
    }
    golden.check(state(models[name].graph(), Context()))
