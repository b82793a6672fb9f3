"""Files of the official converter: loops, branches, recurrences, tables, variables, several signatures, open sizes."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import keras
import numpy as np
import tensorflow as tf
import tf_keras

from tests.corpus.file import File
from tests.corpus.official_ops import weights

Spec = tf.TensorSpec


def _function(call: Callable[..., Any], *specs: Any, owner: Any = None) -> bytes:
    """The file of a function, without a signature."""
    concrete = tf.function(call, input_signature=specs).get_concrete_function()
    converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete], owner)
    return bytes(converter.convert())


def _module(make: Callable[[], Any], *methods: str) -> bytes:
    """The file of a SavedModel with these methods as signatures."""
    module = make()
    with tempfile.TemporaryDirectory() as folder:
        tf.saved_model.save(module, folder, signatures={name: getattr(module, name) for name in methods})
        converter = tf.lite.TFLiteConverter.from_saved_model(folder)
        converter.experimental_enable_resource_variables = True
        return bytes(converter.convert())


class Counter(tf.Module):
    """A sum over calls, and its reset."""

    def __init__(self) -> None:
        self.total = tf.Variable([0.0, 1.0])

    @tf.function(input_signature=[Spec([2], tf.float32)])
    def add(self, x: Any) -> Any:
        """Add to the sum."""
        return {"total": self.total.assign_add(x) * 2}

    @tf.function(input_signature=[Spec([2], tf.float32)])
    def reset(self, x: Any) -> Any:
        """Begin with these."""
        return {"total": self.total.assign(x) + 1}


class Heads(tf.Module):
    """Two signatures with the same weights."""

    @tf.function(input_signature=[Spec([None, 8], tf.float32)])
    def encode(self, x: Any) -> Any:
        """One product."""
        return {"code": tf.tanh(x @ weights(8, 5))}

    @tf.function(input_signature=[Spec([None, 8], tf.float32), Spec([5], tf.float32)])
    def score(self, x: Any, bias: Any) -> Any:
        """The same and more."""
        code = x @ weights(8, 5) + bias
        return {"score": tf.nn.softmax(code), "best": tf.argmax(code, -1)}


class Vocabulary(tf.Module):
    """A table of words."""

    def __init__(self) -> None:
        words = tf.lookup.KeyValueTensorInitializer(tf.constant(["a", "b", "c"]), tf.constant([4, 5, 6], tf.int64))
        self.table = tf.lookup.StaticHashTable(words, -1)

    @tf.function(input_signature=[Spec([None], tf.string)])
    def ids(self, words: Any) -> Any:
        """Their numbers."""
        return {"ids": self.table.lookup(words)}


def _control() -> Iterator[File]:
    scalar, vector = Spec([], tf.int32), Spec([3], tf.float32)
    flag = Spec([], tf.bool)
    turns: Callable[..., Any] = lambda n, x: tf.while_loop(  # noqa: E731
        lambda i, a: i < n, lambda i, a: (i + 1, tf.tanh(a) + 0.5), [0, x]
    )[1]
    made: Mapping[str, Callable[[], bytes]] = {
        "cond": lambda: _function(lambda p, x: tf.cond(p, lambda: x * 2, lambda: tf.sin(x)), flag, vector),
        "cond_nested": lambda: _function(
            lambda p, q, x: tf.cond(p, lambda: tf.cond(q, lambda: x * 2, lambda: tf.sin(x)), lambda: -x),
            flag, flag, vector,
        ),
        "while_computed_turns": lambda: _function(turns, scalar, vector),
        "while_five_turns": lambda: _function(lambda x: turns(5, x), vector),
        "while_until": lambda: _function(
            lambda x: tf.while_loop(lambda a: tf.reduce_sum(a) < 20, lambda a: (a + tf.abs(a) + 1,), [x]), vector
        ),
        "where_indices": lambda: _function(lambda x: tf.where(x > 0), Spec([6], tf.float32)),
        "unique": lambda: _function(lambda x: tf.unique(x)[0], Spec([6], tf.int32)),
        "boolean_mask": lambda: _function(lambda x: tf.boolean_mask(x, x > 0) * 2, Spec([6], tf.float32)),
        "non_max_suppression": lambda: _function(
            lambda b, s: tf.image.non_max_suppression(b, s, 3), Spec([6, 4], tf.float32), Spec([6], tf.float32)
        ),
        "range_of_length": lambda: _function(lambda n: tf.range(n) * 2, scalar),
    }  # fmt: skip
    for name, make in made.items():
        yield File(name, make)


def _open_sizes() -> Iterator[File]:
    rows = Spec([None, 3, 4], tf.float32)
    made: Mapping[str, Callable[[], bytes]] = {
        "flatten_dense": lambda: _function(lambda x: tf.reshape(x, [tf.shape(x)[0], -1]) @ weights(12, 5), rows),
        "einsum": lambda: _function(lambda x: tf.einsum("bij,bkj->bik", x, x), rows),
        "outer": lambda: _function(
            lambda x, y: x[:, None] * y[None, :], Spec([None], tf.float32), Spec([None], tf.float32)
        ),
        "layer_norm": lambda: _function(
            lambda x: (x - tf.reduce_mean(x, -1, True)) * tf.math.rsqrt(tf.math.reduce_variance(x, -1, True) + 1e-3),
            rows,
        ),
        "images_of_any_size": lambda: _function(
            lambda x: tf.reduce_mean(tf.nn.conv2d(x, weights(3, 3, 3, 4), 2, "SAME"), [1, 2]),
            Spec([None, None, None, 3], tf.float32),
        ),
        "int64_ids": lambda: _function(lambda i: tf.gather(weights(9, 6), i), Spec([None], tf.int64)),
    }
    for name, make in made.items():
        yield File(name, make, hosted=False)


def _recurrent(library: Any, layer: str, mode: str) -> bytes:
    """A recurrent layer over five steps, and a dense one."""
    library.utils.set_random_seed(0)
    x = library.Input(batch_shape=(1, 5, 6))
    model = library.Model(x, library.layers.Dense(4)(getattr(library.layers, layer)(32)(x)))
    converter = tf.lite.TFLiteConverter.from_keras_model(model)
    if mode != "float":
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "f16":
        converter.target_spec.supported_types = [tf.float16]
    if mode == "int8":
        rng = np.random.default_rng(0)
        samples = [[rng.normal(size=(1, 5, 6)).astype(np.float32)] for _ in range(4)]
        converter.representative_dataset = lambda: iter(samples)
        converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS_INT8]
    return bytes(converter.convert())


def _recurrences() -> Iterator[File]:
    """Keras 3: loops. tf_keras: one fused operator for an LSTM; its official conversion takes seconds."""
    loops = (("LSTM", "float"), ("LSTM", "dynamic"), ("LSTM", "f16"), ("GRU", "float"), ("GRU", "dynamic"))
    for layer, mode in (*loops, ("SimpleRNN", "dynamic")):
        yield File(f"keras-{layer}-{mode}", partial(_recurrent, keras, layer, mode), hosted=mode == "dynamic")
    for mode in ("f16", "int8"):
        yield File(f"tf_keras-LSTM-{mode}", partial(_recurrent, tf_keras, "LSTM", mode), hosted=mode == "int8")


def _modules() -> Iterator[File]:
    yield File("counter", partial(_module, Counter, "add", "reset"), hosted=False)
    yield File("heads", partial(_module, Heads, "encode", "score"), hosted=False)
    yield File("vocabulary", partial(_module, Vocabulary, "ids"), hosted=False)


FILES = (*_control(), *_open_sizes(), *_recurrences(), *_modules())
