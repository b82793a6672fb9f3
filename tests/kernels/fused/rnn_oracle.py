"""What the RNN ops are measured against: the written equations."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from tests.kernels.fused.lstm_oracle import activate


@dataclass(frozen=True)
class RNN:
    """One simple recurrent cell: sizes and random weights. aux: columns of an auxiliary input."""

    batch: int = 3
    steps: int = 4
    inputs: int = 5
    units: int = 6
    aux: int = 0
    activation: str = "TANH"
    time_major: bool = False
    seed: int = 0
    w: np.ndarray = field(init=False, repr=False)
    r: np.ndarray = field(init=False, repr=False)
    b: np.ndarray = field(init=False, repr=False)
    a: np.ndarray | None = field(init=False, repr=False)

    def __post_init__(self) -> None:
        rng = np.random.default_rng(self.seed)
        shapes = {"w": (self.units, self.inputs), "r": (self.units, self.units), "b": (self.units,)}
        for name, shape in shapes.items():
            # Of a size at which units are awake, and rounding errors do not grow from step to step.
            object.__setattr__(self, name, rng.normal(0, 0.9 / np.sqrt(shape[-1]), shape).astype(np.float32))
        a = rng.normal(0, 0.5, (self.units, self.aux)).astype(np.float32) if self.aux else None
        object.__setattr__(self, "a", a)

    def draw(self, seed: int = 1, features: int | None = None) -> np.ndarray:
        """A sequence in the cell's layout."""
        rows = (self.steps, self.batch) if self.time_major else (self.batch, self.steps)
        rng = np.random.default_rng(seed)
        return rng.normal(size=(*rows, features or self.inputs)).astype(np.float32)

    def draw_state(self, seed: int = 1) -> np.ndarray:
        """A hidden state."""
        return np.random.default_rng(seed).normal(0, 0.5, (self.batch, self.units)).astype(np.float32)


def written_step(cell: RNN, x: np.ndarray, h: np.ndarray, aux: np.ndarray | None = None) -> np.ndarray:
    """One step in the dtype of x."""
    w, r, b = (v.astype(x.dtype) for v in (cell.w, cell.r, cell.b))
    total = b + x @ w.T + h @ r.T
    if aux is not None and cell.a is not None:
        total = total + aux @ cell.a.astype(x.dtype).T
    return total if cell.activation == "NONE" else activate(total, cell.activation)


def written(
    cell: RNN, x: np.ndarray, h: np.ndarray, aux: np.ndarray | None = None, *, backwards: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """(y, h') over all steps in the cell's layout; backwards: from the last step on, results at their own step."""
    axis = 0 if cell.time_major else 1
    outputs = {}
    for t in sorted(range(x.shape[axis]), reverse=backwards):
        h = written_step(cell, x.take(t, axis), h, None if aux is None else aux.take(t, axis))
        outputs[t] = h
    return np.stack([outputs[t] for t in sorted(outputs)], axis), h
