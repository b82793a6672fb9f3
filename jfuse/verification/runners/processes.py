"""Samples shared out over the processes of `jax.distributed`."""

from __future__ import annotations

from collections.abc import Callable

import jax
import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.running.processes import of_all_processes
from jfuse.verification.subject import Arrays

Batch = Callable[[Arrays], dict[str, np.ndarray]]


def shared_out(batch: Batch, inputs: Arrays) -> dict[str, np.ndarray]:
    """What `batch` gives for samples along the first axis of each input, each process computing as many of them.

    All processes call this with the same inputs and get the same outputs. Where one fails all raise VerifyFailed.
    """
    processes = jax.process_count()
    if processes == 1:
        return batch(inputs)
    count = len(next(iter(inputs.values())))
    size = -(-count // processes)
    start = size * jax.process_index()

    def own() -> dict[str, np.ndarray]:
        part = {name: array[start : start + size] for name, array in inputs.items()}
        return batch(part) if start < count else {}

    outputs = [part for part in of_all_processes(own, VerifyFailed) if part]
    return {name: np.concatenate([part[name] for part in outputs]) for name in outputs[0]}
