"""Float LSTMs have five empty intermediate tensors: TensorFlow's quantizer, the oracle here, takes them for that."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema
from tensorflow.lite.python.optimize import calibrator

from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.passes.context import Context
from jfuse.passes.gates.builtins_only import plain_numbers
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32
from tests.tflite.read.round_trip import round_trip

STEPS, WIDTH, CELLS = 6, 4, 8
F32 = schema.TensorType.FLOAT32


def lstm(*, single_step: bool = False) -> Program:
    """An LSTM that keeps its states from call to call in its own tensors."""
    rng = np.random.default_rng(3)

    def drawn(*shape: int) -> np.ndarray:
        return rng.uniform(-0.5, 0.5, shape).astype(np.float32)

    kernels = [*(drawn(CELLS, WIDTH) for _ in range(4)), *(drawn(CELLS, CELLS) for _ in range(4))]
    biases = [drawn(CELLS) for _ in range(4)]

    def main(x: Any, h: Any, c: Any) -> Any:
        op = ops.lstm if single_step else ops.unidirectional_sequence_lstm
        return op(x, *kernels, None, None, None, *biases, None, None, h, c)

    x = f32(1, WIDTH) if single_step else f32(1, STEPS, WIDTH)
    graph = trace_graph(main, (x, f32(1, CELLS), f32(1, CELLS)), "main")
    states = tuple(State(name, Const(np.zeros((1, CELLS), np.float32)), "tensor") for name in "hc")
    return Program((Signature("serving_default", graph, ("x",), ("y",), states),))


@pytest.mark.parametrize("single_step", [False, True])
def test_a_float_lstm_has_five_empty_intermediates(single_step: bool) -> None:
    source = lstm(single_step=single_step)
    data = to_bytes(source)
    (subgraph,) = schema.ModelT.InitFromPackedBuf(data, 0).subgraphs
    (operator,) = subgraph.operators
    assert len(operator.inputs) == 24
    between = [subgraph.tensors[i] for i in operator.intermediates]
    assert [(t.type, tuple(t.shape), t.quantization) for t in between] == [(F32, (0,), None)] * 5
    read = round_trip(data)
    assert str(read) == str(source)
    assert plain_numbers(read, Context()) is read  # they say nothing, so that passes may work on what was read


def test_tensorflow_quantizes_the_file() -> None:
    source = lstm()
    samples = [np.random.default_rng(i).uniform(-1, 1, (1, STEPS, WIDTH)).astype(np.float32) for i in range(8)]

    def calibration() -> Iterator[list[np.ndarray]]:
        yield from ([x] for x in samples)

    quantized = calibrator.Calibrator(to_bytes(source)).calibrate_and_quantize(
        calibration, tf.float32, tf.float32, False
    )
    (operator,) = (
        o for o in schema.ModelT.InitFromPackedBuf(quantized, 0).subgraphs[0].operators if len(o.inputs) == 24
    )
    assert len(operator.intermediates) == 5
    (y,) = LiteRt(bytes(quantized)).run("serving_default", {"x": samples[0]}).values()
    (wanted,) = LiteRt(to_bytes(source)).run("serving_default", {"x": samples[0]}).values()
    assert np.abs(wanted).max() > 0.1
    # 8 bits of a result between -1 and 1 over 6 steps: TensorFlow's own int8 LSTMs are within 2 % of the range
    assert np.abs(y - wanted).max() <= 0.02
