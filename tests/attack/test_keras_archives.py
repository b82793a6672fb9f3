"""Malicious `.keras` files: none runs code, reads a file of the machine or fills its memory; honest files load."""

from __future__ import annotations

import io
import json
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
import pytest
import tf_keras

import jfuse
from jfuse.base.errors import ImportFailed

Config = dict[str, Any]


def honest(folder: Path, library: Any) -> Path:
    """A Sequential of one Dense layer, saved by a Keras."""
    model = library.Sequential([library.layers.Input((3,)), library.layers.Dense(2, activation="relu", name="dense")])
    path = folder / "honest.keras"
    model.save(path)
    return path


def rewritten(source: Path, target: Path, change: Callable[[Config], None]) -> Path:
    """The file with its configuration changed."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(target, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "config.json":
                config = json.loads(data)
                change(config)
                data = json.dumps(config).encode()
            new.writestr(name, data)
    return target


def dense(config: Config) -> Config:
    """The configuration of the Dense layer."""
    (found,) = (layer for layer in config["config"]["layers"] if layer["class_name"] == "Dense")
    arguments: Config = found["config"]
    return arguments


def replaced(entry: Any) -> Callable[[Config], None]:
    """Change: another layer stands in place of the Dense layer."""

    def change(config: Config) -> None:
        config["config"]["layers"][-1] = entry

    return change


def argument(name: str, entry: Any) -> Callable[[Config], None]:
    """Change: the Dense layer gets another argument."""

    def change(config: Config) -> None:
        dense(config)[name] = entry

    return change


def function(module: str | None, name: str) -> Config:
    return {"module": module, "class_name": "function", "config": name, "registered_name": name}


def layer(module: str | None, name: str, **config: Any) -> Config:
    return {"module": module, "class_name": name, "config": config, "registered_name": None}


LAMBDA = {"class_name": "__lambda__", "config": {"value": ["4wAAAA==", None, None]}}

ATTACKS: dict[str, Callable[[Config], None]] = {
    "os.system as an activation": argument("activation", function("os", "system")),
    "os.system as a regularizer": argument("kernel_regularizer", function("os", "system")),
    "os.system as a class": replaced(layer("os", "system")),
    "os.system in a Lambda": replaced(layer("keras.layers", "Lambda", function=function("os", "system"))),
    "posix.system": argument("activation", function("posix", "system")),
    "subprocess.Popen": replaced(layer("subprocess", "Popen", args=["touch", "x"])),
    "builtins.eval": argument("activation", function("builtins", "eval")),
    "builtins.exec": argument("activation", function("builtins", "exec")),
    "builtins.__import__": argument("activation", function("builtins", "__import__")),
    "builtins.open": argument("activation", function("builtins", "open")),
    "builtins.breakpoint": argument("activation", function("builtins", "breakpoint")),
    "importlib.import_module": argument("activation", function("importlib", "import_module")),
    "shutil.rmtree": argument("bias_initializer", function("shutil", "rmtree")),
    "pickle.loads": argument("activation", function("pickle", "loads")),
    "numpy.load": argument("activation", function("numpy", "load")),
    "a lambda's bytecode": argument("activation", LAMBDA),
    "a Lambda with bytecode": replaced(layer("keras.layers", "Lambda", function=LAMBDA)),
    "a Lambda of Keras's sources": replaced(layer("keras.src.layers.core.lambda_layer", "Lambda", function=LAMBDA)),
    "a lambda deep inside": argument("kernel_initializer", layer("keras.initializers", "Zeros", x=[{"y": LAMBDA}])),
    "a saved model as a layer": replaced(layer("keras.layers", "TFSMLayer", filepath="/tmp/other")),
    "a pickled module": replaced(layer("keras.src.utils.torch_utils", "TorchModuleWrapper")),
    "a JAX layer": replaced(layer("keras.layers", "JaxLayer", call_fn=LAMBDA)),
    "keras.config": argument("activation", function("keras.config", "enable_unsafe_deserialization")),
    "keras.utils.get_file": argument("activation", function("keras.utils", "get_file")),
    "keras.saving.load_model": argument("activation", function("keras.saving", "load_model")),
    "keras.models.load_model": argument("activation", function("keras.models", "load_model")),
    "the importer in Keras's sources": argument("activation", function("keras.src.utils.module_utils", "importlib")),
    "deserialize": argument("activation", function("keras.activations", "deserialize")),
    "a dotted name": replaced(layer("keras.layers", "Dense.__init__")),
    "a class that is no text": replaced({"module": "keras.layers", "class_name": ["Dense"], "config": {}}),
    "a module that is no text": replaced({"module": ["os"], "class_name": "Dense", "config": {}}),
    "a package with a like name": replaced(layer("keras_evil.layers", "Dense", units=2)),
    "a type of another module": argument(
        "name", {"class_name": "__typespec__", "spec_name": "system", "module": "os", "config": ["true"]}
    ),
    "a vocabulary in a file": replaced(layer("keras.layers", "StringLookup", vocabulary="/etc/hostname")),
    "weights of words in a file": replaced(
        layer("keras.layers", "TextVectorization", vocabulary=["a"], idf_weights="/etc/hostname")
    ),
    "TensorFlow's write_file": replaced(layer("keras.layers", "TFOpLambda", function="io.write_file")),
    "TensorFlow's py_function": replaced(layer("keras.layers", "TFOpLambda", function="py_function")),
    "a raw op": replaced(layer("keras.layers", "TFOpLambda", function="raw_ops.ReadFile")),
}


@pytest.fixture(scope="module", params=["keras", "tf_keras"])
def library(request: pytest.FixtureRequest) -> Any:
    return keras if request.param == "keras" else tf_keras


@pytest.fixture(scope="module")
def source(library: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return honest(tmp_path_factory.mktemp("honest"), library)


@pytest.mark.parametrize("attack", ATTACKS)
def test_nothing_is_executed(
    attack: str, library: Any, source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = rewritten(source, tmp_path / "evil.keras", ATTACKS[attack])

    def loaded(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("the file has reached Keras")

    monkeypatch.setattr(library.models, "load_model", loaded)
    with pytest.raises(ImportFailed, match=r"is not loaded: it [\s\S]*unsafe=True"):
        jfuse.load(path)


def test_the_metadata_cannot_choose_a_weaker_check(tmp_path: Path) -> None:
    """A file of Keras 3 that calls itself one of Keras 2 is loaded by tf_keras, whose safe mode imports any module."""
    path = rewritten(honest(tmp_path, keras), tmp_path / "evil.keras", ATTACKS["os.system in a Lambda"])
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("metadata.json", json.dumps({"keras_version": "2.15.0"}))
    with pytest.raises(ImportFailed, match="Lambda"):
        jfuse.load(path)


def test_honest_files_load(library: Any, tmp_path: Path) -> None:
    x = np.ones((1, 3), np.float32)
    path = honest(tmp_path, library)
    wanted = library.models.load_model(path, compile=False)(x)
    np.testing.assert_allclose(jfuse.load(path)(x), wanted, rtol=1e-6)


def test_functions_and_ops_of_keras_load(tmp_path: Path) -> None:
    inputs = keras.Input((4, 3))
    x = keras.layers.LSTM(5, recurrent_initializer="orthogonal", kernel_regularizer="l2")(inputs)
    x = keras.layers.Activation(keras.activations.mish)(keras.ops.sin(x) * 2.0)
    model = keras.Model(inputs, keras.layers.Dense(2, activation=keras.ops.tanh)(keras.ops.reshape(x, (-1, 5))))
    model.save(tmp_path / "model.keras")
    assert list(jfuse.load(tmp_path / "model.keras").signatures) == ["serving_default"]


@keras.saving.register_keras_serializable(package="attack_tests")
class Doubled(keras.layers.Layer):
    """A layer of the user's own."""

    def call(self, x: Any) -> Any:
        return x * 2


