"""Metadata of the file: the oldest runtime that can run it, and where its data lies."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jfuse.tflite.runtime.versions import has_runtime, min_runtime

DESCRIPTION = "jfuse"
MIN_RUNTIME_VERSION = "min_runtime_version"
BUFFER_LOCATION = "buffer_location"
DEBUG_METADATA = "debug_metadata"
"""Where operators came from, which they and subgraphs refer to by index."""
OUTSIDE = np.frombuffer(b"outside flatbuffers", np.uint8)
"""The value of BUFFER_LOCATION in a file whose data lies behind the flatbuffer."""
_OUTSIDE_RUNTIME = "2.16.0"  # the oldest that reads such files
_WIDTH = 16  # bytes, padded with NUL


def min_runtime_version(operators: Iterable[tuple[str, int]]) -> str:
    """The oldest runtime that has every operator (builtin name, version); "1.5.0" for none, the first of all.

    Operators that no runtime is known to have, as files that were read may hold them, do not count.
    """
    known = (min_runtime(*operator) for operator in operators if has_runtime(*operator))
    return max(known, key=_numbers, default="1.5.0")


def min_runtime_bytes(operators: Iterable[tuple[str, int]], *, outside: bool = False) -> np.ndarray:
    """The content of the entry `min_runtime_version`.   outside: data lies behind the flatbuffer"""
    versions = [min_runtime_version(operators), *([_OUTSIDE_RUNTIME] if outside else [])]
    return np.frombuffer(max(versions, key=_numbers).encode().ljust(_WIDTH, b"\0"), np.uint8)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
