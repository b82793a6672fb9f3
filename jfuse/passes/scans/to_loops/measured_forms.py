"""Errors of the cost models, from recurrences that were measured in all forms on several machines.

`measured_forms.json` beside this file has, for each recurrence by its features, measured time over modelled time of
each form on each machine. `python -m bench.forms --write` makes it from the measurements of `bench/loops.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import numpy as np

from jfuse.passes.options import ANY_MACHINE, FUSED, MACHINES

NEAR = 0.25  # the distance between places at which what was measured counts 0.6 of what it does at no distance
DOUBT = 0.02  # what the model itself counts, beside 1 for a recurrence at no distance


@dataclass(frozen=True)
class Errors:
    """By how much a model errs: logs of what was measured over what it says.   places: f64[n,k]; logs: f64[n]"""

    places: np.ndarray
    logs: np.ndarray

    @classmethod
    def of(cls, measured: Sequence[tuple[Sequence[float], float]]) -> Errors:
        """The errors of a model by place, as measured over modelled time."""
        return cls(np.array([place for place, _ in measured]), np.log([ratio for _, ratio in measured]))

    def factor(self, place: Sequence[float]) -> float:
        """How many times what the model says something at this place takes; 1 far from all that was measured."""
        if not self.logs.size:
            return 1.0
        counts = np.exp(-np.square(self.places - np.array(place)).sum(axis=1) / (2 * NEAR**2))
        return float(np.exp(counts @ self.logs / (counts.sum() + DOUBT)))


def machines_of(machine: str) -> tuple[str, ...]:
    """The machines that count where this one of MACHINES is asked for: it alone, or all that were measured."""
    return MACHINES[1:] if machine == ANY_MACHINE else (machine,)


@cache
def errors_in(form: str, machine: str) -> Errors:
    """The models' errors for recurrences that a machine ran in a form, FUSED among them."""
    table = _measured()
    at, rows = table["machines"].index(machine), table["fused" if form == FUSED else "loops"]
    of_form = [(row["place"], row["errors"][form][at]) for row in rows if row["errors"].get(form) is not None]
    return Errors.of([(place, ratio) for place, ratio in of_form if ratio is not None])


@cache
def _measured() -> dict[str, Any]:
    text = files(__package__).joinpath("measured_forms.json").read_text(encoding="utf-8")
    table: dict[str, Any] = json.loads(text)
    return table
