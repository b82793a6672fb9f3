"""What a user may hand to jfuse, and which frontend reads it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from jfuse.errors import ImportFailed
from jfuse.frontends.keras import is_keras_model, keras_signature, load_keras_file
from jfuse.frontends.saved_model import saved_model_signatures
from jfuse.frontends.tf_callable import callable_signatures, is_concrete, is_traceable
from jfuse.frontends.tf_function import TfSignature, import_signatures, live_variables
from jfuse.ir.graph import Graph, Program, Signature
from jfuse.lowering.rules import LowerRule


@dataclass(frozen=True)
class Imported:
    """A program with where it came from: the TensorFlow functions behind its signatures, and notes for the report."""

    program: Program
    functions: Mapping[str, TfSignature]
    notes: tuple[str, ...] = ()
    keep_alive: Any = None  # concrete functions hold their variables weakly


def import_tensorflow(
    source: Any,
    rules: Mapping[str, LowerRule],
    *,
    signatures: Sequence[str] | None = None,
    input_signature: Sequence[Any] | None = None,
) -> Imported:
    """Import a SavedModel folder, a `.keras` file, a Keras model, tf.functions or concrete functions.

    signatures: keys of a SavedModel to import; None for all.
    input_signature: tf.TensorSpecs for a tf.function or a Keras model, one for each input.
    """
    if isinstance(signatures, str):
        raise ImportFailed("signatures= takes a sequence of keys", found=repr(signatures), remedy=f"[{signatures!r}]")
    if find_spec("tensorflow") is None:
        raise ImportFailed("TensorFlow is not installed", expected="it, to read anything but .tflite files")
    found, keep_alive = _signatures(source, signatures, input_signature)
    if not found:
        raise ImportFailed("no function or signature is given", remedy="name one at least")
    imported, assumptions, notes = import_signatures(found, rules)
    program = Program(tuple(_shared(imported)), tuple(assumptions))
    variables = [live_variables(s.function) for s in found]
    return Imported(program, {s.key: s for s in found}, tuple(notes), (keep_alive, variables))


def _signatures(
    source: Any, keys: Sequence[str] | None, input_signature: Sequence[Any] | None
) -> tuple[list[TfSignature], Any]:
    if isinstance(source, str | Path):
        path = Path(source)
        if not path.exists():
            raise ImportFailed(f"{path} does not exist")
        if path.is_dir():
            return saved_model_signatures(path, keys)
        if path.suffix != ".keras":
            raise ImportFailed(
                f"{path} is of no known kind", expected="a SavedModel folder, a .keras or a .tflite file"
            )
        source = load_keras_file(path)
    if is_keras_model(source):
        found = [keras_signature(source, input_signature)]
    elif is_concrete(source) or is_traceable(source) or isinstance(source, Mapping | list | tuple):
        found = callable_signatures(source, input_signature)
    else:
        raise ImportFailed(
            f"jfuse does not know what to do with a {type(source).__name__}",
            expected="a path, a Keras model, a tf.function or concrete functions",
        )
    missing = [key for key in keys or () if key not in {s.key for s in found}]
    if missing:
        raise ImportFailed(f"the source has no signature {missing[0]!r}", expected=f"one of {[s.key for s in found]}")
    return [s for s in found if keys is None or s.key in keys], source


def _shared(signatures: Sequence[Signature]) -> list[Signature]:
    """Signatures with an equal target share one graph (`serve` and `serving_default` of `model.export`)."""
    graphs: dict[str, Graph] = {}
    result = []
    for s in signatures:
        text = str(s.graph).split("(", 1)[1]  # all but the graph's name, which is the key
        graph = graphs.setdefault(text, s.graph)
        result.append(Signature(s.key, graph, s.input_names, s.output_names))
    return result
