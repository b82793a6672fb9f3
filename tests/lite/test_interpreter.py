"""`jfuse.lite.Interpreter` beside LiteRT's: the same loop gives the same details, answers and errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter as LiteRt

from jfuse import lite
from tests.lite import guides


@pytest.fixture(scope="module")
def lstm(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A file with one signature, [1, 5, 4] -> [1, 3]."""
    return guides.rnn_guide(lite, tmp_path_factory.mktemp("model"))


@pytest.fixture(scope="module")
def counter() -> bytes:
    """A file that keeps a state: f32[?, 2] -> the sum of all rows that it was ever given."""

    class Counter(tf.Module):
        def __init__(self) -> None:
            self.total = tf.Variable(tf.zeros([2]), name="total")

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
        def add(self, x: Any) -> Any:
            return self.total.assign_add(tf.reduce_sum(x, 0))

    module = Counter()
    return lite.TFLiteConverter.from_concrete_functions([module.add.get_concrete_function()], module).convert()


def both(data: bytes) -> list[Any]:
    return [LiteRt(model_content=data), lite.Interpreter(model_content=data)]


def comparable(details: list[dict[str, Any]]) -> list[str]:
    return [repr(sorted(d.items())) for d in details]


def test_an_evaluation_loop_gives_the_same(lstm: bytes) -> None:
    x = np.random.default_rng(1).normal(size=(3, 1, 5, 4)).astype(np.float32)
    answers = []
    for interpreter in both(lstm):
        interpreter.allocate_tensors()
        (given,), (taken,) = interpreter.get_input_details(), interpreter.get_output_details()
        for row in x:
            interpreter.set_tensor(given["index"], row)
            interpreter.invoke()
            answers.append(interpreter.get_tensor(taken["index"]))
    np.testing.assert_allclose(answers[:3], answers[3:], rtol=1e-5, atol=1e-6)


def test_details_are_the_official_ones(lstm: bytes, counter: bytes) -> None:
    for data in (lstm, counter):
        official, ours = both(data)
        assert comparable(official.get_input_details()) == comparable(ours.get_input_details())
        assert comparable(official.get_output_details()) == comparable(ours.get_output_details())
        assert official.get_signature_list() == ours.get_signature_list()
        names = [d["name"] for d in official.get_tensor_details()]
        assert names == [d["name"] for d in ours.get_tensor_details()][: len(names)]


def test_states_and_sizes_go_on_from_call_to_call(counter: bytes) -> None:
    answers = []
    for interpreter in both(counter):
        index = interpreter.get_input_details()[0]["index"]
        for rows in (1, 3):
            interpreter.resize_tensor_input(index, [rows, 2])
            interpreter.allocate_tensors()
            assert interpreter.get_input_details()[0]["shape"].tolist() == [rows, 2]
            interpreter.set_tensor(index, np.ones((rows, 2), np.float32))
            interpreter.invoke()
            answers.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).tolist())
    assert answers == [[1.0, 1.0], [4.0, 4.0]] * 2
    ours = lite.Interpreter(model_content=counter, engine="xla")  # LiteRT resets no resource variables
    runner = ours.get_signature_runner()
    assert [runner(x=np.ones((2, 2), np.float32))["output_0"].tolist() for _ in range(2)] == [[2.0, 2.0], [4.0, 4.0]]
    ours.reset_all_variables()
    assert runner(x=np.ones((2, 2), np.float32))["output_0"].tolist() == [2.0, 2.0]


def test_tensor_gives_the_array_itself(lstm: bytes) -> None:
    answers = []
    for interpreter in both(lstm):
        interpreter.allocate_tensors()
        interpreter.tensor(interpreter.get_input_details()[0]["index"])()[...] = 0.5
        interpreter.invoke()
        answers.append(interpreter.tensor(interpreter.get_output_details()[0]["index"])().copy())
    np.testing.assert_allclose(answers[0], answers[1], rtol=1e-5, atol=1e-6)


def test_a_path_is_read_and_a_missing_one_told(lstm: bytes, tmp_path: Path) -> None:
    (tmp_path / "model.tflite").write_bytes(lstm)
    assert lite.Interpreter(str(tmp_path / "model.tflite")).get_signature_list()
    for make in (LiteRt, lite.Interpreter):
        with pytest.raises(ValueError, match="Could not open"):
            make(str(tmp_path / "none.tflite"))


