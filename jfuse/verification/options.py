"""The options of a comparison, grouped by topic. `jfuse.verify` says what each one means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

EDGES = ("none", "finite", "nan")


@dataclass(frozen=True)
class SamplingOptions:
    """The calls that are compared. edges: "infinite" as well, one infinity in one call."""

    samples: int = 0
    calls: int = 3
    seed: int = 0
    inputs: Any = None
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None
    signatures: Sequence[str] | None = None
    edges: str = "finite"
    empty: bool = False


@dataclass(frozen=True)
class FindingOptions:
    """What is found out besides whether two sides differ."""

    save_failing: str | Path | None = None
    shrink: int = 100
    equations: bool = False


@dataclass(frozen=True)
class VerifyOptions:
    """All that `jfuse.verify` takes besides the two sides."""

    sampling: SamplingOptions = SamplingOptions()
    finding: FindingOptions = FindingOptions()
    tolerance: float | Mapping[str, float] | None = None
