"""LSTM with the basic kernel against the written equations and against LiteRT's kernel, and as a file has it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

from jfuse.base.errors import TypeMismatch
from jfuse.ir.dims import symbol
from jfuse.ir.graph import Program, Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.opaque_ops.opaque_op import OpaqueOp
from jfuse.opaque_ops.state_operands import state_operands
from jfuse.passes.legalize.memory_apart import memory_apart
from jfuse.passes.states.state import computed_starts
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.kernels.one_op import RESOLVERS, OneOp, as_one_program, worst

INPUTS, BATCH = 5, 3
TOLERANCE = 2e-6  # sums of up to 32 + 5 terms in f32, through 4 steps


def drawn(units: int, dtype: Any = np.float32, batch: int = BATCH) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(units)
    shapes: dict[str, tuple[int, ...]] = {"x": (batch, INPUTS), "h": (batch, units), "c": (batch, units)}
    shapes |= {"weights": (4 * units, INPUTS + units), "bias": (4 * units,)}
    return {name: rng.uniform(-1, 1, shape).astype(dtype) for name, shape in shapes.items()}


def written(x: np.ndarray, h: np.ndarray, weights: np.ndarray, bias: np.ndarray, c: np.ndarray) -> list[np.ndarray]:
    """The equations, gate by gate: h' and c'."""

    def gate(number: int) -> np.ndarray:
        rows = slice(number * c.shape[1], (number + 1) * c.shape[1])
        return np.asarray(x @ weights[rows, :INPUTS].T + h @ weights[rows, INPUTS:].T + bias[rows])

    def sigmoid(z: np.ndarray) -> np.ndarray:
        return np.asarray(1 / (1 + np.exp(-z)))

    after = sigmoid(gate(2)) * c + sigmoid(gate(0)) * np.tanh(gate(1))
    return [sigmoid(gate(3)) * np.tanh(after), after]


@pytest.mark.parametrize(("dtype", "tolerance"), [(np.float32, TOLERANCE), (np.float64, 1e-13)])
@pytest.mark.parametrize("units", [1, 4, 32])
def test_matches_the_equations(units: int, dtype: Any, tolerance: float) -> None:
    given = drawn(units, dtype)
    operands = [given[name] for name in ("x", "h", "weights", "bias", "c")]
    h, c, both, totals = as_one_program(lambda *a: ops.basic_lstm(*a), operands)
    assert {a.dtype for a in (h, c, both, totals)} == {np.dtype(dtype)}
    assert worst([h, c], written(*operands)) < tolerance
    wanted = np.concatenate([given["x"], given["h"]], 1)
    assert worst([both, totals], [wanted, wanted @ given["weights"].T + given["bias"]]) < tolerance


def chain(steps: int, sequences: bool, batch: Any) -> Program:
    """Cells one after another from zeros: the last h, or every h and the last c."""
    given = drawn(4)
    zeros = np.zeros((1, 4), np.float32)

    def call(*xs: Any) -> Any:
        start = ops.mul(ops.strided_slice(xs[0], [0, 0], [0, 4], [1, 1], begin_mask=1, end_mask=1), zeros)
        h, c, hs = (start if not isinstance(batch, int) else np.zeros((batch, 4), np.float32)), None, []
        c = h
        for x in xs:
            h, c, *_ = ops.basic_lstm(x, h, given["weights"], given["bias"], c)
            hs.append(h)
        return (ops.pack(*hs, axis=0), c) if sequences else (h,)

    graph = trace_graph(call, [TensorType((batch, INPUTS), DType.f32)] * steps)
    graph = memory_apart(computed_starts(prepare_outputs(graph)))
    names = tuple(f"y{i}" for i in range(len(graph.outputs)))
    return Program((Signature("serving_default", graph, tuple(f"x{i}" for i in range(steps)), names),))


@pytest.mark.parametrize("sequences", [False, True], ids=["last", "sequences"])
@pytest.mark.parametrize("batch", [BATCH, symbol("B")], ids=["fixed", "open"])
def test_litert_answers_alike_in_each_call(batch: Any, sequences: bool) -> None:
    """The kernel overwrites its states: what is read later, and where each call starts, must not change by that."""
    program, given, rng = chain(4, sequences, batch), drawn(4), np.random.default_rng(1)
    data = to_bytes(program)
    assert "LSTM" in {str(e.op.builtin) for e in program.signatures[0].graph.eqns}
    for resolver in RESOLVERS.values():
        runner = Interpreter(model_content=data, experimental_op_resolver_type=resolver).get_signature_runner()
        for rows in (BATCH,) * 3 if batch == BATCH else (3, 70, 1, 5, 2):
            xs = [rng.uniform(-1, 1, (rows, INPUTS)).astype(np.float32) for _ in range(4)]
            h = c = np.zeros((rows, 4), np.float32)
            hs = []
            for x in xs:
                h, c = written(x, h, given["weights"], given["bias"], c)
                hs.append(h)
            found = runner(**{f"x{i}": x for i, x in enumerate(xs)})
            assert (
                worst([found[f"y{i}"] for i in range(len(found))], [np.stack(hs), c] if sequences else [h]) < TOLERANCE
            )


def test_a_file_is_read_as_it_was_written() -> None:
    program = chain(2, True, BATCH)
    (signature,) = load_tflite(to_bytes(program)).signatures
    assert [e.op.name for e in signature.graph.eqns] == [e.op.name for e in program.signatures[0].graph.eqns]
    assert "basic_lstm" in {e.op.name for e in signature.graph.eqns}


def test_a_file_with_states_in_variable_tensors_is_kept_as_it_is() -> None:
    """The form of converters of 2018: what the kernel overwrites goes on to the next call."""
    operands = [np.zeros(shape, np.float32) for shape in ((2, 3), (2, 4), (16, 7), (16,), (2, 4))]
    outputs = [(2, 4), (2, 4), (2, 7), (2, 16)]
    file = OneOp("LSTM", "LSTM", {"kernelType": 1, "fusedActivationFunction": 4}, operands, [0], [1, 4], outputs)
    (eqn,) = load_tflite(file.content()).signatures[0].graph.eqns
    assert isinstance(eqn.op, OpaqueOp)
    assert state_operands(eqn) == {1: 4, 4: 5}


def test_types_of_symbolic_sizes() -> None:
    given = drawn(4)
    types = [TensorType((symbol(b), n), DType.f32) for b, n in (("B", INPUTS), ("B1", 4), ("B2", 4))]
    graph = trace_graph(lambda x, h, c: ops.basic_lstm(x, h, given["weights"], given["bias"], c), types)
    assert [str(o.type) for o in graph.outputs] == ["f32[B,4]", "f32[B,4]", "f32[B,9]", "f32[B,16]"]


def test_refuses_what_the_kernel_does_not_compute() -> None:
    given = drawn(4)
    operands = [given[name] for name in ("x", "h", "weights", "bias", "c")]
    with pytest.raises(TypeMismatch, match="basic_lstm: kernel_type FULL, which has other operands"):
        ops.basic_lstm(*operands, kernel_type="FULL")
    with pytest.raises(
        TypeMismatch, match=r"basic_lstm: .*cell_clip=1\.0.*, where the kernel has TANH and clips nothing"
    ):
        ops.basic_lstm(*operands, cell_clip=1.0)
    with pytest.raises(TypeMismatch, match=r"basic_lstm: weights: \[16, 9\] where \[20, 10\] belongs"):
        ops.basic_lstm(
            operands[0], *[np.zeros((BATCH, 5), np.float32)], *operands[2:4], np.zeros((BATCH, 5), np.float32)
        )
