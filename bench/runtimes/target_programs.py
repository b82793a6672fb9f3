"""Small files with operators that no row of tests/op_cases has, for `bench.target_tables`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from jfuse.ir.graph import Const, Eqn, Graph, Program, Signature, State, Var
from jfuse.ir.quantization import Quantization
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes

STEPS, WIDTH, CELLS = 4, 3, 5


def _drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).uniform(-0.5, 0.5, shape).astype(np.float32)


def _f32(*shape: int) -> TensorType:
    return TensorType(shape, DType.f32)


def _lstm_weights(inputs: int) -> list[Any]:
    kernels = [*(_drawn(CELLS, inputs) for _ in range(4)), *(_drawn(CELLS, CELLS) for _ in range(4))]
    return [*kernels, None, None, None, *(_drawn(CELLS) for _ in range(4)), None, None]


def _kept(function: Any, inputs: TensorType, *shapes: tuple[int, ...], home: Any = "tensor") -> Program:
    """A program of one input whose other operands are states, which are its last results."""
    graph = trace_graph(function, (inputs, *(_f32(*s) for s in shapes)), "main")
    states = tuple(State(f"s{i}", Const(np.zeros(s, np.float32)), home) for i, s in enumerate(shapes))
    outputs = len(graph.outputs) - len(states)
    names = tuple(f"y{i}" for i in range(outputs))
    return Program((Signature("serving_default", graph, ("x",), names, states),))


def _plain(function: Any, *types: TensorType) -> Program:
    graph = prepare_outputs(trace_graph(function, types, "main"))
    inputs, outputs = (tuple(f"{c}{i}" for i in range(len(v))) for c, v in (("x", graph.inputs), ("y", graph.outputs)))
    return Program((Signature("serving_default", graph, inputs, outputs),))


def _loop(x: Any) -> Any:
    types = [TensorType((), DType.i32), _f32(2, 3)]
    cond = trace_graph(lambda n, v: ops.less(n, np.int32(3)), types, "cond")
    body = trace_graph(lambda n, v: (ops.add(n, np.int32(1)), ops.mul(v, np.float32(0.5))), types, "body")
    return ops.while_([np.int32(0), x], [cond, body])[1]


def _branch(flag: Any, x: Any) -> Any:
    then = trace_graph(lambda v: ops.add(v, np.float32(1)), [_f32(2, 3)], "then")
    other = trace_graph(lambda v: ops.mul(v, np.float32(2)), [_f32(2, 3)], "else")
    return ops.if_([flag, x], [then, other])


def _quantized(dtype: DType) -> Program:
    """Quantizes, and takes the numbers back."""
    x, y = Var(_f32(2, 3)), Var(_f32(2, 3))
    q = Var(TensorType((2, 3), dtype, Quantization((1 / 64,), (0,))))
    eqns = (Eqn(ops.quantize, (x,), (q,)), Eqn(ops.dequantize, (q,), (y,)))
    return Program((Signature("serving_default", Graph("main", (x,), eqns, (y,)), ("x",), ("y",)),))


def _all() -> Iterator[Program]:
    sequence, step, state = _f32(1, STEPS, WIDTH), _f32(1, WIDTH), (1, CELLS)
    rnn = [_drawn(CELLS, WIDTH), _drawn(CELLS, CELLS), _drawn(CELLS)]
    lstm = _lstm_weights(WIDTH)
    for time_major in (False, True):
        x = _f32(STEPS, 1, WIDTH) if time_major else sequence
        options = {"time_major": time_major}
        yield _kept(lambda x, h, c, o=options: ops.unidirectional_sequence_lstm(x, *lstm, h, c, **o), x, state, state)
        yield _kept(lambda x, h, o=options: ops.unidirectional_sequence_rnn(x, *rnn, h, **o), x, state)
    yield _kept(lambda x, h, c: ops.lstm(x, *lstm, h, c), step, state, state)
    basic = _drawn(4 * CELLS, WIDTH + CELLS), _drawn(4 * CELLS)
    yield _plain(
        lambda x, h, c: ops.basic_lstm(x, ops.add(h, c), *basic, ops.mul(h, c))[:2], step, _f32(*state), _f32(*state)
    )
    yield _kept(lambda x, h: ops.rnn(x, *rnn, h), step, state)
    yield _kept(
        lambda x, a, b: ops.bidirectional_sequence_rnn(x, *rnn, a, *rnn, b, None, None, None, time_major=False),
        sequence,
        state,
        state,
    )
    yield _kept(
        lambda x, a, b, c, d: ops.bidirectional_sequence_lstm(x, *lstm, *lstm, a, b, c, d, time_major=False),
        sequence,
        *([state] * 4),
    )
    yield _kept(
        lambda x, s: ops.svdf(x, _drawn(CELLS, WIDTH), _drawn(CELLS, 4), _drawn(CELLS), s, rank=1), step, (1, CELLS * 4)
    )
    yield _kept(lambda x, s: (ops.add(x, s), ops.mul(s, x)), step, (1, WIDTH), home="variable")
    for unary in (ops.gelu, ops.hard_swish, ops.l2_normalization, ops.relu_n1_to_1, ops.relu_0_to_1):
        yield _plain(unary, _f32(2, 3, 4, 5))
    yield _plain(lambda x: ops.prelu(x, _drawn(5)), _f32(2, 3, 4, 5))
    yield _plain(
        lambda x: ops.l2_pool_2d(x, padding="VALID", stride_w=1, stride_h=1, filter_width=2, filter_height=2),
        _f32(1, 4, 4, 2),
    )
    yield _plain(lambda x: ops.slice_(x, [0, 1, 0], [1, 2, 3]), _f32(2, 3, 4))
    yield _plain(lambda x: ops.floor_div(x, np.float32(0.3)), _f32(2, 3))
    yield _plain(lambda i: ops.embedding_lookup(i, _drawn(5, 3)), TensorType((2,), DType.i32))
    for dtype in (DType.i8, DType.i16):
        yield _quantized(dtype)
    yield _plain(_loop, _f32(2, 3))
    yield _plain(_branch, TensorType((), DType.bool), _f32(2, 3))


def programs() -> Iterator[tuple[Program, bytes, list[np.ndarray]]]:
    """Programs, their files, and inputs for them."""
    for program in _all():
        signature = program.signatures[0]
        variables = signature.graph.inputs[: len(signature.input_names)]
        inputs = [
            _drawn(*(int(d) for d in v.type.shape))
            if v.type.dtype is DType.f32
            else np.ones([int(d) for d in v.type.shape], v.type.dtype.numpy)
            for v in variables
        ]
        yield program, to_bytes(program), inputs
