"""What the cost models err by, from recurrences that were measured in all forms on several machines.

`measured_forms.json` beside this file has microseconds of loops and fused operators by their sizes, for each machine
that it names; `python -m bench.forms --write` makes it of what `bench/loops.py` measured.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from jfuse.passes.options import ANY_MACHINE, MACHINES

NEAR = 0.25  # the distance between places at which what was measured counts 0.6 of what it does at no distance
DOUBT = 0.02  # what the model itself counts, beside 1 for a recurrence at no distance


@cache
def _measured() -> dict[str, Any]:
    text = files(__package__).joinpath("measured_forms.json").read_text(encoding="utf-8")
    found: dict[str, Any] = json.loads(text)
    return found


def machines_of(machine: str) -> tuple[str, ...]:
    """The machines that count where this one of MACHINES is asked for: it alone, or all that were measured."""
    return MACHINES[1:] if machine == ANY_MACHINE else (machine,)


def measured_in(form: str, machine: str) -> Iterator[tuple[dict[str, Any], float]]:
    """What a machine ran in a form: the fields of LoopSize ("size") and FusedSize ("fused_size"), and microseconds."""
    at = _measured()["machines"].index(machine)
    for row in _measured()["rows"]:
        times = row["us"].get(form)
        if times is not None and times[at] is not None:
            yield row, times[at]


@dataclass(frozen=True)
class Errors:
    """By how much a model errs: logs of what was measured over what it says.   places: f64[n,k]; logs: f64[n]"""

    places: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, found: Sequence[tuple[Sequence[float], float]]) -> Errors:
        """The errors of a model by place, as measured over modelled time."""
        return cls(np.array([place for place, _ in found]), np.log([ratio for _, ratio in found]))

    def factor(self, place: Sequence[float]) -> float:
        """How many times what the model says something at this place takes; 1 far from all that was measured."""
        if not self.logs.size:
            return 1.0
        counts = np.exp(-np.square(self.places - np.array(place)).sum(axis=1) / (2 * NEAR**2))
        return float(np.exp(counts @ self.logs / (counts.sum() + DOUBT)))
