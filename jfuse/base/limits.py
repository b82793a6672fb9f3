"""Limits of time, memory and size for files from others: beyond them a file is refused, or its run is ended."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import real, whole

GIB = 2**30


@dataclass(frozen=True)
class Limits:
    """Limits for reading and running a file; pass others to `jfuse.load` and `jfuse.verify` as `limits=`.

    nesting: how deep bodies of loops and branches, functions, and the JSON of a `.keras` file may lie in each other.
    equations: operators of a `.tflite` file.
    expanded: equations of a program whose branches share bodies, these counted once for each place that has them. A
        larger one is read, printed, saved and verified, as bodies stay shared, and runs equation by equation; it is
        not lowered.
    constant_bytes: of all constants of a `.tflite` file together, unpacked (sparse tensors become dense).
    seconds: for one call of a file, on XLA, in LiteRT or in TensorFlow. None: ten minutes for a first call, then a
        hundred times as long as the calls before took on average, and at least a minute; on XLA and in TensorFlow,
        where only loops are timed, ten minutes for each call, and an hour for many samples in one call.
    memory_bytes: of one process of LiteRT, besides its own code (on Linux).
    archive_bytes: of all members of a `.keras` archive, unpacked; archive_ratio: how many times its compressed size a
        member above 64 MiB may take (zlib reaches 1,032; weights of zeros are the only honest members near it).
    Raises JfuseError for a field that is no whole number from 0 on; of `seconds` for one that is no number above 0.
    """

    nesting: int = 200
    equations: int = 200_000
    expanded: int = 20_000
    constant_bytes: int = 64 * GIB
    seconds: float | None = None
    memory_bytes: int = 16 * GIB
    archive_bytes: int = 16 * GIB
    archive_ratio: int = 200

    def __post_init__(self) -> None:
        for of in fields(self):
            given = getattr(self, of.name)
            if of.name != "seconds":
                object.__setattr__(self, of.name, whole(f"jfuse.Limits({of.name}=)", given))
            elif given is not None:
                seconds = real("jfuse.Limits(seconds=)", given, positive=True, most=math.inf)
                object.__setattr__(self, of.name, seconds)


DEFAULT_LIMITS = Limits()


def need_limits(given: object) -> None:
    """Raise JfuseError for anything but Limits, as an option `limits=`."""
    if not isinstance(given, Limits):
        raise JfuseError("limits= takes jfuse.Limits", found=shown(given), remedy="limits=jfuse.Limits(seconds=…)")
