"""One file of the corpus."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, eq=False)
class File:
    """A .tflite file by its name, and what makes its bytes, the same in every run.

    hosted: whether some of it may run in LiteRT, as it works on quantized integers; None where that is not the point.
    inputs: in the order of its one signature, where random ones will not do.
    """

    name: str
    make: Callable[[], bytes]
    hosted: bool | None = None
    inputs: tuple[np.ndarray, ...] | None = None

    def __str__(self) -> str:
        return self.name
