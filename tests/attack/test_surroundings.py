"""What callers have set before they call: it changes no result, leads to no foreign error, and is as it was after."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs

X = np.arange(6, dtype=np.float32).reshape(3, 2)
WEIGHTS = np.arange(8, dtype=np.float32).reshape(2, 4)


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    class Model(tf.Module):
        def __init__(self) -> None:
            self.w = tf.Variable(WEIGHTS)

        @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
        def __call__(self, x: Any) -> Any:
            return {"y": tf.nn.relu(x @ self.w) + tf.constant([1.0, 2.0, 3.0, 4.0])}

    folder = tmp_path_factory.mktemp("surroundings")
    tf.saved_model.save(Model(), str(folder))
    return folder


SURROUNDINGS: dict[str, Callable[[], AbstractContextManager[Any]]] = {
    "nothing": nullcontext,
    "a graph of TensorFlow 1": lambda: tf.Graph().as_default(),
    "strict ranks": lambda: jax.numpy_rank_promotion("raise"),
    "strict dtypes": lambda: jax.numpy_dtype_promotion("strict"),
    "no transfers": lambda: jax.transfer_guard("disallow_explicit"),
    "no NaN": lambda: jax.debug_nans(True),
    "no jit": lambda: jax.disable_jit(),
    "NumPy raises": lambda: np.errstate(all="raise"),
}


def settings() -> list[Any]:
    names = ("jax_enable_x64", "jax_numpy_rank_promotion", "jax_transfer_guard", "jax_debug_nans", "jax_disable_jit")
    of_jax = [getattr(jax.config, name, None) for name in names]
    of_python = [sys.getrecursionlimit(), gc.get_threshold()]
    return [*of_jax, *of_python, np.geterr(), dict(os.environ), os.getcwd(), tf.executing_eagerly()]


@pytest.mark.parametrize("surrounding", SURROUNDINGS)
def test_surroundings_change_nothing(saved: Path, surrounding: str) -> None:
    before = settings()
    with SURROUNDINGS[surrounding]():
        inside = settings()
        lite = jfuse.convert(saved)
        found = lite(X)
        assert settings() == inside
    assert settings() == before
    np.testing.assert_allclose(found, np.maximum(X @ WEIGHTS, 0) + np.array([1, 2, 3, 4]), rtol=1e-6)


@pytest.mark.slow
def test_functions_in_each_other() -> None:
    specs = [tf.TensorSpec([2], tf.float32)]
    function = tf.function(lambda x: x * 1.5, input_signature=specs).get_concrete_function()
    for _ in range(200):
        inner = function
        function = tf.function(
            lambda x, inner=inner: inner(x) + 1.0, input_signature=specs, autograph=False
        ).get_concrete_function()
    lite = jfuse.convert(function, verify=False)
    np.testing.assert_allclose(lite(np.array([2.0, 4.0], np.float32)), [203.0, 206.0])


def test_random_numbers_go_on(tmp_path: Path) -> None:
    """Keras draws a seed for each Dropout when it reads a file."""
    model = keras.Sequential([keras.layers.Input((3,)), keras.layers.Dropout(0.5), keras.layers.Dense(2)])
    model.save(tmp_path / "model.keras")
    before = random.getstate(), np.random.get_state(legacy=False)["state"]["pos"]
    jfuse.load(tmp_path / "model.keras")
    assert (random.getstate(), np.random.get_state(legacy=False)["state"]["pos"]) == before


ALL = "<&- >&- 2>&-"


@pytest.mark.slow
@pytest.mark.parametrize("flag", [">&-", "2>&-", "<&-", ALL])
def test_streams_that_are_closed(saved: Path, tmp_path: Path, flag: str) -> None:
    """One stream at a time with a file, all at once with a SavedModel, which also imports TensorFlow."""
    source, file = tmp_path / "source.tflite", tmp_path / "model.tflite"
    source.write_bytes(to_bytes(programs.dense()))
    command = f"{sys.executable} -m jfuse convert {saved if flag == ALL else source} -o {file} {flag}"
    found = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert (found.returncode, "Traceback" in found.stderr, file.exists()) == (0, False, True)


@pytest.mark.slow
def test_a_flag_that_xla_does_not_know(saved: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "jfuse", "convert", str(saved), "-o", str(tmp_path / "model.tflite")]
    environment = {**os.environ, "XLA_FLAGS": "--xla_no_such_flag=1"}
    found = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert found.returncode != 0
    assert "a library ended the command; it said last:" in found.stderr
    assert "--xla_no_such_flag=1" in found.stderr


def test_a_folder_whose_name_is_no_utf8(saved: Path, tmp_path: Path) -> None:
    folder = tmp_path / os.fsdecode(b"n\xff")
    shutil.copytree(saved, folder)
    lite = jfuse.convert(folder)
    np.testing.assert_allclose(lite(X), np.maximum(X @ WEIGHTS, 0) + np.array([1, 2, 3, 4]), rtol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("platform", ["cuda", "nonsense"])
def test_no_device(platform: str) -> None:
    script = (
        "import jfuse, numpy as np\n"
        'model = jfuse.parse(\'program {\\n  signature "f"("x") -> ("y") = graph 0\\n'
        "  graph main(a: f32[2]) {\\n    b: f32[2] = add a 1.0\\n    return b\\n  }\\n}')\n"
        "try: model(np.ones(2, np.float32))\n"
        "except jfuse.JfuseError as error: print(error)"
    )
    environment = {**os.environ, "JAX_PLATFORMS": platform}
    found = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env=environment, check=True)
    assert "jax has no device to compute on" in found.stdout
    assert "JAX_PLATFORMS=cpu" in found.stdout
