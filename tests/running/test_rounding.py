"""`Model.rounded_as`: an integer file on XLA answers as the runtime that a rounding is named after, in every bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter, OpResolverType

import jfuse
from bench.runtimes import emulated
from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.kernels.core.integer_types import ROUNDINGS
from jfuse.model import Model
from jfuse.running.micro import MicroInterpreter
from tests.kernels.integer.oracles import in_runtime
from tests.passes.quantize.models import drawn, program_of

X = TensorType((1, 6, 8), DType.f32)
SAMPLES = [drawn(1, 6, 8, seed=i) for i in range(24)]


def network(x: Any) -> Any:
    x = ops.fully_connected(x, drawn(16, 8, scale=0.4), drawn(16), keep_num_dims=True, fused_activation_function="RELU")
    x = ops.softmax(ops.mean(ops.tanh(x), np.array([1], np.int32), keep_dims=False), beta=1.0)
    return ops.fully_connected(x, drawn(4, 16, seed=2), None)


def recurrent(x: Any) -> Any:
    weights = [drawn(12, n, scale=0.5, seed=i) for i, n in enumerate([8] * 4 + [12] * 4)]
    biases = [drawn(12, scale=0.2, seed=9 + i) for i in range(4)]
    h, c = np.zeros((1, 12), np.float32), np.zeros((1, 12), np.float32)
    operands = (x, *weights, None, None, None, *biases, None, None, h, c)
    return ops.unidirectional_sequence_lstm(*operands, fused_activation_function="TANH", time_major=False)[0]


def in_integers(net: Callable[[Any], Any], recipe: Any = "int8", **options: Any) -> Model:
    chosen = {"prefer": "fused", **options}  # the operators as they are
    return jfuse.quantize(Model(program_of(net, X)), recipe, SAMPLES, verify=False, **chosen)


def in_litert(data: bytes, resolver: OpResolverType, x: np.ndarray) -> np.ndarray:
    interpreter = Interpreter(model_content=data, experimental_op_resolver_type=resolver)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    interpreter.invoke()
    return np.asarray(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))


def in_micro(data: bytes, x: np.ndarray) -> np.ndarray:
    runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    interpreter = runtime.Interpreter.from_bytes(data)
    interpreter.set_input(x, 0)
    interpreter.invoke()
    return np.asarray(interpreter.get_output(0))


def on_arm64(data: bytes, x: np.ndarray) -> np.ndarray:
    ((answer,),) = in_runtime(data, "arm64", [[x]])
    return answer


RUNTIMES: dict[str, Callable[[bytes, np.ndarray], np.ndarray]] = {
    "xnnpack": lambda data, x: in_litert(data, OpResolverType.AUTO, x),
    "reference": lambda data, x: in_litert(data, OpResolverType.BUILTIN_REF, x),
    "tflm": in_micro,
    "arm64": on_arm64,
}


@pytest.mark.parametrize("net", [network, recurrent])
def test_each_rounding_is_that_of_its_runtime(net: Callable[[Any], Any]) -> None:
    model = in_integers(net)
    answers = {}
    installed = [r for r in ROUNDINGS if r != "arm64" or not emulated.why_missing()]
    for rounding in installed:
        rounded = model.rounded_as(rounding)
        answers[rounding] = np.stack([rounded(x) for x in SAMPLES])
        wanted = np.stack([RUNTIMES[rounding](model.to_bytes(), x) for x in SAMPLES])
        np.testing.assert_array_equal(answers[rounding], wanted, err_msg=rounding)
    assert not np.array_equal(answers["tflm"], answers["xnnpack"])  # else nothing was tried
    np.testing.assert_array_equal(np.stack([model(x) for x in SAMPLES]), answers["xnnpack"])


def test_a_file_for_tflite_micro_alone_runs_as_there() -> None:
    model = in_integers(recurrent, "int16x8", target="tflite-micro")
    assert model.report.operators["unidirectional_sequence_lstm"] == 1
    for x in SAMPLES[:4]:
        np.testing.assert_array_equal(model(x), in_micro(model.to_bytes(), x))
    compared = {(d.pair, d.error) for d in jfuse.verify(model.to_bytes()).differences}
    assert compared == {("xla/tflite-micro", 0.0)}


def test_verification_in_tflite_micro_is_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tflite_micro.python.tflite_micro.runtime")
    data = in_integers(recurrent).to_bytes()
    found = {d.pair: d.error for d in jfuse.verify(data, options=jfuse.Verify(runtimes=["tflite-micro"])).differences}
    assert found == {"xla/litert": 0.0, "xla/tflite-micro": 0.0}

    def off_by_a_step(
        self: MicroInterpreter, inputs: dict[str, np.ndarray], key: str | None = None
    ) -> dict[str, np.ndarray]:
        (answer,) = run(self, inputs, key).values()
        answer.flat[0] += 1 / 128
        return {"y0": answer}

    run = MicroInterpreter.run
    monkeypatch.setattr(MicroInterpreter, "run", off_by_a_step)
    with pytest.raises(VerifyFailed, match=r"differs \(xla/tflite-micro\)"):
        jfuse.verify(data, options=jfuse.Verify(runtimes=["tflite-micro"]))


def test_what_no_body_rounds_so_is_named() -> None:
    peepholes = [drawn(12, scale=0.1, seed=40 + i) for i in range(3)]

    def with_peepholes(x: Any) -> Any:
        weights = [drawn(12, n, scale=0.5, seed=i) for i, n in enumerate([8] * 4 + [12] * 4)]
        h, c = np.zeros((1, 12), np.float32), np.zeros((1, 12), np.float32)
        operands = (x, *weights, *peepholes, *[drawn(12)] * 4, None, None, h, c)
        return ops.unidirectional_sequence_lstm(*operands, fused_activation_function="TANH", time_major=False)[0]

    model = in_integers(with_peepholes)
    with pytest.raises(JfuseError, match="computes unidirectional_sequence_lstm as tflm does"):
        model.rounded_as("tflm")
    with pytest.raises(JfuseError, match="no rounding 'cmsis'"):
        model.rounded_as("cmsis")  # type: ignore[arg-type]
