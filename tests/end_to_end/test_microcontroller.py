"""Models on tflite-micro: files for LiteRT, and files for it as the target, right on every call."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
import tf_keras

import jfuse
from tests.models.keras_libraries import awake
from tests.slow import slow_but

runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="the wheel is for Python 3.11 alone")
layers = keras.layers

MODELS: dict[str, tuple[tuple[int, ...], list[Any]]] = {
    "lstm": ((1, 10, 4), [layers.LSTM(8)]),
    "one unit": ((1, 10, 4), [layers.LSTM(1)]),
    "wide": ((1, 5, 4), [layers.LSTM(96)]),
    "three rows": ((3, 10, 4), [layers.LSTM(16)]),
    "sequences": ((2, 7, 4), [layers.LSTM(8, return_sequences=True)]),
    "stacked": ((1, 10, 4), [layers.LSTM(8, return_sequences=True), layers.LSTM(4), layers.Dense(3)]),
    "backwards": ((1, 10, 4), [layers.LSTM(8, go_backwards=True)]),
    "gru": ((1, 10, 4), [layers.GRU(8)]),
    "keyword spotter": (
        (1, 20, 8, 1),
        [layers.Conv2D(4, 3, activation="relu"), layers.Reshape((18, 24)), layers.LSTM(8)],
    ),
}


@pytest.mark.parametrize("name", slow_but(lambda name: name not in ("one unit", "three rows", "lstm"), MODELS))
def test_stateless_models_answer_alike_on_five_calls(name: str) -> None:
    shape, stack = MODELS[name]
    model = awake(keras.Sequential([keras.Input(batch_shape=shape), *stack]))
    interpreter = runtime.Interpreter.from_bytes(jfuse.convert(model, verify=False).to_bytes())
    for seed in (0, 1, 0, 2, 0):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        wanted = np.asarray(model(x))
        # 2e-6: sums of up to 100 terms in f32 over 20 steps, in another order
        assert np.abs(interpreter.get_output(0) - wanted).max() <= 2e-6 * np.abs(wanted).max()


@pytest.mark.slow
def test_a_gru_of_keras_2_that_resets_before_the_product() -> None:
    """It cuts a part without elements off its weights' sums, which tflite-micro takes for one of unknown size."""
    x = np.random.default_rng(0).standard_normal((1, 6, 4)).astype(np.float32)
    gru = tf_keras.layers.GRU(8, reset_after=False)
    model = tf_keras.Sequential([tf_keras.Input(batch_shape=x.shape), gru])
    lite = jfuse.convert(model, target="tflite-micro", verify=False)
    interpreter = runtime.Interpreter.from_bytes(lite.to_bytes())
    for _ in range(3):
        interpreter.set_input(x, 0)
        interpreter.invoke()
        np.testing.assert_allclose(interpreter.get_output(0), model(x), rtol=2e-5, atol=1e-7)  # sums in another order


@pytest.mark.slow
def test_masks_of_which_the_right_end_is_promised() -> None:
    """The LSTM stays one operator; how many steps count is a sum of integers, which tflite-micro does not have."""
    shape = (2, 7, 4)
    model = awake(keras.Sequential([keras.Input(batch_shape=shape), layers.Masking(), layers.LSTM(8)]))
    lite = jfuse.convert(model, target="tflite-micro", forms=jfuse.Forms(padding="right"), verify=False)
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1
    interpreter = runtime.Interpreter.from_bytes(lite.to_bytes())
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
        x[0, 3 + seed :], x[1, 6 - seed :] = 0, 0
        interpreter.set_input(x, 0)
        interpreter.invoke()
        np.testing.assert_allclose(interpreter.get_output(0), model(x), rtol=2e-5, atol=1e-6)  # sums in another order


def test_a_stateful_model_goes_on() -> None:
    model = awake(keras.Sequential([keras.Input(batch_shape=(1, 4, 3)), layers.LSTM(8, stateful=True)]))
    interpreter = runtime.Interpreter.from_bytes(jfuse.convert(model, verify=False).to_bytes())
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((1, 4, 3)).astype(np.float32)
        interpreter.set_input(x, 0)
        interpreter.invoke()
        np.testing.assert_allclose(interpreter.get_output(0), model(x), rtol=2e-5, atol=1e-7)


