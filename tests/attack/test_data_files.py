"""Files of data that users name: arrays, recipes, timings, texts. Damaged, huge or no files at all: one clear error."""

from __future__ import annotations

import os
import resource
import time
import zipfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

SECONDS = 60.0  # with the import of TensorFlow, on a busy machine
MEMORY = 2**30


class Evil:
    """What a pickle in a file would do."""

    def __reduce__(self) -> Any:
        return os.mkdir, ("executed",)


def _pickled(path: Path) -> None:
    np.savez(path, x0=np.array([Evil()], object))


def _bomb(path: Path) -> None:
    """A thousandth of what its zeros take."""
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x0.npy", bytes(2**27))


def _header(shape: str) -> Callable[[Path], None]:
    """An array that states a shape and has no elements."""

    def write(path: Path) -> None:
        text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("x0.npy", b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode())

    return write


def _cut(path: Path) -> None:
    np.savez_compressed(path, x0=np.ones((2, 3), np.float32))
    path.write_bytes(path.read_bytes()[:-30])


def _changed(path: Path) -> None:
    np.savez(path, x0=np.ones((2, 3), np.float32))
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(data)


def _encrypted(path: Path) -> None:
    np.savez(path, x0=np.ones((2, 3), np.float32))
    data = bytearray(path.read_bytes())
    for place in (data.find(b"PK\x03\x04") + 6, data.find(b"PK\x01\x02") + 8):
        data[place] |= 1
    path.write_bytes(data)


ARRAYS: dict[str, Callable[[Path], Any]] = {
    "a pickle": _pickled,
    "a bomb": _bomb,
    "a shape of 2**40": _header("(1099511627776, 1099511627776)"),
    "a negative shape": _header("(-1, -7)"),
    "a shape in code": _header("__import__('os').mkdir('executed')"),
    "brackets": _header("(" * 3000),
    "cut short": _cut,
    "changed": _changed,
    "encrypted": _encrypted,
    "no bytes": lambda path: path.write_bytes(b""),
    "a text": lambda path: path.write_bytes(b"x0 = 3"),
    "a pipe": os.mkfifo,
    "a device": lambda path: path.symlink_to("/dev/zero"),
    "a folder": lambda path: path.mkdir(),
}


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("data") / "model.tflite"
    path.write_bytes(to_bytes(program(lambda x: ops.add(x, 1.0), f32(2, 3))))
    return path


def _refused(act: Callable[[], Any]) -> None:
    started, before = time.monotonic(), resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(jfuse.JfuseError) as refused:
        act()
    assert not isinstance(refused.value, jfuse.InternalError)
    assert len(str(refused.value)) < 2000
    assert not Path("executed").exists()
    assert time.monotonic() - started < SECONDS
    assert 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < MEMORY


@pytest.mark.parametrize("name", ARRAYS)
def test_arrays(name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "x.npz"
    ARRAYS[name](path)
    _refused(lambda: jfuse.verify(model, inputs=path))
    _refused(lambda: jfuse.quantize(model, "int8", path, verify=False))


RECIPES = {
    "deep": "[" * 100_000,
    "a table": "{}",
    "a number": "3",
    "other rules": "[1, 2]",
    "not a table": '[{"regex": 3, "operation": [], "algorithm_key": {}, "op_config": 3}]',
    "large numbers": '[{"regex": ".*", "operation": "*", "algorithm_key": "min_max_uniform_quantize", "op_config": '
    '{"weight_tensor_config": {"num_bits": 1e308, "granularity": "BLOCKWISE_99999999999999999999"}}}]',
    "endless digits": "[" + "9" * 5000 + "]",
    "further fields": '[{"regex": ".*", "operation": "*", "algorithm_key": "no_quantize", "jfuse": {"__class__": 1}}]',
    "no expression": '[{"regex": "(", "operation": "*", "algorithm_key": "no_quantize"}]',
    "no text": "\xff\xfe",
}


@pytest.mark.parametrize("name", [*RECIPES, "a pipe", "a device"])
def test_recipes(name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.json"
    if name in RECIPES:
        path.write_bytes(RECIPES[name].encode("latin-1"))
    else:
        ARRAYS[name](path)
    _refused(lambda: jfuse.quantize(model, path, "random", verify=False))


@pytest.mark.parametrize("name", ["a pipe", "a device", "no bytes", "a folder"])
def test_timings_and_models(name: str, model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for suffix in ("txt", "tflite", "pb", "keras", "h5", "pt2"):
        path = tmp_path / f"file.{suffix}"
        ARRAYS[name](path)
        if suffix == "txt":
            _refused(partial(jfuse.tune, model, timings=[path], verify=False))
        else:
            _refused(partial(jfuse.load, path))
