"""The options of a comparison, grouped by topic. `jfuse.verify` says what each one means."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from jfuse.base.errors import JfuseError, shown
from jfuse.base.option_values import LARGEST_SIZE, names_of, path_of, real, whole

Edges: TypeAlias = Literal["none", "finite", "nan"]
Infinite: TypeAlias = Literal["infinite"]
EDGES: tuple[Edges, ...] = get_args(Edges)


def _each(sizes: Any) -> Sequence[Mapping[str, int]]:
    """The choices of sizes; raises JfuseError if there are none."""
    choices = [] if sizes is None else [sizes] if isinstance(sizes, Mapping) else sizes
    are_mappings = isinstance(choices, Sequence) and all(isinstance(one, Mapping) for one in choices)
    if not are_mappings or (sizes is not None and not len(choices)):  # no choice at all would compare nothing
        raise JfuseError("sizes= takes sizes by name", expected="{'B': 4}, or several of these", found=shown(sizes))
    return choices


@dataclass(frozen=True)
class SamplingOptions:
    """The calls that are compared. edges: "infinite" as well, one infinity in one call."""

    samples: int = 0
    calls: int = 3
    seed: int = 0
    inputs: Any = None
    sizes: Mapping[str, int] | Sequence[Mapping[str, int]] | None = None
    signatures: Sequence[str] | None = None
    edges: Edges | Infinite = "finite"
    empty: bool = False

    def __post_init__(self) -> None:
        whole("samples=", self.samples, most=LARGEST_SIZE)
        whole("calls=", self.calls, 1, LARGEST_SIZE)
        whole("seed=", self.seed)
        names_of("signatures=", self.signatures)
        for sizes in _each(self.sizes):
            for name, size in sizes.items():
                whole(f"sizes= for {name}", size, most=LARGEST_SIZE)


@dataclass(frozen=True)
class FindingOptions:
    """Options for what happens after a difference: save, shrink and locate it."""

    save_failing: str | Path | None = None
    shrink: int = 100
    equations: bool = False

    def __post_init__(self) -> None:
        whole("shrink=", self.shrink)
        if self.save_failing is not None:
            path_of("save_failing=", self.save_failing)


@dataclass(frozen=True)
class VerifyOptions:
    """All that `jfuse.verify` takes besides the two sides."""

    sampling: SamplingOptions = SamplingOptions()
    finding: FindingOptions = FindingOptions()
    tolerance: float | Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        tolerance = self.tolerance
        if tolerance is not None:
            for name, value in tolerance.items() if isinstance(tolerance, Mapping) else [("", tolerance)]:
                real(f"tolerance= for {name}" if name else "tolerance=", value)
