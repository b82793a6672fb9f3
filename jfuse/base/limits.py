"""Limits of time, memory and size for files from others: beyond them a file is refused, or its run is ended."""

from __future__ import annotations

import math
from dataclasses import fields

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import real, whole
from jfuse.base.options import option, options

GIB = 2**30


@options
class Limits:
    """Limits for reading and running a file; pass others as `limits=`.

    Raises JfuseError for a field that is no whole number from 0 on; of seconds for one that is no number above 0.
    """

    nesting: int = option(
        "The depth of nested bodies of loops, branches and functions.",
        "The same for the JSON of a `.keras` file.",
        default=200,
        flag="",
    )
    equations: int = option("Operators of a `.tflite` file.", default=200_000, flag="")
    expanded: int = option(
        "Equations of a program whose branches share bodies, these counted once for each place that has them.",
        "A larger one is read, printed, saved and verified, as bodies stay shared, and runs equation by equation; it is"
        " not lowered.",
        default=20_000,
        flag="",
    )
    constant_bytes: int = option(
        "Bytes of all constants of a `.tflite` file, unpacked (sparse tensors become dense).",
        default=64 * GIB,
        flag="",
    )
    seconds: float | None = option(
        "Seconds that one call of a file may take; by default 100 times others.",
        "On XLA, in LiteRT or in TensorFlow. None: ten minutes for a first call, then a hundred times as long as"
        " the calls before took on average, and at least a minute; on XLA and in TensorFlow, where only loops are"
        " timed, ten minutes for each call, and an hour for many samples in one call.",
        default=None,
        flag="--limit",
        takes=float,
        min=0,
    )
    memory_bytes: int = option(
        "Memory of one process of LiteRT, besides its own code (on Linux).", default=16 * GIB, flag=""
    )
    archive_bytes: int = option("Bytes of all members of a `.keras` archive, unpacked.", default=16 * GIB, flag="")
    archive_ratio: int = option(
        "The largest ratio of unpacked to packed bytes of a member above 64 MiB.",
        "zlib reaches 1,032; weights of zeros are the only honest members near it.",
        default=200,
        flag="",
    )
    conversion_seconds: float = option(
        "Seconds that one conversion of `jfuse bench` may take.", default=900.0, flag="--conversion-limit", min=1
    )

    def __post_init__(self) -> None:
        for of in fields(self):
            given = getattr(self, of.name)
            if not of.name.endswith("seconds"):
                object.__setattr__(self, of.name, whole(f"jfuse.Limits({of.name}=)", given))
            elif given is not None or of.name != "seconds":
                seconds = real(f"jfuse.Limits({of.name}=)", given, positive=True, most=math.inf)
                object.__setattr__(self, of.name, seconds)


DEFAULT_LIMITS = Limits()


def need_limits(given: object) -> None:
    """Raise JfuseError for anything but Limits, as an option `limits=`."""
    if not isinstance(given, Limits):
        raise JfuseError("limits= takes jfuse.Limits", found=shown(given), remedy="limits=jfuse.Limits(seconds=…)")
