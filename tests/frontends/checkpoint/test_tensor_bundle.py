"""Checkpoints that TensorFlow writes, read without it; and damaged ones."""

from __future__ import annotations

import shutil
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.tensor_bundle import NotUnderstood, open_bundle

RNG = np.random.default_rng(0)
TENSORS = {
    **{f"a/{d}": RNG.integers(0, 100, (3, 5)).astype(d) for d in ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1")},
    "bf16": np.array([[1.5, -2], [3, 4]], ml_dtypes.bfloat16),
    "bool": np.array([True, False, True]),
    "complex": np.array([1 + 2j, 3], np.complex64),
    "strings": np.array([["", "long " * 60], ["a", "\u20ac"]], object),
    "scalar": np.array(4, np.int64),
    "none": np.zeros((0, 4), np.float32),
    "large": RNG.standard_normal((700, 500)).astype(np.float32),
    **{f"many/{i}/.ATTRIBUTES/VARIABLE_VALUE": np.full(3, i, np.float32) for i in range(300)},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bundle")
    names = list(TENSORS)
    tensors = [tf.constant(v) for v in TENSORS.values()]
    tf.raw_ops.SaveV2(prefix=str(path / "v"), tensor_names=names, shape_and_slices=[""] * len(names), tensors=tensors)
    return path


@pytest.fixture
def copy(folder: Path, tmp_path: Path) -> Path:
    shutil.copytree(folder, tmp_path / "copy")
    return tmp_path / "copy"


def test_every_tensor_is_read(folder: Path) -> None:
    bundle = open_bundle(folder / "v")
    assert set(bundle.entries) == {b"", *(name.encode() for name in TENSORS)}
    for name, value in TENSORS.items():
        found = bundle.read(name)
        expected = tf.constant(value).numpy()
        assert found.shape == value.shape
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


def test_numbers_are_views_of_the_file(tmp_path: Path) -> None:
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "v"), tensor_names=["a", "b"], shape_and_slices=["", ""], tensors=[tf.ones(3), tf.ones(4)]
    )
    bundle = open_bundle(tmp_path / "v")
    assert np.shares_memory(bundle.read("b"), bundle.read("b"))
    assert not bundle.read("b").flags.writeable


def test_parts_of_a_variable_are_left_to_tensorflow(tmp_path: Path) -> None:
    halves = [tf.ones((2, 3)), tf.zeros((2, 3))]
    tf.raw_ops.SaveV2(
        prefix=str(tmp_path / "v"),
        tensor_names=["w", "w"],
        shape_and_slices=["4 3 0,2:0,3", "4 3 2,2:0,3"],
        tensors=halves,
    )
    with pytest.raises(NotUnderstood, match="holds 'w' in parts"):
        open_bundle(tmp_path / "v").read("w")


def test_a_tensor_that_is_not_there(folder: Path) -> None:
    with pytest.raises(ImportFailed, match=r"damaged at 'nothing'\n.*no such tensor"):
        open_bundle(folder / "v").read("nothing")


@pytest.mark.parametrize("name", ["large", "a/i4", "strings"])
def test_one_wrong_bit_is_seen(copy: Path, name: str) -> None:
    file = copy / "v.data-00000-of-00001"
    value = TENSORS[name].reshape(-1)
    wanted = value[1].encode() if value.dtype == object else value.tobytes()
    data = bytearray(file.read_bytes())
    data[data.index(wanted) + len(wanted) // 2] ^= 16
    file.write_bytes(data)
    with pytest.raises(ImportFailed, match=rf"damaged at '{name}'\n.*a wrong checksum"):
        open_bundle(copy / "v").read(name)


def test_a_short_file_is_seen(copy: Path) -> None:
    file = copy / "v.data-00000-of-00001"
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(ImportFailed, match=r"damaged at 'large'\n.*of 1000"):
        open_bundle(copy / "v").read("large")


def test_a_missing_file_is_seen(copy: Path) -> None:
    (copy / "v.data-00000-of-00001").unlink()
    with pytest.raises(ImportFailed, match=r"the file cannot be read at .*data-00000"):
        open_bundle(copy / "v").read("large")


def test_a_damaged_index_is_one_error(copy: Path) -> None:
    """Whatever byte changes, and wherever the file ends: TensorFlow's blocks have checksums, the footer has none."""
    file = copy / "v.index"
    data = file.read_bytes()
    rng = np.random.default_rng(1)
    for place in (*rng.integers(0, len(data), 60), *range(len(data) - 48, len(data))):
        changed = bytearray(data)
        changed[place] ^= 1 << int(rng.integers(8))
        file.write_bytes(changed)
        _read_or_refuse(copy)
    for size in (0, 10, 47, 48, len(data) // 2, len(data) - 1):
        file.write_bytes(data[:size])
        with pytest.raises(ImportFailed, match="is damaged"):
            open_bundle(copy / "v")


def _read_or_refuse(copy: Path) -> None:
    try:
        found = open_bundle(copy / "v").read("a/i4")
    except ImportFailed:
        return
    np.testing.assert_array_equal(found, TENSORS["a/i4"])
