"""The names of the targets, and of the runtimes that can run a file here. Nothing slow is imported for them."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal, TypeAlias, get_args

OLDEST = re.compile(r"litert>=(\d+(?:\.\d+){0,2})")
"""A target that is LiteRT from a release on."""

Target: TypeAlias = Literal[
    "litert",
    "compiled-model",
    "tflite-micro",
    "cmsis-nn",
    "ethos-u55",
    "ethos-u65",
    "ethos-u85",
    "litert-gpu",
    "google-tensor",
]
OldLiteRt: TypeAlias = Literal[
    "litert>=2.3",
    "litert>=2.4",
    "litert>=2.5",
    "litert>=2.6",
    "litert>=2.7",
    "litert>=2.8",
    "litert>=2.9",
    "litert>=2.10",
    "litert>=2.11",
    "litert>=2.12",
    "litert>=2.13",
    "litert>=2.14",
    "litert>=2.15",
    "litert>=2.16",
    "litert>=2.17",
    "litert>=2.18",
    "litert>=2.19",
    "litert>=2.20",
    "litert>=2.21",
]
"""Some of what `OLDEST` matches, for type checkers."""
TargetName: TypeAlias = Target | OldLiteRt
TARGETS: tuple[Target, ...] = get_args(Target)
DEFAULT: Target = "litert"
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
