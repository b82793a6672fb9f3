"""What a .tflite file says of itself: its description and its metadata."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.export.metadata import BUFFER_LOCATION, DESCRIPTION, MIN_RUNTIME_VERSION
from jfuse.frontends.tflite_buffers import Buffers
from jfuse.frontends.tflite_fields import text
from jfuse.ir.graph import Const


def written_by_others(model: Any, buffers: Buffers) -> tuple[str | None, tuple[tuple[str, Const], ...]]:
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
