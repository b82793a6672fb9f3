"""Ranges that training found become parameters of tensors, and weights keep their numbers."""

from __future__ import annotations

from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Const, Eqn
from jfuse.kernels import ops
from jfuse.passes.quantize.arrays import grid_scale
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import (
    KEY,
    calibrated,
    drawn,
    eqns_of,
    names_of,
    program_of,
    quantization,
    quantized,
    snr_db,
)
from tests.tflite.programs import f32

rounded = tf.quantization.fake_quant_with_min_max_vars
by_channel = tf.quantization.fake_quant_with_min_max_vars_per_channel
X = tf.TensorSpec([None, 8, 8, 3], tf.float32)


def weights_of(eqn: Eqn) -> np.ndarray:
    """The float numbers that the weights of an equation stand for."""
    const = eqn.inputs[1]
    assert isinstance(const, Const)
    scale = np.array(quantization(const).scale, np.float32)
    return np.asarray(const.array * scale.reshape(-1, *[1] * (const.array.ndim - 1)))


@pytest.mark.parametrize("last", [127, 7])
def test_the_grid_of_numbers_that_lie_on_one(last: int) -> None:
    generator = np.random.default_rng(last)
    steps = generator.integers(-last, last + 1, (16, 40))
    steps[:, 0] = last
    scale = generator.uniform(1e-3, 1, (16, 1)).astype(np.float32)
    np.testing.assert_allclose(grid_scale(steps * scale, (1,), last), scale, rtol=1e-6)
    steps[3, 5] = -last - 1  # an integer of the type that weights do not use
    np.testing.assert_allclose(grid_scale(steps * scale, (1,), last), scale, rtol=1e-6)
    numbers = generator.standard_normal((16, 40)).astype(np.float32)
    assert not grid_scale(numbers, (1,), last).any()
    assert not grid_scale(np.zeros((2, 3), np.float32), (1,), last).any()


def trained_network() -> tuple[Any, np.ndarray, np.ndarray]:
    """A small convolutional network as quantization-aware training leaves it, and its rounded weights."""
    kernel, dense = drawn(3, 3, 3, 8, scale=0.3), drawn(128, 10, scale=0.3)
    most = np.abs(kernel).max((0, 1, 2))

    @tf.function(input_signature=[X])
    def network(x: Any) -> Any:
        x = rounded(x, -2.0, 2.0)
        x = tf.nn.conv2d(x, by_channel(kernel, -most, most, narrow_range=True), 1, "SAME")
        x = rounded(tf.nn.relu(x + drawn(8)), 0.0, 6.0)
        x = tf.reshape(tf.nn.max_pool2d(x, 2, 2, "VALID"), [-1, 128])
        y = rounded(tf.matmul(x, rounded(dense, -1.0, 1.0, narrow_range=True)), -8.0, 8.0, narrow_range=True)
        return tf.concat([y, rounded(tf.tanh(y), -1.0, 1.0)], -1)

    convolved = by_channel(kernel, -most, most, narrow_range=True).numpy().transpose(3, 0, 1, 2)
    return network, convolved, rounded(dense, -1.0, 1.0, narrow_range=True).numpy().T


def test_a_trained_network_needs_no_calibration() -> None:
    network, convolved, dense = trained_network()
    lite = jfuse.convert(network, quantize="int8", verify=False)
    assert [q.op for q in lite.report.quantized if q.reason] == ["concatenation"]
    # One QUANTIZE at the input, and a DEQUANTIZE for each part of the output: that of TANH has a scale of its own.
    wanted = [
        "quantize",
        "conv_2d",
        "max_pool_2d",
        "fully_connected",
        "tanh",
        "dequantize",
        "dequantize",
        "concatenation",
    ]
    assert names_of(lite.program) == wanted
    entered, conv, _, product, *_ = eqns_of(lite.program)
    scales = [quantization(eqn.outputs[0]).scale[0] for eqn in (entered, conv, product)]
    np.testing.assert_allclose(scales, [4 / 255, 6 / 255, 16 / 254], rtol=1e-6)
    assert [quantization(eqn.outputs[0]).zero_point[0] for eqn in (entered, conv, product)] == [-1, -128, 0]
    np.testing.assert_allclose(weights_of(conv), convolved, atol=1e-6)
    np.testing.assert_allclose(weights_of(product), dense, atol=1e-6)
    x = drawn(512, 8, 8, 3)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for _ in range(2):
        (found,) = runner.run(lite.signature().key, {given: x}).values()
        off = np.abs(found - network(x).numpy())
        # What rounds otherwise in float than in integers is off by a step, and so may be what follows.
        assert off.max() < 2.1 * scales[2]
        assert np.mean(off[:, :10] > scales[2] / 2) < 0.05


