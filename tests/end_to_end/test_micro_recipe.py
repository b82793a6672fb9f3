"""Models in the recipe "micro", integers alone, on tflite-micro and LiteRT: each against Keras on five calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import keras
import numpy as np
import pytest
from ai_edge_litert.interpreter import Interpreter

import jfuse
from tests.models.keras_libraries import awake
from tests.passes.quantize.models import snr_db
from tests.slow import slow_but

runtime = pytest.importorskip("tflite_micro.python.tflite_micro.runtime", reason="the wheel is for Python 3.11 alone")
layers = keras.layers
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers."""
    return rng.standard_normal(shape).astype(np.float32)


def padded(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers, from some step on zeros."""
    x = normal(rng, shape)
    for row in x:
        row[rng.integers(2, shape[1] + 1) :] = 0
    return x


def words(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Numbers of words, from some step on 0."""
    return np.where(padded(rng, shape) != 0, rng.integers(1, 20, shape), 0).astype(np.int32)


@dataclass(frozen=True)
class Case:
    """A stack of layers; at_least_db: over the noise that integers of 8 bits leave."""

    shape: tuple[int, ...]
    stack: Sequence[Any]
    at_least_db: float
    draw: Draw = normal
    options: dict[str, Any] = field(default_factory=dict)
    recipe: str = "micro"


def word_layer() -> Any:
    """An embedding of numbers near 1, with a mask."""
    return layers.Embedding(20, 6, mask_zero=True, embeddings_initializer=keras.initializers.RandomNormal(stddev=1.0))


def transformer() -> Any:
    """A block of attention and an MLP with GELU."""
    x = given = keras.Input(batch_shape=(1, 8, 16))
    normed = layers.LayerNormalization()(x)
    x = x + layers.MultiHeadAttention(2, 8)(normed, normed)
    x = x + layers.Dense(16)(layers.Dense(32, activation="gelu")(layers.LayerNormalization()(x)))
    return keras.Model(given, layers.GlobalAveragePooling1D()(x))


def cut_off() -> Any:
    """A RELU6 behind what no operator does as it ends, of numbers beyond 6: tflite-micro takes its scales for equal."""
    x = given = keras.Input(batch_shape=(1, 8, 16))
    return keras.Model(given, layers.Dense(3)(layers.ReLU(6.0)(layers.MaxPooling1D(2)(layers.Rescaling(4.0)(x)))))


CASES = {
    "masked gru": Case((1, 4, 3), [layers.Masking(), layers.GRU(4), layers.Dense(3)], 20, padded),
    "long masked gru": Case((1, 80, 6), [layers.Masking(), layers.GRU(8), layers.Dense(3)], 20, padded),
    "masked lstm": Case((2, 6, 3), [layers.Masking(), layers.LSTM(4, return_sequences=True)], 20, padded),
    "masked both ways": Case((1, 5, 3), [layers.Masking(), layers.Bidirectional(layers.LSTM(4))], 15, padded),
    "words": Case((1, 6), [word_layer(), layers.GRU(8), layers.Dense(3)], 20, words, {"dtype": "int32"}),
    "frames": Case((1, 3, 6, 6, 2), [layers.TimeDistributed(layers.Conv2D(3, 3)), layers.Cropping3D(1)], 25),
    "transformer": Case((1, 8, 16), [transformer()], 20),
    "relu6 by itself": Case((1, 8, 16), [cut_off()], 24),
    "relu6 in 16 bits": Case((1, 8, 16), [cut_off()], 40, recipe="int16x8"),
    **{
        f"masked mean, {recipe}": Case(
            (1, 6),
            [word_layer(), layers.GlobalAveragePooling1D(), layers.Dense(3)],
            db,
            words,
            {"dtype": "int32"},
            recipe,
        )
        for recipe, db in (("micro", 20), ("int16x8", 35))
    },
    "norm in 16 bits": Case((1, 8, 16), [layers.LayerNormalization(), layers.Dense(3)], 40, recipe="int16x8"),
    "both ways": Case((1, 6, 3), [layers.Bidirectional(layers.LSTM(4)), layers.Dense(3)], 20),
}


def in_tanh_form(x: Any) -> Any:
    """The other form of GELU."""
    return keras.activations.gelu(x, approximate=True)


@pytest.mark.parametrize("name", slow_but(("masked both ways", "transformer", "frames").__contains__, CASES))
def test_a_file_of_integers_answers_like_keras(name: str) -> None:
    case = CASES[name]
    model = awake(keras.Sequential([keras.Input(batch_shape=case.shape, **case.options), *case.stack]))
    samples = [case.draw(np.random.default_rng(seed), case.shape) for seed in range(32)]
    wide = "int16" if case.recipe == "int16x8" else "int8"
    recipe = jfuse.Recipe.named(case.recipe, inputs=wide, outputs=wide, int8_only=True)
    lite = jfuse.convert(model, quantize=recipe, calibration=samples, target="tflite-micro", verify=False)
    calls = samples[:3] + [case.draw(np.random.default_rng(seed), case.shape) for seed in (100, 101)]
    wanted = np.stack([np.asarray(model(x)) for x in calls])
    for run in (in_micro, in_litert):
        assert snr_db(run(lite.to_bytes(), calls), wanted) > case.at_least_db, run.__name__


@pytest.mark.parametrize(
    "activation", ["gelu", pytest.param(in_tanh_form, marks=pytest.mark.slow)], ids=["exact", "tanh form"]
)
@pytest.mark.parametrize(
    "end", [1.0, pytest.param(4.0, marks=pytest.mark.slow), pytest.param(12.0, marks=pytest.mark.slow)]
)
def test_gelu_errs_less_than_a_step(activation: Any, end: float) -> None:
    """tflite-micro has no GELU: what spells it is as exact as a table of 8 bits, which errs half a step, nearly."""
    model = keras.Sequential([keras.Input(batch_shape=(1, 256)), layers.Activation(activation)])
    x = np.linspace(-end, end, 256, dtype=np.float32)[None]
    data = jfuse.convert(model, quantize="micro", calibration=[x], target="tflite-micro", verify=False).to_bytes()
    interpreter = runtime.Interpreter.from_bytes(data)
    given, result = interpreter.get_input_details(0), interpreter.get_output_details(0)
    wanted = np.asarray(model(np.float32(reals(integers(x, given), given))))
    # a step: half of one by the last rounding, and what is rounded before, in finer steps
    assert np.abs(in_micro(data, [x] * 3) - wanted).max() < result["quantization_parameters"]["scales"][0]


def in_micro(data: bytes, calls: Sequence[np.ndarray]) -> np.ndarray:
    """The outputs of one interpreter, call by call, in real numbers."""
    interpreter = runtime.Interpreter.from_bytes(data)
    found = []
    for x in calls:
        interpreter.set_input(integers(x, interpreter.get_input_details(0)), 0)
        interpreter.invoke()
        found.append(reals(interpreter.get_output(0), interpreter.get_output_details(0)))
    return np.stack(found)


def in_litert(data: bytes, calls: Sequence[np.ndarray]) -> np.ndarray:
    """The same in LiteRT."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    (given,), (result,) = interpreter.get_input_details(), interpreter.get_output_details()
    found = []
    for x in calls:
        interpreter.set_tensor(given["index"], integers(x, given))
        interpreter.invoke()
        found.append(reals(interpreter.get_tensor(result["index"]), result))
    return np.stack(found)


def integers(x: np.ndarray, details: Any) -> np.ndarray:
    """Numbers as an input takes them."""
    scale, zero = (details["quantization_parameters"][name] for name in ("scales", "zero_points"))
    if not len(scale):
        return x
    info = np.iinfo(details["dtype"])
    return np.asarray(np.clip(np.rint(x / scale[0]) + zero[0], info.min, info.max).astype(details["dtype"]))


def reals(y: np.ndarray, details: Any) -> np.ndarray:
    """The numbers that an output stands for."""
    scale, zero = (details["quantization_parameters"][name] for name in ("scales", "zero_points"))
    return np.asarray((y.astype(np.float64) - zero[0]) * scale[0])
