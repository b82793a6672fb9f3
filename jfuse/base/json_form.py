"""JSON of the records that users read.

An object has the fields of a dataclass. `metadata={"json": "name"}` of a field renames it, None leaves it out;
`json_also` of the class names properties and methods that the object has as well, by their names in JSON.
`python -m tests.generated` makes docs/schemas/ of the same declarations.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.base.files import write_atomic
from jfuse.base.measure import as_json_number


@dataclass(frozen=True)
class JsonFormat:
    """The content of a JSON file: its `format` and `version`, the fields of a record, and more fields by type.

    record: a dataclass, or a union of several. The version changes if a field is removed or changes its meaning, but
    not for new fields.
    """

    name: str
    version: int
    record: Any = None
    more: Mapping[str, Any] = field(default_factory=dict)

    def content(self, record: object = None, **more: object) -> dict[str, Any]:
        """The file as dicts, lists, texts, numbers, bools and None."""
        assert more.keys() == self.more.keys(), more
        own = {} if record is None else as_json(record)
        return {"format": self.name, "version": self.version, **own, **as_json(more)}


def as_json(value: Any) -> Any:
    """A value as dicts, lists, texts, numbers, bools and None; infinities and NaN are texts."""
    if is_dataclass(value) and not isinstance(value, type):
        names = json_names(type(value))
        return {name: as_json(_attribute(value, attribute)) for name, attribute in names.items()}
    if isinstance(value, Mapping):
        return {str(key): as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    if isinstance(value, float | np.floating):
        return as_json_number(float(value))
    return str(value) if isinstance(value, os.PathLike) else value


def json_names(record: type) -> dict[str, str]:
    """The attribute of a dataclass for each name in JSON."""
    stored = {f.metadata.get("json", f.name): f.name for f in fields(record)}
    stored.pop(None, None)
    return stored | getattr(record, "json_also", {})


def _attribute(record: object, name: str) -> Any:
    value = getattr(record, name)
    return value() if callable(value) else value


def write_data(data: Mapping[str, Any], path: str | os.PathLike[str]) -> Path:
    """Write dicts, lists, texts and numbers as JSON: whole or not at all."""
    write_atomic(path, (json.dumps(data, indent=1, allow_nan=False) + "\n").encode("ascii"))
    return Path(path)
