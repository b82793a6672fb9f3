"""Read `saved_model.pb` (or its text form) of a SavedModel folder without loading the model."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.base.files import need_regular
from jfuse.tf_nodes.messages import as_own, message_class
from jfuse.tf_nodes.presence import need_tensorflow
from jfuse.tflite.mapped_file import read_file

_INIT_OP = "__saved_model_init_op"
"""TensorFlow writes this one for itself."""


@dataclass(frozen=True)
class DescribedSignature:
    """One signature: the names of its inputs and outputs -> the names of the tensors of the graph."""

    inputs: Mapping[str, str]
    outputs: Mapping[str, str]

    def is_like(self, other: DescribedSignature) -> bool:
        """Whether the names of inputs and outputs are the same."""
        return self.inputs.keys() == other.inputs.keys() and self.outputs.keys() == other.outputs.keys()


def has_saved_model(path: Path) -> bool:
    """Whether the folder is a SavedModel."""
    return (path / "saved_model.pb").exists() or (path / "saved_model.pbtxt").exists()


def read_saved_model(path: Path) -> Any:
    """The message SavedModel of a folder. Raises ImportFailed for a damaged file."""
    from google.protobuf import text_format
    from google.protobuf.message import DecodeError

    file = path / "saved_model.pb"
    try:
        if file.exists():
            return message_class("SavedModel").FromString(bytes(read_file(file)[0]))
        need_tensorflow(f"{path} has a saved_model.pbtxt, which cannot be read without TensorFlow")
        from tensorflow.core.protobuf.saved_model_pb2 import SavedModel

        # Whatever names of fields the text form has, TensorFlow knows; it parses as strictly.
        text = need_regular(path / "saved_model.pbtxt").read_text(encoding="utf-8")
        return as_own(text_format.Parse(text, SavedModel()))
    except (DecodeError, text_format.ParseError, UnicodeDecodeError) as error:
        raise ImportFailed(f"{path} cannot be read as a SavedModel", found=str(error)) from error


def described_signatures(path: Path, tags: Collection[str] | None = None) -> dict[str, DescribedSignature]:
    """The signatures of a SavedModel by key, in alphabetical order.

    tags: those of the graph to look at; None for {"serve"}.
    Raises OSError for a folder that is no SavedModel, ValueError where no graph has the tags, ImportFailed for a
    damaged file.
    """
    if not has_saved_model(path):
        raise OSError(f"SavedModel file does not exist at: {path}/{{saved_model.pbtxt|saved_model.pb}}")
    asked = set(tags or {"serve"})
    graphs = read_saved_model(path).meta_graphs
    graph = next((g for g in graphs if set(g.meta_info_def.tags) == asked), None)
    if graph is None:
        tag_sets = [sorted(g.meta_info_def.tags) for g in graphs]
        raise ValueError(
            f"Got an incompatible argument to `tags`: {sorted(asked)}. The SavedModel at {path} has graphs with tags "
            f"{', '.join(map(str, tag_sets))}."
        )
    return {
        key: DescribedSignature(_tensors(table.inputs), _tensors(table.outputs))
        for key, table in sorted(graph.signature_def.items())
        if key != _INIT_OP
    }


def _tensors(infos: Mapping[str, Any]) -> dict[str, str]:
    return {name: info.name for name, info in infos.items()}
