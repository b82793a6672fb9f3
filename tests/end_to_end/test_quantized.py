"""Quantized files from a model in memory and from a file: what `convert`, `quantize` and the command line write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli.app import app
from jfuse.quantization.calibrate import calibrate
from jfuse.quantization.statistics import Observed
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import program_of, snr_db

SIZE = (12, 12, 3)


def _awake(model: Any) -> Any:
    """The model with biases: without them the official converter leaves the operand out."""
    rng = np.random.default_rng(9)
    for weight in model.weights:
        if not np.any(weight.numpy()):
            weight.assign(rng.standard_normal(weight.shape) * 0.1)
    return model


@pytest.fixture(scope="module")
def cnn() -> Any:
    """A small classifier with a convolution, a depthwise one, pooling and a dense layer."""
    import keras

    keras.utils.set_random_seed(3)
    layers = keras.layers
    return _awake(
        keras.Sequential(
            [
                keras.Input(SIZE),
                layers.Conv2D(16, 3, padding="same", activation="relu"),
                layers.DepthwiseConv2D(3, padding="same"),
                layers.ReLU(6.0),
                layers.MaxPooling2D(),
                layers.Conv2D(32, 3, strides=2),
                layers.GlobalAveragePooling2D(),
                layers.Dense(40),
            ]
        )
    )


def _samples(count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(11)
    return [rng.standard_normal((2, *SIZE)).astype(np.float32) for _ in range(count)]


def _answers(data: bytes, samples: list[np.ndarray], *, delegates: bool = True) -> np.ndarray:
    runner = LiteRt(data, delegates=delegates)
    ((key, (inputs, outputs)),) = runner.signatures().items()
    return np.stack([runner.run(key, {inputs[0]: x})[outputs[0]] for x in samples])


def test_weights_of_a_keras_model_and_of_its_file(cnn: Any, tmp_path: Path) -> None:
    samples = _samples(3)
    wanted = np.stack([np.asarray(cnn(x)) for x in samples])
    result = jfuse.convert(cnn, quantize="dynamic")
    assert result.report.differences  # the float model was compared with TensorFlow
    assert result.unquantized is not None
    for delegates in (True, False):
        assert snr_db(_answers(result.to_bytes(), samples, delegates=delegates), wanted) > 30
    result.unquantized.save(tmp_path / "float.tflite")
    again = jfuse.quantize(tmp_path / "float.tflite", "dynamic")
    np.testing.assert_array_equal(_answers(again.to_bytes(), samples), _answers(result.to_bytes(), samples))
    assert len(again.to_bytes()) < 0.5 * (tmp_path / "float.tflite").stat().st_size
    command = ["quantize", str(tmp_path / "float.tflite"), "-o", str(tmp_path / "small.tflite"), "--recipe", "float16"]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    assert "conv_2d: f16 constants" in done.output
    assert snr_db(_answers((tmp_path / "small.tflite").read_bytes(), samples), wanted) > 60


def test_a_keras_model_in_integers(cnn: Any) -> None:
    samples, calibration = _samples(3), np.concatenate(_samples(20))
    wanted = np.stack([np.asarray(cnn(x)) for x in samples])
    result = jfuse.convert(cnn, quantize="int8", calibration=calibration)
    for delegates in (True, False):
        assert snr_db(_answers(result.to_bytes(), samples, delegates=delegates), wanted) > 25
    where = {n.where: n.snr_db for n in result.report.noise}
    assert set(where) == {"LiteRT", "LiteRT without XNNPACK"}
    assert all(25 < snr < 60 for snr in where.values())
    assert not [q for q in result.report.quantized if q.form == "float"]


def test_statistics_stand_for_data(tmp_path: Path) -> None:
    types = jfuse.ir.types
    rows = types.TensorType((3, 5), types.DType.f32)
    program = program_of(lambda x: jfuse.ops.tanh(jfuse.ops.mul(x, np.float32(2))), rows)
    watched = [Observed(var) for var in program.graphs()[0].inputs] + [Observed(program.graphs()[0].eqns[0].outputs[0])]
    statistics = calibrate(program, watched, "random")
    statistics.save(tmp_path / "seen.npz")
    for data in (statistics, tmp_path / "seen.npz", "random"):
        assert jfuse.quantize(jfuse.Model(program), "int8", data).report.noise[0].snr_db > 30


def test_a_file_that_answers_something_else_is_an_error() -> None:
    types = jfuse.ir.types
    far = np.float32(1e4)
    program = program_of(lambda x: jfuse.ops.sub(jfuse.ops.add(x, far), far), types.TensorType((3, 5), types.DType.f32))
    text = r"does not answer like the model(.|\n)*SNR above 0 dB(.|\n)*int16x8"
    with pytest.raises(jfuse.VerifyFailed, match=text):
        jfuse.quantize(jfuse.Model(program), "int8", "random")


def test_calibration_without_a_recipe_is_refused() -> None:
    with pytest.raises(jfuse.JfuseError, match=r"calibration= needs quantize="):
        jfuse.convert(lambda x: x, calibration="random")


def _mlp() -> Any:
    import keras

    keras.utils.set_random_seed(4)
    layers = keras.layers
    dense = [layers.Dense(96, "relu"), layers.Dense(64, "tanh"), layers.Dense(8)]
    return _awake(keras.Sequential([keras.Input((48,)), *dense]))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["float16", "dynamic", "int8", "int16x8"])
@pytest.mark.parametrize("name", ["cnn", "mlp"])
def test_at_least_as_near_as_the_official_file(cnn: Any, name: str, mode: str) -> None:
    """Both of the same samples, over three draws of them, as one is a decibel better or worse by chance.

    Half a decibel is what the ties of a rounding make.
    """
    import tensorflow as tf

    model = cnn if name == "cnn" else _mlp()
    shape = model.input_shape[1:]
    snr: dict[Any, list[float]] = {jfuse.TFLiteConverter: [], tf.lite.TFLiteConverter: []}
    sizes = []
    for seed in (5, 6, 7) if mode in ("int8", "int16x8") else (5,):
        rng = np.random.default_rng(seed)
        calibration, samples = (rng.standard_normal((n, 1, *shape)).astype(np.float32) for n in (50, 20))
        wanted = np.stack([np.asarray(model(x)) for x in samples])
        for of, values in snr.items():
            data = _converter(of, model, mode, calibration).convert()
            values.append(snr_db(_answers(data, list(samples)), wanted))
            sizes.append(len(data))
    found, official = (float(np.mean(values)) for values in snr.values())
    assert found > official - 0.5
    assert sizes[0] < 1.03 * sizes[1]


def _converter(of: Any, model: Any, mode: str, calibration: np.ndarray) -> Any:
    """A converter of either library, as the guides set it for a mode."""
    import tensorflow as tf

    found = of.from_keras_model(model)
    found.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "float16":
        found.target_spec.supported_types = [tf.float16]
    if mode in ("int8", "int16x8"):
        found.representative_dataset = lambda: ([x] for x in calibration)
    if mode == "int16x8":
        int16 = tf.lite.OpsSet.EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8
        found.target_spec.supported_ops = [int16, tf.lite.OpsSet.TFLITE_BUILTINS]
    return found
