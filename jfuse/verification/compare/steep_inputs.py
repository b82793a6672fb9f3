"""Edge inputs where the reference's own answer moves as much as what differs, once they are rounded otherwise."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.measure import relative_error
from jfuse.proof.inputs import CallInputs
from jfuse.verification.compare.wrong import Wrong
from jfuse.verification.subject import Subject

_NUDGE = 2.0**-22  # two roundings of an f32


def is_steep(reference: Subject, step: CallInputs, wrong: Sequence[Wrong]) -> bool:
    """Whether the reference itself differs as much when its inputs are rounded otherwise."""
    moved_step = replace(step, inputs={name: _moved(array) for name, array in step.inputs.items()})
    try:
        plain, moved = (reference.start().run(s.inputs, s.key) for s in (step, moved_step))
    except VerifyFailed:
        return False
    by = {w.output: w.measure.relative for w in wrong}
    return all(o in plain and 4 * relative_error(moved[o], plain[o]) >= by[o] for o in by)


def _moved(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind not in "fV":
        return array
    signs = np.random.default_rng(0).choice((-1.0, 1.0), array.shape)
    with np.errstate(over="ignore"):
        return np.asarray(array.astype(np.float64) * (1 - _NUDGE * (1.5 + 0.5 * signs))).astype(array.dtype)