def test_registered_layers_load(tmp_path: Path) -> None:
    keras.Sequential([keras.Input((3,)), Doubled()]).save(tmp_path / "model.keras")
    np.testing.assert_array_equal(jfuse.load(tmp_path / "model.keras")(np.ones((1, 3), np.float32)), [[2, 2, 2]])


def test_a_lambda_loads_where_it_is_asked_for(tmp_path: Path) -> None:
    keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x + 1)]).save(tmp_path / "model.keras")
    with pytest.raises(ImportFailed, match="unsafe=True"):
        jfuse.load(tmp_path / "model.keras")
    model = jfuse.load(tmp_path / "model.keras", unsafe=True)
    np.testing.assert_array_equal(model(np.zeros((1, 3), np.float32)), [[1, 1, 1]])


# Archives


def archive(path: Path, members: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as out:
        for name, data in members.items():
            out.writestr(name, data)
    return path


PLAIN = {"config.json": b"{}", "metadata.json": b"{}"}


@pytest.mark.parametrize(
    ("members", "method", "message"),
    [
        ({**PLAIN, "model.weights.h5": bytes(70 * 2**20)}, zipfile.ZIP_DEFLATED, "would take 73,400,3.. bytes"),
        (PLAIN, zipfile.ZIP_LZMA, "compressed in a way"),
        (PLAIN, zipfile.ZIP_BZIP2, "compressed in a way"),
        ({**PLAIN, "../../evil.py": b""}, zipfile.ZIP_DEFLATED, "outside of its folder"),
        ({**PLAIN, "/etc/evil": b""}, zipfile.ZIP_DEFLATED, "outside of its folder"),
        ({**PLAIN, "a/..\\..\\evil": b""}, zipfile.ZIP_DEFLATED, "outside of its folder"),
        ({"config.json": b"[" * 100_000, "metadata.json": b"{}"}, zipfile.ZIP_DEFLATED, "cannot be read|nested"),
        ({"config.json": b'{"a":' * 300 + b"1" + b"}" * 300, "metadata.json": b"{}"}, 8, "nested too deeply"),
        ({"config.json": b"\xff", "metadata.json": b"{}"}, zipfile.ZIP_DEFLATED, "cannot be read"),
        ({"metadata.json": b"{}"}, zipfile.ZIP_DEFLATED, "cannot be read"),
    ],
)
def test_archives_that_are_none(members: dict[str, bytes], method: int, message: str, tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=message):
        jfuse.load(archive(tmp_path / "x.keras", members, method))


def test_an_encrypted_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "x.keras", PLAIN, zipfile.ZIP_STORED)
    data = bytearray(path.read_bytes())
    for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.index(signature)
        struct.pack_into("<H", data, at + offset, 1)
    path.write_bytes(data)
    with pytest.raises(ImportFailed, match="is encrypted"):
        jfuse.load(path)


def weights_elsewhere(kind: str, folder: Path) -> bytes:
    """A file of weights whose data are in another file."""
    (folder / "secret.bin").write_bytes(bytes(32))
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        if kind == "external data":
            file.create_dataset("x", (8,), np.float32, external=[(str(folder / "secret.bin"), 0, 32)])
        else:
            file["x"] = h5py.ExternalLink(str(folder / "secret.h5"), "/x")
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["external data", "external link"])
def test_weights_in_other_files(kind: str, tmp_path: Path) -> None:
    source = honest(tmp_path, keras)
    with zipfile.ZipFile(source) as old:
        members = {name: old.read(name) for name in old.namelist()}
    members["model.weights.h5"] = weights_elsewhere(kind, tmp_path)
    with pytest.raises(ImportFailed, match="weights are in other files"):
        jfuse.load(archive(tmp_path / "evil.keras", members))
