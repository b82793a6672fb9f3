"""Samples shared out over the processes of `jax.distributed`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.running.processes import of_all_processes, own_share
from jfuse.verification.subject import Arrays

K = TypeVar("K")


def shared_out(batch: Callable[[Arrays], dict[K, np.ndarray]], inputs: Arrays) -> dict[K, np.ndarray]:
    """Split samples along the first axis over all processes and concatenate the results of `batch`.

    All processes call this with the same inputs and get the same outputs. Where one fails all raise VerifyFailed.
    """
    if jax.process_count() == 1:
        return batch(inputs)
    share = own_share(len(next(iter(inputs.values()))))

    def own() -> dict[K, np.ndarray]:
        part = {name: array[share.start : share.stop] for name, array in inputs.items()}
        return batch(part) if share else {}

    outputs = [part for part in of_all_processes(own, VerifyFailed) if part]
    return {name: np.concatenate([part[name] for part in outputs]) for name in outputs[0]}
