"""What a decoy is: a recurrence that differs from a known one in a single place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tests.models.recurrences.recurrent_rows import Draw
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS

BATCH, STEPS = 3, 6


@dataclass(frozen=True)
class Decoy:
    """One decoy, and the model that it resembles: the same inputs, results and weights.

    draw: inputs on which the two answer differently. options: for `jfuse.convert`. fused: recurrences that may fuse all
    the same, as the tables of the matrix count them.
    """

    build: Callable[[], Any]
    twin: Callable[[], Any]
    draw: Draw
    options: Mapping[str, Any] = field(default_factory=dict)
    fused: Mapping[str, int] = field(default_factory=dict)


def telling(*, states: tuple[int, ...] = (), mask: bool = False, scale: float = 1.0, odd: float = 7.0) -> Draw:
    """Draws "x" f32[3,6,5] with a step of zeros and a few entries that are `odd`.

    states: widths of "s0", "s1", … mask: bool[3,6] as "mask", padded on the right, with rows of every length.
    """

    def draw(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        x = (rng.standard_normal((BATCH, STEPS, FEATURES)) * scale).astype(np.float32)
        x[1, 2] = 0.0
        x[0, 1:3, 2] = odd
        found: dict[str, np.ndarray] = {"x": x}
        found |= {f"s{i}": rng.standard_normal((BATCH, n)).astype(np.float32) for i, n in enumerate(states)}
        if mask:
            lengths = rng.permutation([2, 4, STEPS])
            found["mask"] = np.arange(STEPS)[None] < lengths[:, None]
        return found

    return draw


def single_step(widths: tuple[int, ...]) -> Draw:
    """Draws "x" f32[3,5] and states of these widths."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        named = {"x": FEATURES, **{f"s{i}": n for i, n in enumerate(widths)}}
        return {name: rng.standard_normal((BATCH, n)).astype(np.float32) for name, n in named.items()}

    return draw


def repeated_rows(scale: float) -> Draw:
    """Draws "x" whose steps are all alike and large, so that a state grows."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        first = np.random.default_rng(seed).standard_normal((BATCH, 1, FEATURES)).astype(np.float32)
        return {"x": np.repeat(first * np.float32(scale), STEPS, axis=1)}

    return draw


STATES = (UNITS, UNITS)
