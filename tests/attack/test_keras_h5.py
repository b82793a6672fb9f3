"""`.h5` files: those of both Kerases load; those that hold code, or data of other files, do not."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

import jfuse
from jfuse.base.errors import ImportFailed
from tests.models.keras_libraries import LIBRARIES


def saved(library: str, path: Path, *layers: Any, weights_only: bool = False) -> Path:
    keras = LIBRARIES[library]
    model = keras.Sequential([keras.layers.Input((3,), name="x"), *layers])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # both call the format a legacy
        (model.save_weights if weights_only else model.save)(str(path))
    return path


@pytest.mark.parametrize("library", LIBRARIES)
def test_honest_files_load(library: str, tmp_path: Path) -> None:
    dense = LIBRARIES[library].layers.Dense(2, activation="relu")
    path = saved(library, tmp_path / "model.h5", dense)
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    kernel, bias = dense.get_weights()
    found = jfuse.load(path)(x)
    np.testing.assert_allclose(found, np.maximum(x @ kernel + bias, 0), rtol=1e-5, atol=1e-6)  # 3-term sums in f32


@pytest.mark.parametrize("library", LIBRARIES)
def test_code_is_refused_unless_it_is_trusted(library: str, tmp_path: Path) -> None:
    path = saved(library, tmp_path / "model.h5", LIBRARIES[library].layers.Lambda(lambda x: x + 1))
    with pytest.raises(ImportFailed, match="it holds code, in a Lambda"):
        jfuse.load(path)
    assert jfuse.load(path, unsafe=True)(np.zeros((1, 3), np.float32)).tolist() == [[1, 1, 1]]


def test_weights_in_other_files_are_refused(tmp_path: Path) -> None:
    path = saved("keras", tmp_path / "model.h5", LIBRARIES["keras"].layers.Dense(2))
    with h5py.File(path, "a") as file:
        file["more"] = h5py.ExternalLink(str(tmp_path / "secret.h5"), "/x")
    with pytest.raises(ImportFailed, match="its weights are in other files"):
        jfuse.load(path)


def test_what_is_no_model(tmp_path: Path) -> None:
    weights = saved("keras", tmp_path / "a.weights.h5", LIBRARIES["keras"].layers.Dense(2), weights_only=True)
    with pytest.raises(ImportFailed, match="holds no model"):
        jfuse.load(weights)
    (tmp_path / "b.h5").write_bytes(b"no HDF5")
    with pytest.raises(ImportFailed, match="cannot be read as an HDF5 file"):
        jfuse.load(tmp_path / "b.h5")
