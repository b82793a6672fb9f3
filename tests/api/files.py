"""Files as other tools write them: the official converter's, litert-torch's, and what PyTorch's exporter unrolls."""

from __future__ import annotations

import contextlib
import io
import warnings
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

UNITS, FEATURES = 8, 4
GATES = {"lstm": 4, "gru": 3, "rnn": 1}


def litert_torch(name: str) -> bytes:
    """A file of litert-torch 0.10.0, written by `litert_torch/make.py`: "lstm", "bilstm", "gru" or "rnn"."""
    return (Path(__file__).parent / "litert_torch" / f"{name}.tflite").read_bytes()


def official(layer: Any, steps: int = 6) -> bytes:
    """The official converter's file of one Keras layer and a Dense layer."""
    keras.utils.set_random_seed(0)
    x = keras.Input((steps, FEATURES), batch_size=1, name="x")
    return _converted(tf.lite.TFLiteConverter.from_keras_model(keras.Model(x, keras.layers.Dense(3)(layer(x)))))


def official_integers() -> bytes:
    """The official converter's file of a convolution in int8."""
    keras.utils.set_random_seed(0)
    x = keras.Input((6, FEATURES), batch_size=1, name="x")
    converter = tf.lite.TFLiteConverter.from_keras_model(keras.Model(x, keras.layers.Conv1D(3, 2)(x)))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    data = np.random.default_rng(0).standard_normal((8, 1, 6, FEATURES)).astype(np.float32)
    converter.representative_dataset = lambda: ([x] for x in data)
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    converter.inference_input_type = converter.inference_output_type = tf.int8
    return _converted(converter)


def projected_first(kind: str, steps: int = 6, *, backwards: bool = False, units: int = UNITS) -> bytes:
    """A recurrence unrolled as PyTorch decomposes it: all inputs' product first, the first step's zeros folded."""
    rng = np.random.default_rng(0)
    count = GATES[kind] * units
    w, r, b, c = (
        tf.constant(rng.standard_normal(s).astype(np.float32) * 0.3)
        for s in ((FEATURES, count), (units, count), (count,), (count,))
    )

    def call(x: Any) -> Any:
        rows = tf.unstack(tf.reshape(tf.transpose(x, (1, 0, 2)) @ w + b, (steps, 1, count)))
        h = s = tf.zeros((1, units))
        found = []
        for row in rows[::-1] if backwards else rows:
            h, s = _step(kind, row, h @ r + c, h, s)
            found.append(h)
        return tf.stack(found[::-1] if backwards else found, axis=1)

    function = tf.function(call, input_signature=[tf.TensorSpec([1, steps, FEATURES], tf.float32, name="x")])
    return _converted(tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], tf.Module()))


def _step(kind: str, x: Any, z: Any, h: Any, s: Any) -> tuple[Any, Any]:
    if kind == "rnn":
        return tf.tanh(z + x), s
    if kind == "gru":
        (xr, xz, xn), (zr, zz, zn) = tf.split(x, 3, 1), tf.split(z, 3, 1)
        new = tf.tanh(xn + tf.sigmoid(xr + zr) * zn)
        return (h - new) * tf.sigmoid(xz + zz) + new, s
    i, f, g, o = tf.split(z + x, 4, 1)
    s = tf.sigmoid(f) * s + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(s), s


def _converted(converter: Any) -> bytes:
    with contextlib.redirect_stdout(io.StringIO()), warnings.catch_warnings():  # it prints what it saves
        warnings.simplefilter("ignore")
        return bytes(converter.convert())