@pytest.mark.slow
def test_without_quantization_the_network_rounds_as_it_was_trained() -> None:
    network, *_ = trained_network()
    lite = jfuse.convert(network)
    assert names_of(lite.program).count("fake_quant") == 3  # the narrow range is spelled: no kernel takes it
    assert lite.report.differences


@pytest.mark.parametrize(("recipe", "bits"), [("int16x8", 16), ("npu_symmetric", 8)])
def test_what_the_range_cuts_off_stays_cut_off(recipe: str, bits: int) -> None:
    """Symmetric integers reach below 0, where training saw nothing."""
    program = program_of(
        lambda x: ops.fake_quant(ops.fully_connected(x, drawn(4, 8), None), min=0.0, max=6.0, num_bits=bits),
        f32(2, 8),
    )
    calls = [{"x0": drawn(2, 8, seed=i)} for i in range(8)]
    lite = calibrated(program, jfuse.Recipe.named(recipe), calls)
    assert "maximum" in names_of(lite.program)
    for call in calls:
        (found,) = LiteRt(lite.to_bytes()).run(KEY, call).values()
        assert found.min() >= 0
        np.testing.assert_allclose(found, np.clip(call["x0"] @ drawn(4, 8).T, 0, 6), atol=0.2)


def test_what_has_no_range_is_named() -> None:
    def model(x: Any) -> Any:
        y = ops.fully_connected(ops.fake_quant(x, min=-1.0, max=1.0, num_bits=8), drawn(4, 8), None)
        return ops.fully_connected(y, drawn(4, 4), None)

    with pytest.raises(JfuseError, match="2 values without a range; the first is"):
        quantized(program_of(model, f32(2, 8)), jfuse.Recipe.named("int8"))


class TrainedCell(keras.layers.Layer):
    """An LSTM cell with rounded weights and values, as one writes it by hand."""

    def __init__(self, units: int) -> None:
        super().__init__()
        self.units, self.state_size = units, [units, units]

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(shape[-1], 4 * self.units), initializer="glorot_uniform")
        self.recurrent = self.add_weight(shape=(self.units, 4 * self.units), initializer="orthogonal")
        self.bias = self.add_weight(shape=(4 * self.units,), initializer="ones")

    def call(self, x: Any, states: Any) -> Any:
        h, c = states
        entering = tf.matmul(x, rounded(self.kernel, -1.0, 1.0, narrow_range=True))
        total = entering + tf.matmul(h, rounded(self.recurrent, -1.0, 1.0, narrow_range=True)) + self.bias
        i, f, g, o = tf.split(rounded(total, -8.0, 8.0, num_bits=16), 4, 1)
        c = rounded(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), -4.0, 4.0, num_bits=16)
        h = rounded(tf.sigmoid(o) * tf.tanh(c), -1.0, 1.0)
        return h, [h, c]


