"""Metadata of the file: the oldest runtime that can run it."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from jfuse.export.versions import min_runtime

MIN_RUNTIME_VERSION = "min_runtime_version"
_WIDTH = 16  # bytes, padded with NUL


def min_runtime_version(operators: Iterable[tuple[str, int]]) -> str:
    """The oldest runtime that has every operator (builtin name, version); "1.5.0" for none, the first of all."""
    return max((min_runtime(builtin, version) for builtin, version in operators), key=_numbers, default="1.5.0")


def min_runtime_bytes(operators: Iterable[tuple[str, int]]) -> np.ndarray:
    """The content of the entry `min_runtime_version`."""
    return np.frombuffer(min_runtime_version(operators).encode().ljust(_WIDTH, b"\0"), np.uint8)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))
