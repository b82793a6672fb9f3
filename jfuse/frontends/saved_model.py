"""SavedModel directories."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jfuse.errors import ImportFailed
from jfuse.frontends.outside_effects import check_saved_model
from jfuse.frontends.saved_model_file import has_saved_model
from jfuse.frontends.tensorflow.callable import reason_of
from jfuse.frontends.tensorflow.function import TfSignature, flat_names


def saved_model_signatures(
    path: Path, keys: Sequence[str] | None, *, unsafe: bool = False
) -> tuple[list[TfSignature], Any]:
    """The signatures of a SavedModel, and the loaded object, which must be kept for as long as they are used.

    keys: the wanted signatures; None for all. unsafe: let it read and write files and run Python code.
    Raises ImportFailed where the folder cannot be read or a key is missing.
    """
    if not has_saved_model(path):
        raise ImportFailed(f"{path} is not a SavedModel", expected="a folder with a saved_model.pb")
    import tensorflow as tf

    if not unsafe:
        check_saved_model(path)
    try:
        loaded = tf.saved_model.load(str(path))
    except Exception as error:  # TensorFlow raises whatever its readers raise
        raise ImportFailed(f"{path} cannot be read as a SavedModel", found=reason_of(error)) from error
    available = dict(loaded.signatures)
    if not available:
        raise ImportFailed(
            f"{path} has no signatures", remedy="save it with signatures={'serving_default': …} or model.export(…)"
        )
    return [_signature(key, function) for key, function in _wanted(available, keys, str(path)).items()], loaded


def _wanted(available: dict[str, Any], keys: Sequence[str] | None, source: str) -> dict[str, Any]:
    missing = [key for key in keys or () if key not in available]
    if missing:
        raise ImportFailed(f"{source} has no signature {missing[0]!r}", expected=f"one of {sorted(available)}")
    return {key: available[key] for key in sorted(available) if keys is None or key in keys}


def _signature(key: str, function: Any) -> TfSignature:
    _, named = function.structured_input_signature
    return TfSignature(key, function, flat_names(named, "input"), flat_names(function.structured_outputs, "output"))