TARGETED: dict[str, tuple[tuple[int, ...], list[Any]]] = {
    "bidirectional": (
        (1, 8, 4),
        [layers.Bidirectional(layers.LSTM(6, return_sequences=True)), layers.Bidirectional(layers.LSTM(3))],
    ),
    "masked": ((2, 8, 4), [layers.Masking(), layers.LSTM(6), layers.Dense(2)]),
    "simple rnn": ((1, 8, 4), [layers.SimpleRNN(6)]),
    "long simple rnn": ((1, 200, 4), [layers.SimpleRNN(48, return_sequences=True)]),
    "long gru": ((1, 300, 4), [layers.GRU(48, return_sequences=True)]),
    "pooled": (
        (1, 16, 16, 3),
        [layers.Conv2D(8, 3, activation="gelu"), layers.GlobalAvgPool2D(), layers.Dense(3)],
    ),
    "normalized": ((1, 8, 4), [layers.LayerNormalization(), layers.LSTM(6), layers.Softmax()]),
    "bidirectional rnn": ((1, 8, 4), [layers.Bidirectional(layers.SimpleRNN(6))]),
    "upsampled": ((1, 4, 4, 3), [layers.UpSampling2D(), layers.Conv2DTranspose(4, 3, strides=2), layers.ReLU(6)]),
    "depthwise": (
        (1, 8, 8, 3),
        [layers.DepthwiseConv2D(3, padding="same"), layers.BatchNormalization(), layers.MaxPool2D(), layers.Flatten()],
    ),
}
QUICK = ("masked",)


@pytest.mark.parametrize("name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in TARGETED])
def test_a_file_for_the_target_answers_like_keras(name: str) -> None:
    """The conversion itself compares TensorFlow with XLA, LiteRT and tflite-micro, several calls in a row."""
    shape, stack = TARGETED[name]
    model = awake(keras.Sequential([keras.Input(batch_shape=shape), *stack]))
    result = jfuse.convert(model, target="tflite-micro")
    pairs = {d.pair for d in result.report.differences}
    assert "tensorflow/tflite-micro" in pairs
    found = jfuse.check(result, "tflite-micro")
    assert found.runs
    assert found.arena_bytes is not None
    assert 500 < found.arena_bytes < 1_000_000


def test_one_error_lists_all_that_the_target_lacks() -> None:
    @tf.function(input_signature=[tf.TensorSpec([2, 6], tf.float32, name="x")])
    def call(x: Any) -> Any:
        return tf.math.top_k(x, 2).values, tf.math.atan2(x, 1.5)

    with pytest.raises(jfuse.LowerError) as error:
        jfuse.convert(call, target="tflite-micro", verify=False)
    text = str(error.value)
    assert "2 ops have no spelling on the target tflite-micro" in text
    assert "tflite-micro has no TOPK_V2" in text
    assert "tflite-micro has no ATAN2" in text
    assert "jfuse check FILE --target tflite-micro" in text


def test_open_sizes_are_refused_before_anything_else() -> None:
    model = keras.Sequential([keras.Input((5, 3)), layers.LSTM(4)])
    with pytest.raises(jfuse.LowerError, match="all sizes must be fixed") as error:
        jfuse.convert(model, target="tflite-micro")
    assert "batch=1" in str(error.value)


def test_a_runtime_that_refuses_a_file_says_what_it_lacks(tmp_path: Path) -> None:
    model = awake(keras.Sequential([keras.Input(batch_shape=(1, 4, 3)), layers.SimpleRNN(4)]))
    jfuse.convert(model, verify=False).save(tmp_path / "rnn.tflite")
    with pytest.raises(jfuse.VerifyFailed, match="does not run the file") as error:
        jfuse.verify(tmp_path / "rnn.tflite", options=jfuse.Verify(runtimes=["tflite-micro"]))
    assert "UNIDIRECTIONAL_SEQUENCE_RNN" in str(error.value)
    found = jfuse.check(tmp_path / "rnn.tflite", "tflite-micro")
    assert not found.runs
    assert [o.builtin for o in found.operators if o.where == "refused"] == ["UNIDIRECTIONAL_SEQUENCE_RNN"]


@pytest.mark.parametrize(("activation", "op"), [("exponential", "exp"), (keras.ops.log, "log")], ids=["exp", "log"])
def test_what_it_has_no_integer_kernel_for_stays_float(activation: Any, op: str) -> None:
    """LiteRT has integer kernels of these; the table of tflite-micro says that it has none."""
    stack = [layers.Dense(64, activation="sigmoid"), layers.Activation(activation), layers.Dense(4)]
    model = awake(keras.Sequential([keras.Input(batch_shape=(1, 32)), *stack]))
    rng = np.random.default_rng(0)
    samples = [rng.standard_normal((1, 32)).astype(np.float32) for _ in range(30)]
    lite = jfuse.convert(model, quantize="int8", calibration=samples, target="tflite-micro", verify=False)
    (left,) = (q for q in lite.report.quantized if q.op == op)
    assert left.reason == "the runtime has no kernel for i8"
    interpreter = runtime.Interpreter.from_bytes(lite.to_bytes())
    for x in samples[:5]:
        interpreter.set_input(x, 0)
        interpreter.invoke()
        wanted = np.asarray(model(x))
        # of the largest result: ten of the steps that 8 bits have
        assert np.abs(interpreter.get_output(0) - wanted).max() <= 10 / 256 * np.abs(wanted).max()
