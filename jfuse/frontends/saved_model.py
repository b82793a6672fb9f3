"""SavedModel directories: read from their files, or by TensorFlow's loader if jfuse cannot read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.frontends.checkpoint.tensor_bundle import NotUnderstood
from jfuse.frontends.outside_effects import check_saved_model
from jfuse.frontends.saved_model_file import has_saved_model, read_saved_model
from jfuse.frontends.stored_functions import StoredModel
from jfuse.frontends.tensorflow.callable import reason_of
from jfuse.frontends.tensorflow.live_function import LiveFunction
from jfuse.frontends.tensorflow.signature import TfSignature, flat_names
from jfuse.frontends.utf8_names import utf8_name
from jfuse.tf_nodes.presence import need_tensorflow


def saved_model_signatures(
    path: Path, keys: Sequence[str] | None, *, unsafe: bool = False
) -> tuple[list[TfSignature], Any, tuple[str, ...]]:
    """The signatures of a SavedModel, the object that must stay alive with them, and notes for the report.

    keys: the wanted signatures; None for all. unsafe: let it read and write files and run Python code.
    Raises ImportFailed where the folder cannot be read or a key is missing.
    """
    if not has_saved_model(path):
        raise ImportFailed(f"{path} is not a SavedModel", expected="a folder with a saved_model.pb")
    message = read_saved_model(path)
    if not unsafe:
        check_saved_model(path, message)
    load = cache(lambda: _loaded(path))
    try:
        if len(message.meta_graphs) != 1:
            raise NotUnderstood(f"it holds {len(message.meta_graphs)} graphs")
        available = StoredModel(path, message.meta_graphs[0], load).signatures()
        notes: tuple[str, ...] = ()
        keep_alive: Any = None
    except NotUnderstood as error:
        need_tensorflow(f"{path} cannot be read without TensorFlow: {error}")
        keep_alive = load()
        available = {key: _live(key, function) for key, function in keep_alive.signatures.items()}
        notes = (f"TensorFlow's loader has read the SavedModel: {error}",)
    if not available:
        raise ImportFailed(
            f"{path} has no signatures", remedy="save it with signatures={'serving_default': …} or model.export(…)"
        )
    return _wanted(available, keys, str(path)), keep_alive, notes


def _loaded(path: Path) -> Any:
    """The object that TensorFlow loads."""
    import tensorflow as tf

    try:
        with utf8_name(path) as name:
            loaded = tf.saved_model.load(str(name))
    except Exception as error:  # TensorFlow raises whatever its readers raise
        raise ImportFailed(f"{path} cannot be read as a SavedModel", found=reason_of(error)) from error
    if not isinstance(getattr(loaded, "signatures", None), Mapping):
        raise ImportFailed(f"{path} cannot be read as a SavedModel", found="signatures that are none for TensorFlow")
    return loaded


def _wanted(available: Mapping[str, TfSignature], keys: Sequence[str] | None, source: str) -> list[TfSignature]:
    missing = [key for key in keys or () if key not in available]
    if missing:
        raise ImportFailed(f"{source} has no signature {missing[0]!r}", expected=f"one of {sorted(available)}")
    return [available[key] for key in sorted(available) if keys is None or key in keys]


def _live(key: str, function: Any) -> TfSignature:
    if not hasattr(function, "structured_input_signature"):
        raise ImportFailed(f"the signature {key!r} is no function", found=type(function).__name__)
    _, named = function.structured_input_signature
    inputs, outputs = flat_names(named, "input"), flat_names(function.structured_outputs, "output")
    return TfSignature(key, LiveFunction(function, named=(len(inputs), len(outputs))), inputs, outputs)
