"""Models that are no LSTM: dense, embeddings, composites, branches, several signatures, and what must be refused."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.keras_libraries import LIBRARIES, awake


def _normal(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def embedding_classifier(library: str = "keras") -> Any:
    """Token ids i32[b,9] -> class scores f32[b,4]: Embedding, mean over time, two Dense layers."""
    k = LIBRARIES[library]
    ids = k.Input((9,), dtype="int32", name="ids")
    x = k.layers.Embedding(30, 8)(ids)
    x = k.layers.Dense(6, activation="relu")(k.layers.GlobalAveragePooling1D()(x))
    return awake(k.Model(ids, k.layers.Dense(4)(x)))


def gather_model() -> Any:
    """A tf.function of ids i32[b,3] that looks into a table with `tf.gather` and multiplies what it finds."""
    table, kernel = tf.Variable(_normal(20, 6)), tf.Variable(_normal(6, 2, seed=1))

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.int32, name="ids")], autograph=False)
    def call(ids: Any) -> Any:
        return tf.matmul(tf.gather(table, ids), kernel)

    return call


def two_towers(library: str = "keras") -> Any:
    """Two inputs f32[b,6], f32[b,3] -> {"score": f32[b,1], "features": f32[b,5]}."""
    k = LIBRARIES[library]
    left, right = k.Input((6,), name="left"), k.Input((3,), name="right")
    joined = k.layers.Concatenate()([k.layers.Dense(8, activation="relu")(left), k.layers.Dense(4)(right)])
    features = k.layers.Dense(5, activation="tanh", name="features")(joined)
    score = k.layers.Dense(1, activation="sigmoid", name="score")(features)
    return awake(k.Model([left, right], {"score": score, "features": features}))


def dict_inputs(library: str = "keras") -> Any:
    """Inputs in a dict, {"a": f32[b,4], "b": f32[b,4]}, given in the other order -> f32[b,2]."""
    k = LIBRARIES[library]
    b, a = k.Input((4,), name="b"), k.Input((4,), name="a")
    return awake(k.Model({"b": b, "a": a}, k.layers.Dense(2)(k.layers.Subtract()([a, b]))))


def dict_outputs(library: str = "keras") -> Any:
    """One input -> a nest: a dict whose entries are not in the order of their names."""
    k = LIBRARIES[library]
    x = k.Input((4,), name="x")
    return awake(k.Model(x, {"second": k.layers.Dense(2)(x), "first": k.layers.Dense(3)(x)}))


def dense_rank_3(library: str = "keras") -> Any:
    """Dense on every step of f32[b,5,4] -> f32[b,5,3]."""
    k = LIBRARIES[library]
    x = k.Input((5, 4), name="x")
    return awake(k.Model(x, k.layers.Dense(3, activation="relu")(x)))


def sequential(library: str = "keras") -> Any:
    """A Sequential with BatchNormalization and Dropout, which inference passes by: f32[b,6] -> f32[b,2]."""
    k = LIBRARIES[library]
    layers = [k.layers.Dense(8), k.layers.BatchNormalization(), k.layers.Dropout(0.5), k.layers.Dense(2)]
    model = awake(k.Sequential([k.Input((6,), name="x"), *layers]))
    variance = model.layers[1].moving_variance
    variance.assign(np.abs(np.asarray(variance)) + 0.5)
    return model


def recurrent(kind: str, library: str = "keras") -> Any:
    """f32[b,6,5] through one recurrent layer -> f32[b,6,u].

    kind: "gru", "gru_reset_before", "simple_rnn", "bidirectional", "masked", "dropout" (an LSTM with dropout).
    """
    k = LIBRARIES[library]
    x = k.Input((6, 5), name="x")
    layers = {
        "gru": lambda: k.layers.GRU(4, return_sequences=True),
        "gru_reset_before": lambda: k.layers.GRU(4, return_sequences=True, reset_after=False),
        "simple_rnn": lambda: k.layers.SimpleRNN(4, return_sequences=True),
        "bidirectional": lambda: k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True)),
        "masked": lambda: k.layers.LSTM(4, return_sequences=True),
        "dropout": lambda: k.layers.LSTM(4, return_sequences=True, dropout=0.3, recurrent_dropout=0.2),
    }
    value = k.layers.Masking(0.0)(x) if kind == "masked" else x
    return awake(k.Model(x, layers[kind]()(value)))


def stateful_lstm(library: str = "keras") -> Any:
    """An LSTM that keeps its states in variables: f32[2,6,5] -> f32[2,4]."""
    k = LIBRARIES[library]
    x = k.Input(batch_shape=(2, 6, 5), name="x")
    return awake(k.Model(x, k.layers.LSTM(4, stateful=True)(x)))


class TwoSignatures(tf.Module):
    """`scale` and `shift` share a kernel; `again` is the same function as `scale`."""

    def __init__(self) -> None:
        super().__init__()
        self.kernel = tf.Variable(_normal(4, 40), name="kernel")
        self.bias = tf.Variable(_normal(40, seed=1), name="bias")

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")], autograph=False)
    def scale(self, x: Any) -> dict[str, Any]:
        """A product without a bias."""
        return {"scaled": x @ self.kernel}

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")], autograph=False)
    def shift(self, x: Any) -> dict[str, Any]:
        """The product with its bias, and the input passed through."""
        return {"shifted": x @ self.kernel + self.bias, "input": x}

    def save(self, folder: Path) -> Path:
        """Write the SavedModel."""
        tf.saved_model.save(
            self, str(folder), signatures={"scale": self.scale, "shift": self.shift, "again": self.scale}
        )
        return folder


@tf.function(experimental_implements="acme.scaled_relu", autograph=False)
def scaled_relu(values: Any, factor: Any) -> Any:
    """A composite of two ops."""
    return tf.nn.relu(values) * factor


@tf.function(experimental_implements="acme.block", autograph=False)
def block(values: Any, kernel: Any, bias: Any) -> tuple[Any, Any]:
    """A composite that holds another, with two results."""
    z = values @ kernel + bias
    return scaled_relu(z, 0.5), z


def nested_composites() -> Any:
    """A tf.function that calls `block` twice, the second time on one row: f32[b,4] -> f32[b,4]."""
    kernel, bias = tf.Variable(_normal(4, 4)), tf.Variable(_normal(4, seed=1))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")], autograph=False)
    def call(x: Any) -> Any:
        first, _ = block(x, kernel, bias)
        second, z = block(tf.reduce_sum(first, axis=0, keepdims=True), kernel, bias)
        return first + second + z

    return call


def composite_in_loop() -> Any:
    """A tf.function with `scaled_relu` three times over, in a loop over no sequence: f32[2,4] -> f32[2,4]."""
    kernel = tf.Variable(_normal(4, 4))

    def step(t: Any, value: Any) -> tuple[Any, Any]:
        return t + 1, scaled_relu(value @ kernel, tf.constant(0.7)) + value

    @tf.function(input_signature=[tf.TensorSpec([2, 4], tf.float32, name="x")], autograph=False)
    def call(x: Any) -> Any:
        return tf.while_loop(lambda t, _: t < 3, step, (0, x))[1]

    return call


def branches() -> Any:
    """A tf.function with a `tf.cond` on its data: f32[b,4] -> f32[b,4]."""
    kernel = tf.Variable(_normal(4, 4))

    @tf.function(input_signature=[tf.TensorSpec([None, 4], tf.float32, name="x")], autograph=False)
    def call(x: Any) -> Any:
        return tf.cond(tf.reduce_sum(x) > 0.0, lambda: x @ kernel, lambda: x - 1.0)

    return call


def nested_inputs() -> Any:
    """A tf.function whose argument is a dict that holds a tuple; the result is a nest as well."""
    spec = {"pair": (tf.TensorSpec([2], tf.float32, name="first"), tf.TensorSpec([2], tf.float32, name="second"))}

    @tf.function(input_signature=[{**spec, "alone": tf.TensorSpec([2], tf.float32, name="alone")}], autograph=False)
    def call(values: Any) -> Any:
        first, second = values["pair"]
        return {"sums": (first + second, values["alone"] * 2.0), "difference": first - second}

    return call


def with_python_arguments() -> Any:
    """A concrete function traced with a Python number and a Python bool, which are constants of it."""

    @tf.function(autograph=False)
    def call(x: Any, factor: float, negate: bool = False) -> Any:
        return -x * factor if negate else x * factor

    return call.get_concrete_function(tf.TensorSpec([3], tf.float32, name="x"), 2.5, negate=True)


def without_rule() -> Any:
    """A tf.function with ops that TFLite cannot say: Dawson's integral twice, and the root of a matrix."""

    @tf.function(input_signature=[tf.TensorSpec([3, 3], tf.float32, name="x")], autograph=False)
    def call(x: Any) -> Any:
        return tf.math.special.dawsn(tf.math.special.dawsn(x)) * tf.linalg.sqrtm(x)

    return call


KERAS: dict[str, Callable[..., Any]] = {
    "embedding_classifier": embedding_classifier,
    "two_towers": two_towers,
    "dict_inputs": dict_inputs,
    "dict_outputs": dict_outputs,
    "dense_rank_3": dense_rank_3,
    "sequential": sequential,
}
MODELS: dict[str, Callable[[], Any]] = {
    **{f"{library}-{name}": partial(make, library) for library in LIBRARIES for name, make in KERAS.items()},
    "gather": gather_model,
    "nested_composites": nested_composites,
    "composite_in_loop": composite_in_loop,
    "branches": branches,
    "nested_inputs": nested_inputs,
    "with_python_arguments": with_python_arguments,
}
"""The models that convert without a recurrence, by name."""
