"""Samples joined along the axis that a signature leaves open: how TensorFlow runs many at once."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from jfuse.base.measure import relative_error
from jfuse.ir.dims import is_known
from jfuse.verification.subject import Arrays, Interface

_ALIKE = 1e-4  # what sums in another order may make of a sample when others stand beside it


def can_be_joined(interface: Interface) -> bool:
    """Whether every input has an open first axis."""
    return bool(interface.inputs) and all(t.rank and not is_known(t.shape[0]) for t in interface.inputs.values())


def run_joined(run: Callable[[Arrays], dict[str, np.ndarray]], inputs: Arrays) -> dict[str, np.ndarray] | None:
    """The outputs of one call on all samples, one after the other along their first axis, apart again.

    inputs: samples along a new first axis of each. None where rows are not independent of each other: where an output
    does not have as many rows, or the first or the last sample alone gives something else.
    """
    shapes = [array.shape for array in inputs.values()]
    count, *rows = shapes[0][:2]
    outputs = run({name: array.reshape(-1, *array.shape[2:]) for name, array in inputs.items()})
    if any(not o.ndim or o.shape[0] != count * rows[0] for o in outputs.values()):
        return None
    by_sample = {name: o.reshape(count, *rows, *o.shape[1:]) for name, o in outputs.items()}
    for sample in (0, count - 1):
        alone = run({name: array[sample] for name, array in inputs.items()})
        if not all(relative_error(by_sample[name][sample], value) <= _ALIKE for name, value in alone.items()):
            return None
    return by_sample
