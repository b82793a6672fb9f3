"""Recurrences that only resemble a known one: each differs from it in a single place."""

from __future__ import annotations

from typing import Any

import numpy as np

from tests.models.decoys import decoys_loops, decoys_lstm, decoys_other
from tests.models.decoys.decoy_rows import Decoy

DECOYS: dict[str, Decoy] = {**decoys_lstm.DECOYS, **decoys_loops.DECOYS, **decoys_other.DECOYS}


def build_decoy(name: str) -> Any:
    """The tf.function of a decoy."""
    return DECOYS[name].build()


def telling_input(name: str, seed: int = 0) -> np.ndarray:
    """The sequence f32[3,6,5] of inputs on which the decoy answers otherwise than what it resembles."""
    return DECOYS[name].draw(seed)["x"]