@pytest.mark.slow
def test_a_recurrence_fuses_around_its_ranges() -> None:
    keras.utils.set_random_seed(0)
    given = keras.Input((12, 8))
    entered = keras.layers.Lambda(lambda x: rounded(x, -3.0, 3.0))(given)
    model = keras.Model(given, keras.layers.RNN(TrainedCell(16), return_sequences=True)(entered))
    floats = jfuse.convert(model, verify=False)
    assert [r.condition for r in floats.report.refused] == ["unexplained_switch"]
    data = [drawn(1, 12, 8, seed=i) for i in range(40)]
    lite = jfuse.convert(model, quantize="int8", calibration=data, forms=jfuse.Forms(prefer="fused"))
    assert "unidirectional_sequence_lstm" in names_of(lite.program)
    assert not {"fake_quant", "while"} & set(names_of(lite.program))
    (lstm,) = (eqn for eqn in eqns_of(lite.program) if eqn.op.cell)
    np.testing.assert_allclose(quantization(lstm.outputs[0]).scale[0], 2 / 255, rtol=1e-6)
    assert lite.unquantized is not None
    assert "fake_quant" in names_of(lite.unquantized.program)  # what the file is compared with is the source
    runner, (name,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for seed in (50, 51, 50, 52, 50):
        x = drawn(3, 12, 8, seed=seed)
        (found,) = runner.run(lite.signature().key, {name: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 35


# Keras reads its own variables so.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.parametrize(
    ("recipe", "terms"), [("dynamic", 64), ("dynamic", 520), pytest.param("int8", 800, marks=pytest.mark.slow)]
)
def test_the_integers_of_a_quantized_keras_model_are_those_of_the_file(recipe: Any, terms: int) -> None:
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.Input((terms,)), keras.layers.Dense(48, activation="relu"), keras.layers.Dense(32)])
    with pytest.warns(UserWarning, match="InputLayer"):
        model.quantize("int8")
    data = [drawn(4, terms, seed=i) for i in range(20)] if recipe == "int8" else None
    lite = jfuse.convert(model, quantize=recipe, calibration=data, verify=False)
    products = [eqn for eqn in eqns_of(lite.program) if eqn.op is ops.fully_connected]
    for eqn, layer in zip(products, model.layers, strict=True):
        assert isinstance(eqn.inputs[1], Const)
        np.testing.assert_array_equal(eqn.inputs[1].array, tf.convert_to_tensor(layer._kernel.value).numpy().T)
    # Nothing is left of the arithmetic that rounds what goes in: kernels do.
    assert {"fully_connected", "quantize", "dequantize"} >= set(names_of(lite.program))
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for seed in (30, 31, 30):
        x = drawn(4, terms, seed=seed)
        (found,) = runner.run(lite.signature().key, {given: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 30


def _einsum() -> Any:
    dense = keras.layers.EinsumDense("abc,cd->abd", output_shape=(None, 48), bias_axes="d")
    return keras.Sequential([keras.Input((10, 64)), dense, keras.layers.EinsumDense("abc,cd->abd", (None, 32))])


def _embedding() -> Any:
    layers = [keras.layers.Embedding(100, 64), keras.layers.Dense(32)]
    return keras.Sequential([keras.Input((10,), dtype="int32"), *layers])


# Keras reads its own variables so.
@pytest.mark.filterwarnings("ignore:__array__ implementation:DeprecationWarning")
@pytest.mark.filterwarnings("ignore:.*InputLayer:UserWarning")
@pytest.mark.slow
@pytest.mark.parametrize("mode", ["int8", "int4"])
@pytest.mark.parametrize("build", [_einsum, _embedding])
def test_the_integers_of_other_quantized_keras_layers_are_kept(build: Any, mode: str) -> None:
    model = build()
    model.quantize(mode)
    lite = jfuse.convert(model, quantize="dynamic", verify=False)
    assert "round" not in names_of(lite.program)
    stored = [a.array for e in eqns_of(lite.program) for a in e.inputs if isinstance(a, Const) and a.array.size > 1000]
    assert {array.dtype for array in stored} == {np.dtype(np.int8)}
    if mode == "int8":  # those of int4 are packed in the layer
        kernels = [tf.convert_to_tensor(w.value).numpy() for w in model.weights if w.dtype == "int8"]
        assert len(kernels) == len(stored) == 2
        for kernel, found in zip(kernels, stored, strict=True):
            np.testing.assert_array_equal(found, kernel if found.shape == kernel.shape else kernel.T)
    runner, (given,) = LiteRt(lite.to_bytes()), lite.signature().input_names
    for seed in (30, 31, 30):
        is_ids = build is _embedding
        x = np.random.default_rng(seed).integers(0, 100, (4, 10), np.int32) if is_ids else drawn(4, 10, 64, seed=seed)
        (found,) = runner.run(lite.signature().key, {given: x}).values()
        assert snr_db(found, np.asarray(model(x))) > 30


def test_float8_is_refused_by_name() -> None:
    model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(4)])
    with pytest.warns(UserWarning, match="InputLayer"):
        model.quantize("float8")
    with pytest.raises(JfuseError, match="DT_FLOAT8_E4M3FN"):
        jfuse.convert(model, verify=False)
