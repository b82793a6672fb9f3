"""Whole models in `.h5` files, the form of Keras 2 that Keras 3 still writes and reads."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.base.limits import Limits
from jfuse.frontends.keras_archive import IsRegistered, check_config, check_weights

H5_SUFFIXES = (".h5", ".hdf5")


def read_h5(path: Path) -> tuple[Any, object, object]:
    """The configuration of the model, the module that it names, and the version of the Keras that wrote it.

    Raises ImportFailed where the file is none of HDF5's, or holds weights alone.
    """
    import h5py

    try:
        with h5py.File(path, "r") as file:
            text, version = (_text(file.attrs.get(name)) for name in ("model_config", "keras_version"))
        config = None if text is None else json.loads(text)
    except (OSError, RuntimeError, ValueError, RecursionError) as error:
        raise ImportFailed(f"{path} cannot be read as an HDF5 file", found=str(error)) from error
    if not isinstance(config, dict):
        raise ImportFailed(
            f"{path} holds no model", expected="what model.save writes", found="weights alone", remedy="save the model"
        )
    return config, config.get("module"), version


def check_h5(path: Path, config: Any, is_registered: IsRegistered, limits: Limits) -> None:
    """Raise ImportFailed where loading the file would import, execute or read more than Keras's own layers do."""
    check_config(path, config, is_registered, limits)
    check_weights(path, path.name, path)


def _text(attribute: Any) -> str | None:
    return attribute.decode() if isinstance(attribute, bytes) else None if attribute is None else str(attribute)
