"""SavedModels read from their files: the same bytes as through TensorFlow's loader, and without TensorFlow."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.frontends import saved_model
from jfuse.frontends.checkpoint.tensor_bundle import NotUnderstood
from tests.models.keras_libraries import awake

SPEC = tf.TensorSpec([1, 4], tf.float32, name="x")


class Many(tf.Module):
    """Functions that share variables of several types, one of which is written; constants, branches, a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.w = tf.Variable(np.arange(12, dtype=np.float32).reshape(4, 3) / 7, name="w")
        self.half = tf.Variable(np.ones(3, np.float16))
        self.count = tf.Variable(np.zeros(3, np.float32), name="w")  # of the same name
        self.brain = tf.Variable(tf.constant([1.5, 2.5, 3], tf.bfloat16))
        self.offset = tf.constant([1.0, 2.0, 3.0])

    @tf.function(input_signature=[SPEC], autograph=False)
    def dense(self, x: Any) -> Any:
        return {"z": x @ self.w + self.offset, "a": tf.cast(self.half, tf.float32) * 2.0}

    @tf.function(input_signature=[SPEC], autograph=False)
    def counts(self, x: Any) -> Any:
        self.count.assign_add(tf.reduce_sum(x @ self.w, 0))
        return {"count": self.count + tf.cast(self.brain, tf.float32)}

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="q")], autograph=False)
    def branches(self, q: Any) -> Any:
        turned = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.tanh(y @ self.w[:3])), (0, q))[1]
        return {"r": tf.cond(tf.reduce_sum(q) > 0, lambda: turned + self.count, lambda: turned - 1.0)}


def module(path: Path) -> None:
    many = Many()
    tf.saved_model.save(many, str(path), {"f": many.dense, "g": many.counts, "h": many.branches})


def exported(build: Callable[[], keras.Model]) -> Callable[[Path], None]:
    return lambda path: awake(build()).export(str(path), verbose=False)


def lstm() -> Any:
    return keras.Sequential([keras.Input((6, 4)), keras.layers.LSTM(5), keras.layers.Dense(2)])


def dropout_gru() -> Any:
    layers = [keras.layers.GRU(5, dropout=0.3, return_sequences=True), keras.layers.Dropout(0.1)]
    return keras.Sequential([keras.Input((None, 4)), *layers])


def convolutions() -> Any:
    layers = [keras.layers.Conv2D(4, 3, strides=2), keras.layers.BatchNormalization(), keras.layers.ReLU(6.0)]
    layers += [keras.layers.DepthwiseConv2D(3, padding="same"), keras.layers.GlobalAveragePooling2D()]
    return keras.Sequential([keras.Input((9, 9, 3)), *layers])


def attention() -> Any:
    x = keras.Input((7, 8))
    return keras.Model(x, keras.layers.LayerNormalization()(x + keras.layers.MultiHeadAttention(2, 4)(x, x)))


def ids() -> Any:
    layers = [keras.layers.Embedding(9, 4, mask_zero=True), keras.layers.LSTM(3)]
    return keras.Sequential([keras.Input((5,), dtype="int32"), *layers])


def tf_keras_recurrent(path: Path) -> None:
    import tf_keras

    layers = [tf_keras.layers.LSTM(4, return_sequences=True), tf_keras.layers.GRU(3)]
    tf.saved_model.save(tf_keras.Sequential([tf_keras.Input((6, 3)), *layers]), str(path))


FOLDERS = {
    "module": module,
    **{
        name: pytest.param(save, marks=pytest.mark.slow)
        for name, save in (
            ("lstm", exported(lstm)),
            ("dropout_gru", exported(dropout_gru)),
            ("convolutions", exported(convolutions)),
            ("attention", exported(attention)),
            ("ids", exported(ids)),
            ("tf_keras", tf_keras_recurrent),
        )
    },
}


def through_tensorflow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be understood."""

    def refuse(*args: Any) -> None:
        raise NotUnderstood("the test says so")

    monkeypatch.setattr(saved_model, "StoredModel", refuse)


@pytest.mark.parametrize("save", FOLDERS.values(), ids=list(FOLDERS))
def test_both_readers_give_the_same_bytes(
    save: Callable[[Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save(tmp_path / "model")
    read = jfuse.load(tmp_path / "model")
    through_tensorflow(monkeypatch)
    loaded = jfuse.load(tmp_path / "model")
    assert "TensorFlow's loader has read the SavedModel: the test says so" in loaded.report.notes
    assert not any("loader" in note for note in read.report.notes)
    assert str(read.program) == str(loaded.program)
    assert [read.imported and read.imported.variable_names] == [loaded.imported and loaded.imported.variable_names]
    assert jfuse.lower(read).to_bytes() == jfuse.lower(loaded).to_bytes()


def test_states_are_tensorflows_variables(tmp_path: Path) -> None:
    module(tmp_path / "model")
    result = jfuse.verify(jfuse.lower(jfuse.load(tmp_path / "model")), samples=2)
    assert result.passed
    assert {d.signature for d in result.differences if d.pair.startswith("tensorflow/")} == {"f", "g", "h"}


NO_TENSORFLOW = """
import importlib.abc, importlib.util, sys
class Refuses(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("tensorflow", "keras", "tf_keras"):
            raise ModuleNotFoundError("refused: " + name)
sys.meta_path.insert(0, Refuses())
from jfuse.cli import main
main()
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """The command line where TensorFlow cannot be imported."""
    command = [sys.executable, "-c", NO_TENSORFLOW, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)


@pytest.mark.slow
@pytest.mark.parametrize("save", [module, exported(lstm)], ids=["module", "lstm"])
def test_folders_are_converted_without_tensorflow(save: Callable[[Path], None], tmp_path: Path) -> None:
    save(tmp_path / "model")
    expected = jfuse.lower(jfuse.load(tmp_path / "model")).to_bytes()
    result = run("convert", str(tmp_path / "model"), "-o", str(tmp_path / "model.tflite"), "--no-verify")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "model.tflite").read_bytes() == expected
    result = run("inspect", str(tmp_path / "model"))
    assert result.returncode == 0, result.stderr
    assert "graph" in result.stdout
