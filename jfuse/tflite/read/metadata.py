"""The description and the metadata of a .tflite file."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Const
from jfuse.tflite.metadata import BUFFER_LOCATION, DESCRIPTION, MIN_RUNTIME_VERSION
from jfuse.tflite.read.buffers import ReadBuffers
from jfuse.tflite.read.fields import text

_NO_DEBUG = -1


def written_by_others(model: Any, buffers: ReadBuffers) -> tuple[str | None, tuple[tuple[str, Const], ...]]:
    """The description and the metadata of a file, without what the exporter writes anew."""
    description = text(model.description, "the description")
    anew = {BUFFER_LOCATION, MIN_RUNTIME_VERSION} if description == DESCRIPTION else {BUFFER_LOCATION}
    entries = []
    for number, table in enumerate(model.metadata or ()):
        where = f"metadata {number}"
        name = text(table.name, where)
        data = buffers.bytes_of(int(table.buffer), where)
        if name not in anew:
            entries.append((name, Const(np.zeros(0, np.uint8) if data is None else data)))
    return None if description == DESCRIPTION else description, tuple(entries)


def debug_index(table: Any, where: str) -> int | None:
    """Read the index of an operator or a subgraph into the metadata `debug_metadata`; None without one.

    The contents of that entry are the converter's own, so its length is not checked; the runtime does not read it
    either.
    """
    index = int(table.debugMetadataIndex)
    if index < _NO_DEBUG:
        raise BadFlatbuffer("there is no such debug metadata", where=where, expected="-1 or an index", found=index)
    return None if index == _NO_DEBUG else index
