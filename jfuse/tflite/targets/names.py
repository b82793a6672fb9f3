"""The names of the targets, and of the runtimes that can run a file here. Nothing slow is imported for them."""

from __future__ import annotations

import re
from collections.abc import Sequence

OLDEST = re.compile(r"litert>=(\d+(?:\.\d+){0,2})")
"""A target that is LiteRT from a release on."""

TARGETS = (
    "litert",
    "compiled-model",
    "tflite-micro",
    "cmsis-nn",
    "ethos-u55",
    "ethos-u65",
    "ethos-u85",
    "litert-gpu",
    "google-tensor",
)
DEFAULT = "litert"
NAMES = (*TARGETS, "litert>=X.Y")
RUNTIMES = ("tflite-micro", "compiled-model")
"""Runtimes besides LiteRT that run a file here, where they are installed."""


def is_target(name: str) -> bool:
    """Whether a target has that name."""
    return name in TARGETS or OLDEST.fullmatch(name) is not None


def names_in(target: object) -> list[object]:
    """The names of one target or several: of a text the parts between commas, of a sequence its items."""
    if isinstance(target, str):
        return [name.strip() for name in target.split(",")]
    return list(target) if isinstance(target, Sequence) else [target]
