"""SVDFs in integers: call after call in LiteRT and tflite-micro, against the float file, and exactly against XLA."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.graph import Const, Program, Signature, State
from jfuse.ir.trace import trace_graph
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes
from tests.models.recurrences.recurrent_shells import Random
from tests.models.recurrences.recurrent_steps import single
from tests.models.recurrences.recurrent_steps import svdf as written_out
from tests.passes.quantize.models import drawn, names_of, snr_db
from tests.tflite.programs import f32

UNITS, INPUTS, MEMORY = 8, 16, 6


def float_file(rank: int = 2, activation: str = "RELU", bias: bool = True) -> bytes:
    """A file that keeps the memory of an SVDF, with a dense layer behind it."""
    features, times = drawn(UNITS * rank, INPUTS, scale=0.4), drawn(UNITS * rank, MEMORY, scale=0.5)

    def step(x: Any, memory: Any) -> Any:
        of_units = drawn(UNITS) if bias else None
        y, memory = ops.svdf(x, features, times, of_units, memory, rank=rank, fused_activation_function=activation)
        return ops.fully_connected(y, drawn(4, UNITS), drawn(4)), memory

    shape = (1, UNITS * rank * MEMORY)
    state = State("memory", Const(np.zeros(shape, np.float32)), "tensor")
    graph = trace_graph(step, [f32(1, INPUTS), f32(*shape)])
    return to_bytes(Program((Signature("serving_default", graph, ("x",), ("y",), (state,)),)))


def sequences(count: int = 8) -> list[list[list[np.ndarray]]]:
    """Calls in a row, ten each."""
    return [[[drawn(1, INPUTS, seed=10 * i + n)] for n in range(10)] for i in range(count)]


ROWS: dict[str, tuple[dict[str, Any], str, bool]] = {
    "rank 2": ({}, "int8", True),
    "rank 1 without a bias": ({"rank": 1, "bias": False}, "micro", True),
    "no activation": ({"activation": "NONE"}, "int8", False),
    "cut off on both sides": ({"activation": "RELU_N1_TO_1"}, "int8", False),
    "symmetric": ({}, "npu_symmetric", False),
    "16 bits": ({"activation": "TANH"}, "int16x8", False),
}
"""What the SVDF is, the recipe, and whether the kernel of integers has it: else it is spelled in other operators."""
slow = [pytest.param(name, marks=pytest.mark.slow) for name in list(ROWS)[1:]]


@pytest.mark.parametrize("name", ["rank 2", *slow])
def test_a_file_that_keeps_its_memory(name: str, tmp_path: Path) -> None:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    of, recipe, fused = ROWS[name]
    source = tmp_path / "float.tflite"
    source.write_bytes(float_file(**of))
    lite = jfuse.quantize(source, jfuse.Recipe.named(recipe, inputs="float32", outputs="float32"), sequences())
    assert not [q for q in lite.report.quantized if q.reason]
    assert ("svdf" in names_of(lite.program)) == fused
    assert [k.where for k in lite.report.kept] == ["the state tensor of svdf" if fused else "a variable"]
    micro = runtime.Interpreter.from_bytes(lite.to_bytes())
    in_float, in_integers = LiteRt(source.read_bytes()), LiteRt(lite.to_bytes())
    exact = (lite.stream(), lite.rounded_as("tflm").stream()) if fused else ()
    answers: list[Any] = []
    for (x,) in sequences(1)[0]:
        call = {"x": x}
        micro.set_input(x, 0)
        micro.invoke()
        found = in_integers.run("serving_default", call)["y"], micro.get_output(0)
        answers.append((in_float.run("serving_default", call)["y"], *found))
        for model, answer in zip(exact, found, strict=False):
            np.testing.assert_array_equal(model.run(call, "serving_default")["y"], answer)
    wanted, *others = map(np.stack, zip(*answers, strict=True))
    assert min(snr_db(found, wanted) for found in others) > (30 if fused else 24)  # 24: its steps have eight bits, too


@pytest.mark.slow
@pytest.mark.parametrize("batch", [1, None])
def test_a_step_that_is_written_out(batch: int | None) -> None:
    """Its memory is an input and a result, which the operator gets from its state tensor."""
    step = single(written_out()(Random()), batch)
    x, memory = step.input_signature
    calls = [{s.name: drawn(batch or 2, s.shape[1], seed=seed) for s in (x, memory)} for seed in range(40)]
    lite = jfuse.convert(step, verify=False, quantize="int8", calibration=calls)
    assert not [q for q in lite.report.quantized if q.reason]
    assert "svdf" in names_of(lite.program)
    runner = LiteRt(lite.to_bytes())
    for call in [calls[0], calls[1], calls[0]]:
        found, wanted = runner.run("serving_default", call), step(call["x"], call["s0"])
        assert min(snr_db(found[name], wanted[name].numpy()) for name in wanted) > 30
