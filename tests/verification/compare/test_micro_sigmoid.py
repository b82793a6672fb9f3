"""tflite-micro's sigmoid of numbers below -9, and answers that are wrong by more than that."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from jfuse.base.measure import Measure
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.micro_sigmoid import MicroSigmoid
from jfuse.verification.compare.tolerance import Tolerance
from jfuse.verification.compare.wrong import WrongOutput

LOGITS = np.array([-12.0, -9.5, -9.1], np.float32)
EXACT = (1 / (1 + np.exp(-LOGITS.astype(np.float64)))).astype(np.float32)
IN_MICRO = np.exp(LOGITS.astype(np.float64)).astype(np.float32)  # reference/logistic.h
GRAPH = trace_graph(lambda x: (ops.logistic(x),), [TensorType((3,), DType.f32)])
PROGRAM = Program((Signature("main", GRAPH, ("x",), ("y",)),))


@pytest.mark.parametrize(
    ("found", "wanted", "pair", "is_excused"),
    [
        (IN_MICRO, EXACT, "tensorflow/tflite-micro", True),
        (IN_MICRO * np.float32(1.001), EXACT, "tensorflow/tflite-micro", False),
        (IN_MICRO, EXACT * np.float32(1.001), "tensorflow/tflite-micro", False),
        (IN_MICRO, EXACT, "tensorflow/litert", False),
    ],
)
def test_the_sigmoid_of_large_negative_numbers(found: Any, wanted: Any, pair: str, is_excused: bool) -> None:
    wrong = WrongOutput(pair, "y", Measure.of(found, wanted), Tolerance(1e-5, "f32 sums"), found, wanted)
    assert wrong.measure.relative > 1e-5
    left, notes = MicroSigmoid(PROGRAM).excused(CallInputs("main", {"x": LOGITS}), [wrong])
    assert (not left, bool(notes)) == (is_excused, is_excused)


def test_a_graph_without_a_sigmoid_explains_nothing() -> None:
    graph = trace_graph(lambda x: (ops.exp(x),), [TensorType((3,), DType.f32)])
    program = Program((replace(PROGRAM.signatures[0], graph=graph),))
    wrong = WrongOutput("x/tflite-micro", "y", Measure.of(IN_MICRO, EXACT), Tolerance(1e-5, ""), IN_MICRO, EXACT)
    assert MicroSigmoid(program).excused(CallInputs("main", {"x": LOGITS}), [wrong]) == ([wrong], ())
