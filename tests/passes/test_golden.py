"""What each of the other passes does to a small graph; and that no pass is without such a text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Const, Graph, Program, Signature, State
from jfuse.ir.parser import parse
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import substitute_graph
from jfuse.kernels import ops
from jfuse.kernels.control import while_
from jfuse.lowering.defaults import default_rules
from jfuse.passes.context import Context
from jfuse.passes.fuse.recover import recover
from jfuse.passes.options import Forms, Pipeline
from jfuse.quantization.recipe import NAMED
from jfuse.tflite.metadata import DEBUG_METADATA
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.targets.catalog import target_named
from tests.cells import Loop, keras
from tests.conftest import Golden
from tests.corpus import quantized
from tests.passes.before_after import STEPS, before_and_after, one_signature
from tests.passes.simplify.test_simplify import small_model
from tests.passes.states import test_modes

B = symbol("B")
GOLDEN = Path(__file__).parent


def of(dtype: DType, *shape: Any) -> TensorType:
    return TensorType(shape, dtype)


def lost_op() -> Program:
    """A program with an op that TFLite lacks, in the middle."""

    def call(x: Any) -> Any:
        return tf.nn.relu(tf.math.special.dawsn(x + 1.0))

    return jfuse.load(tf.function(call, input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])).program


def quantized_file() -> Program:
    x, y = (quantized.integers(3, scale=0.5, zero_point=1) for _ in range(2))
    return load_tflite(quantized.file_of("relu", quantized.apply(ops.relu, [x], y)).make())


def sparse_product() -> Graph:
    return parse(
        """graph main(a: f32[B,2]) {
  b: f32[2,2] = opaque.densify sparse<f32[2,2] order=(0,1) blocks=() values=f32[2](1.0 2.0) 2 i32[3](0 1 2):i32[2](0 1)>
  c: f32[B,2] = fully_connected a b -
  return c
}"""
    )


def with_debug_metadata() -> Program:
    program = one_signature(trace_graph(ops.neg, [of(DType.f32, 2)]))
    return replace(program, facts=replace(program.facts, metadata=((DEBUG_METADATA, Const(np.zeros(3, np.uint8))),)))


def known_choice() -> Graph:
    return trace_graph(lambda x: ops.select_v2(np.array([True]), x, ops.neg(x)), [of(DType.f32, B, 3)])


def complex_product() -> Graph:
    def call(x: Any, y: Any) -> Any:
        whole = default_rules().lowers["Complex"](x, y)
        return ops.real(ops.mul(whole, np.array(1 + 2j, np.complex64)))

    return trace_graph(call, [of(DType.f32, B, 2)] * 2)


def crosswise() -> Graph:
    return trace_graph(ops.atan2, [of(DType.f32, B, 1), of(DType.f32, 1, 3)])


def root_mean_square() -> Graph:
    def call(x: Any) -> Any:
        mean = ops.mean(ops.mul(x, x), np.array([1], np.int32), keep_dims=True)
        return ops.tanh(ops.mul(x, ops.rsqrt(ops.add(mean, np.float32(0.5)))))

    return trace_graph(call, [of(DType.f32, 2, 3)])


def without_kernel() -> Graph:
    return trace_graph(lambda x: ops.cumsum(x, np.int32(1)), [of(DType.f16, B, 3)])


def in_halves() -> Graph:
    def call(x: Any) -> Any:
        half = ops.mul(ops.cast(x, out_data_type=DType.f16), np.float16(0.1))
        return half, ops.bitcast(half, out_data_type=DType.u16)

    return trace_graph(call, [of(DType.f32, B, 3)])


def in_double() -> Graph:
    return trace_graph(lambda x: ops.fully_connected(x, np.eye(3), None), [of(DType.f64, B, 3)])


def cosine_in_double() -> Graph:
    return trace_graph(lambda x: ops.mul(ops.cos(x), np.array(0.1)), [of(DType.f64, B, 3)])


def any_of_rows() -> Graph:
    return trace_graph(
        lambda x, y: (ops.reduce_any(x, np.int32(1)), ops.tile(y, [1, 20])), [of(DType.bool, 2, 3), of(DType.f32, 1, 1)]
    )


def rnn_operator() -> Program:
    """A fused recurrence whose state the signature keeps."""
    w, r, b = (np.array(v, np.float32) for v in ([[1, 2]], [[0.5]], [3]))
    graph = trace_graph(
        lambda x, h: ops.unidirectional_sequence_rnn(x, w, r, b, h, time_major=True, fused_activation_function="TANH"),
        [of(DType.f32, 5, 1, 2), of(DType.f32, 1, 1)],
    )
    return Program((Signature("main", graph, ("x",), ("y",), (State("h", Const(np.zeros((1, 1), np.float32))),)),))


def halves_beside_states() -> Graph:
    """A weight that becomes floats, beside a fused recurrence of an open batch."""
    w, r, b = (np.array(v, np.float32) for v in ([[1, 2]], [[0.5]], [3]))

    def call(x: Any, h: Any, halves: Any) -> Any:
        added = ops.add(x, ops.dequantize(halves))
        return ops.unidirectional_sequence_rnn(added, w, r, b, h, time_major=True, fused_activation_function="TANH")

    graph = trace_graph(call, [of(DType.f32, 5, B, 2), of(DType.f32, B, 1), of(DType.f16, 2)])
    *inputs, halves = graph.inputs
    constant = {halves: Const(np.array([1, 2], np.float16))}
    return substitute_graph(replace(graph, inputs=tuple(inputs)), constant)


def rnn() -> Program:
    return one_signature(trace_graph(lambda x: test_modes.rnn(x, test_modes.zeros(2, 4))[1], [test_modes.STEPS]))


def handed_through() -> Graph:
    return trace_graph(lambda x: (x, (y := ops.neg(x)), y, np.float32(1)), [of(DType.f32, 2)])


def read_later() -> Graph:
    """A value in the memory of another, read after an operator that would overwrite it."""

    def call(x: Any) -> Any:
        half = ops.mul(ops.sin(x), np.float32(0.5))
        more = ops.add(ops.reshape(half, np.array([3, 2], np.int32)), np.float32(1))
        return ops.concatenation(half, ops.reshape(more, np.array([2, 3], np.int32)), axis=0)

    return trace_graph(call, [of(DType.f32, 2, 3)])


def cut_and_joined_in_a_loop() -> Graph:
    """A loop with copies of XNNPACK that begin or end at values of LiteRT."""
    of_rows = [of(DType.i32), of(DType.f32, B, 4)]

    def step(i: Any, x: Any) -> Any:
        first, second = ops.split(np.int32(1), ops.gather(x, np.array([3, 2, 1, 0], np.int32), axis=1), num_splits=2)
        return ops.add(i, np.int32(1)), ops.concatenation(ops.tanh(second), ops.cos(first), axis=1)

    cond = trace_graph(lambda i, x: ops.less(i, np.int32(3)), of_rows, "cond")
    loop = trace_graph(step, of_rows, "body")
    return trace_graph(lambda x: while_([np.int32(0), x], [cond, loop])[1], of_rows[1:])


def lstm_operator() -> Graph:
    """An LSTM that starts from zeros."""
    gates = [np.full((1, 2), n, np.float32) for n in (1, 2, 3, 4)]
    recurrent, biases = [g[:, :1] for g in gates], [g[0, :1] for g in gates]
    zeros = np.zeros((1, 1), np.float32)
    operands = [*gates, *recurrent, *[None] * 3, *biases, None, None, zeros, zeros]
    return trace_graph(
        lambda x: ops.unidirectional_sequence_lstm(x, *operands, time_major=True)[0], [of(DType.f32, 3, 1, 2)]
    )


def basic_cell() -> Graph:
    """A cell that starts from zeros, of whose results one is read once more after another cell."""
    weights, bias, zeros = np.ones((4, 3), np.float32), np.ones(4, np.float32), np.zeros((1, 1), np.float32)

    def call(x: Any) -> Any:
        h, c, *_ = ops.basic_lstm(x, zeros, weights, bias, zeros)
        return ops.add(ops.basic_lstm(x, h, weights, bias, c)[0], h)

    return trace_graph(call, [of(DType.f32, 1, 2)])


def large_dense() -> Program:
    weights = np.linspace(-1, 1, 32 * 40, dtype=np.float32).reshape(32, 40)
    return one_signature(trace_graph(lambda x: ops.relu(ops.fully_connected(x, weights)), [of(DType.f32, B, 40)]))


EXAMPLES: dict[str, tuple[Callable[[], Graph | Program], Context]] = {
    "callable_on_target": (known_choice, Context(target=target_named("tflite-micro"))),
    "dense_weights": (sparse_product, Context()),
    "plain_numbers": (quantized_file, Context()),
    "drop_debug_metadata": (with_debug_metadata, Context()),
    "compute_in_f32": (in_halves, Context()),
    "fold_selects": (known_choice, Context()),
    "no_lost_ops": (lost_op, Context()),
    "apply_state_mode": (rnn, Context(forms=Forms(state="keep"))),
    "recover": (lambda: Loop(keras).graph(), Context()),
    "complex_parts": (complex_product, Context()),
    "fuse": (lambda: recover(Loop(keras).graph(), Context()), Context()),
    "simplify": (lambda: trace_graph(small_model, [of(DType.f32, B, 4)]), Context()),
    "legalize_broadcast": (crosswise, Context()),
    "doubles_in_f32": (cosine_in_double, Context()),
    "legalize_dtypes": (without_kernel, Context()),
    "target_composites": (root_mean_square, Context(target=target_named("google-tensor"))),
    "legalize_target": (any_of_rows, Context(target=target_named("tflite-micro"))),
    "custom_operators": (lost_op, Context(pipeline=Pipeline(select_tf_ops=True))),
    "only_operators": (in_double, Context()),
    "place_states": (rnn_operator, Context()),
    "states_on_target": (rnn_operator, Context(target=target_named("litert-gpu"))),
    "quantize": (large_dense, Context(recipe=NAMED["dynamic"])),
    "remade_weights": (halves_beside_states, Context()),
    "prepare_results": (handed_through, Context()),
    "step_by_step": (lstm_operator, Context(target=target_named("compiled-model"))),
    "computed_starts": (basic_cell, Context()),
    "loaded_on_target": (handed_through, Context(target=target_named("compiled-model"))),
    "copies_in_bodies": (cut_and_joined_in_a_loop, Context()),
    "memory_apart": (read_later, Context()),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_before_and_after(name: str, golden: Golden) -> None:
    make, ctx = EXAMPLES[name]
    golden.check(before_and_after(name, make(), ctx))


def test_each_pass_has_a_golden_text() -> None:
    named = {path.stem.rpartition("-")[2] for path in GOLDEN.rglob("golden/before_and_after-*.txt")}
    assert named == STEPS.keys()
