"""What a row of the matrix of recurrent models is, and inputs for rows with masks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

SIZES = (3, 1, 5, 2)
"""Batches of successive invokes: they grow and shrink."""

Draw = Callable[[int], dict[str, np.ndarray]]
"""From the number of an invoke the inputs by name."""


@dataclass(frozen=True)
class Row:
    """One recurrent model and what it must become.

    kind: of cell or of use; the first row of a kind is in the default suite.
    build: from an empty folder to a source for `jfuse.convert`; saved models are written there.
    fused: how many recurrences become fused ops: "lstm", "rnn" (a bidirectional op is two) or "svdf"; no others may.
    operators: the exact number of further operators, by name.
    loops: how many WHILEs are left; None where the cost model decides between WHILE and unrolled steps.
    options: for `jfuse.convert`.
    draw: the inputs of an invoke; random ones where it is None.
    tolerance: where 1e-5 is not what the source's own dtype gives; with a comment in the table.
    asleep: variables (parts of their names) that this use of the model does not read.
    tested: why its fusions are tested only; "" where each is proven.
    """

    name: str
    kind: str
    build: Callable[[Path], Any]
    fused: Mapping[str, int] = field(default_factory=dict)
    operators: Mapping[str, int] = field(default_factory=dict)
    loops: int | None = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    draw: Draw | None = None
    tolerance: float | None = None
    asleep: tuple[str, ...] = ()
    tested: str = ""

    def __str__(self) -> str:
        return self.name


def masked_steps(side: str, steps: int, batch: int, seed: int) -> np.ndarray:
    """A mask bool[b,t] with True where a step counts.

    side: "right" and "left" pad there, with rows of length 0 and of full length among them; "any" has gaps.
    """
    rng = np.random.default_rng(seed)
    if side == "any":
        return np.asarray(rng.random((batch, steps)) < 0.6)
    lengths = rng.integers(1, steps + 1, batch)
    lengths[: min(batch - 1, 2)] = (steps, 0)[: min(batch - 1, 2)]
    counts = np.arange(steps)[None] < lengths[:, None]
    return np.asarray(counts if side == "right" else counts[:, ::-1])


def padded_rows(side: str, steps: int = 6, features: int = 5, batch: int | None = None) -> Draw:
    """Draws "x" f32[b,t,i], all zero at the steps that do not count."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        rows = batch or SIZES[seed % len(SIZES)]
        x = np.random.default_rng(seed).standard_normal((rows, steps, features)).astype(np.float32)
        return {"x": x * masked_steps(side, steps, rows, seed)[..., None]}

    return draw


def padded_ids(side: str, steps: int = 6, vocabulary: int = 20, batch: int | None = None) -> Draw:
    """Draws "x" i32[b,t], 0 at the steps that do not count."""

    def draw(seed: int) -> dict[str, np.ndarray]:
        rows = batch or SIZES[seed % len(SIZES)]
        ids = np.random.default_rng(seed).integers(1, vocabulary, (rows, steps)).astype(np.int32)
        return {"x": ids * masked_steps(side, steps, rows, seed)}

    return draw