@pytest.mark.parametrize(
    ("use", "error", "message"),
    [
        (lambda i: i.set_tensor(0, np.zeros((1, 5, 4))), ValueError, "Got value of type FLOAT64"),
        (lambda i: i.set_tensor(0, np.zeros((2, 5, 4), np.float32)), ValueError, "Dimension mismatch"),
        (lambda i: i.get_signature_runner("other"), ValueError, "Invalid signature_key"),
        (lambda i: i.get_signature_runner()(other=np.zeros(1)), ValueError, "Invalid Input name"),
        (lambda i: i.get_signature_runner()(), ValueError, "Invalid number of inputs"),
        (lambda i: i.get_signature_runner()(x=np.zeros((1, 5, 4))), ValueError, "FLOAT64 but expected type FLOAT32"),
        (lambda i: i.get_signature_runner()(x=np.zeros((1, 5, 4), np.int8)), ValueError, "INT8 but expected"),
        (
            lambda i: i.resize_tensor_input(0, [1, 6, 4], strict=True),
            (ValueError, RuntimeError),
            "ResizeInputTensorStr",
        ),
    ],
)
def test_errors_are_of_the_official_kind(use: Any, error: Any, message: str, lstm: bytes) -> None:
    for interpreter in both(lstm):
        interpreter.allocate_tensors()
        with pytest.raises(error, match=message):
            use(interpreter)


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
def test_floats_for_a_quantized_input_are_refused(dtype: str) -> None:
    """A script that forgot to quantize its inputs gets an error from both, not answers to other inputs."""

    class Dense(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([1, 4], tf.float32, name="x")], autograph=False)
        def __call__(self, x: Any) -> Any:
            return {"y": tf.matmul(x, tf.eye(4))}

    module = Dense()
    converter = lite.TFLiteConverter.from_concrete_functions([module.__call__.get_concrete_function()], module)
    converter.optimizations = [lite.Optimize.DEFAULT]
    rows = np.random.default_rng(0).standard_normal((8, 1, 4)).astype(np.float32)
    converter.representative_dataset = lambda: ([row] for row in rows)
    converter.inference_input_type = converter.inference_output_type = getattr(tf, dtype)
    data = converter.convert()
    for interpreter in both(data):
        runner = interpreter.get_signature_runner()
        with pytest.raises(ValueError, match=f"FLOAT32 but expected type {dtype.upper()} for input 0, name: "):
            runner(x=rows[0])
        assert runner(x=np.zeros((1, 4), dtype))["y"].dtype == np.dtype(dtype)


def test_invoke_before_allocation_is_an_error(lstm: bytes) -> None:
    for interpreter in both(lstm):
        with pytest.raises(RuntimeError, match="not ready"):
            interpreter.invoke()


def test_the_kernels_of_a_script_are_named_as_officially(lstm: bytes) -> None:
    """By number and name; whichever it is, XLA answers."""
    ours, official = (m.experimental.OpResolverType for m in (lite, tf.lite))
    assert {m.name: m.value for m in ours} == {m.name: m.value for m in official}
    for kernels in (ours.BUILTIN_REF, official.BUILTIN_REF):
        runner = lite.Interpreter(model_content=lstm, experimental_op_resolver_type=kernels).get_signature_runner()
        assert runner.get_input_details()


def test_the_guide_of_training_on_a_device_trains_as_tensorflow_does(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((16, 8), np.float32), np.eye(3, dtype=np.float32)[rng.integers(0, 3, 16)]
    train = lite.Interpreter(model_content=guides.training_guide(lite, tmp_path)).get_signature_runner("train")
    eager = guides.Trained()
    losses = np.array([(train(x=x, y=y)["loss"], eager.train(x, y)["loss"].numpy()) for _ in range(4)])
    np.testing.assert_allclose(losses[:, 0], losses[:, 1], rtol=1e-5)
    assert losses[-1, 0] < losses[0, 0]


def test_the_analyzer_prints_the_operators(lstm: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lite.experimental.Analyzer.analyze(model_content=lstm, gpu_compatibility=True)
    printed = capsys.readouterr().out
    assert "unidirectional_sequence_lstm" in printed
    assert "litert-gpu" in printed
    (tmp_path / "model.tflite").write_bytes(lstm)
    lite.experimental.Analyzer.analyze(str(tmp_path / "model.tflite"))
    assert "unidirectional_sequence_lstm" in capsys.readouterr().out
    for analyzer in (lite.experimental.Analyzer, tf.lite.experimental.Analyzer):
        with pytest.raises(ValueError, match="neither `model_path` nor `model_content` is provided"):
            analyzer.analyze()
