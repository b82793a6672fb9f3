"""Metadata of a file for people and code generators: the entry TFLITE_METADATA, and its associated files.

Its schema is tflite-support's metadata_schema.fbs (identifier M001); Android Studio, MediaPipe and the task library
read it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.base.option_values import path_of

NAME = "TFLITE_METADATA"
CONTENTS = ("", "feature", "image")
COLOUR_SPACES = ("", "rgb", "grayscale")


@dataclass(frozen=True)
class TensorMetadata:
    """Metadata of one input or output.

    name, description: for people; the name is that of the signature by default. dimension_names: one for each axis.
    labels: the path of a text file with a line for each index of the last axis. value_labels: a file with a line for
    each value, such as the classes of boxes. vocabulary: a file with a word in each line.
    mean, std: of the normalization (x - mean) / std that the input expects, one number or one for each channel.
    minimum, maximum: of the values, likewise. content: "image" or "feature"; colour_space: of an image, "rgb" or
    "grayscale".
    """

    name: str = ""
    description: str = ""
    dimension_names: Sequence[str] = ()
    labels: str | os.PathLike[str] | None = None
    value_labels: str | os.PathLike[str] | None = None
    vocabulary: str | os.PathLike[str] | None = None
    mean: Sequence[float] = ()
    std: Sequence[float] = ()
    minimum: Sequence[float] = ()
    maximum: Sequence[float] = ()
    content: str = ""
    colour_space: str = ""

    def __post_init__(self) -> None:
        for option, value, choices in (
            ("content", self.content, CONTENTS),
            ("colour_space", self.colour_space, COLOUR_SPACES),
        ):
            if value not in choices:
                raise JfuseError(f"metadata: no {option} {value!r}", expected=" or ".join(map(repr, choices)))
        if len(self.mean) != len(self.std):
            raise JfuseError("metadata: mean and std have one length", found=f"{len(self.mean)} and {len(self.std)}")

    def files(self) -> dict[str, Path]:
        """The associated files by what they are: "labels", "value_labels", "vocabulary"."""
        kinds = ("labels", "value_labels", "vocabulary")
        return {kind: Path(path) for kind in kinds if (path := getattr(self, kind)) is not None}


@dataclass(frozen=True)
class Metadata:
    """Metadata of a model: `jfuse.convert(source, metadata=…)`.

    name, description, version, author, license: for people. inputs, outputs: of tensors, by their names in the
    signatures. files: paths of further files to go with the model.
    """

    name: str = ""
    description: str = ""
    version: str = ""
    author: str = ""
    license: str = ""
    inputs: Mapping[str, TensorMetadata] = field(default_factory=dict)
    outputs: Mapping[str, TensorMetadata] = field(default_factory=dict)
    files: Sequence[str | os.PathLike[str]] = ()

    def associated(self) -> dict[str, bytes]:
        """All files by name. Raises JfuseError where one cannot be read, or two of one name differ."""
        contents: dict[str, bytes] = {}
        tensors = (*self.inputs.values(), *self.outputs.values())
        for path in (*(p for t in tensors for p in t.files().values()), *map(Path, self.files)):
            try:
                content = path.read_bytes()
            except OSError as error:
                raise JfuseError("an associated file cannot be read", where=str(path), found=error.strerror) from error
            if contents.setdefault(path.name, content) != content:
                raise JfuseError("two associated files have one name", found=path.name, remedy="rename one of them")
        return contents


def metadata_of(given: Metadata | Mapping[str, Any] | str | os.PathLike[str]) -> Metadata:
    """The metadata in a mapping of its fields, or in a .json file, whose paths are beside it.

    Raises JfuseError for fields that there are not.
    """
    if isinstance(given, Metadata):
        return given
    if isinstance(given, Mapping):
        return _of_mapping(given, Path())
    path = path_of("metadata=", given)
    try:
        parsed = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise JfuseError("the metadata cannot be read", where=str(path), found=str(error)) from error
    if not isinstance(parsed, dict):
        raise JfuseError("the metadata is no JSON object", where=str(path), found=type(parsed).__name__)
    return _of_mapping(parsed, path.parent)


def _of_mapping(given: Mapping[str, Any], folder: Path) -> Metadata:
    known = dict(_known(Metadata, given))
    for name in ("inputs", "outputs"):
        tensors = known.get(name, {})
        if not isinstance(tensors, Mapping):
            raise JfuseError(f"metadata: {name} are a mapping by name", found=type(tensors).__name__)
        known[name] = {key: _tensor(value, folder) for key, value in tensors.items()}
    known["files"] = [folder / path for path in known.get("files", ())]
    return Metadata(**known)


def _tensor(fields_given: Any, folder: Path) -> TensorMetadata:
    if isinstance(fields_given, TensorMetadata):
        return fields_given
    if not isinstance(fields_given, Mapping):
        raise JfuseError("metadata: a tensor is a mapping of fields", found=type(fields_given).__name__)
    known = dict(_known(TensorMetadata, fields_given))
    for kind in ("labels", "value_labels", "vocabulary"):
        if known.get(kind) is not None:
            known[kind] = folder / known[kind]
    return TensorMetadata(**known)


def _known(kind: type, given: Mapping[str, Any]) -> Iterable[tuple[str, Any]]:
    names = [f.name for f in fields(kind)]
    if wrong := given.keys() - set(names):
        raise JfuseError(f"metadata: no such field as {', '.join(sorted(wrong))}", expected=", ".join(names))
    return given.items()
