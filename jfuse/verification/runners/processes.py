"""Several processes of `jax.distributed`: each computes its part of the samples, and all of them get all results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
from jax.experimental.multihost_utils import process_allgather

from jfuse.errors import VerifyFailed
from jfuse.verification.subject import Arrays

Batch = Callable[[Arrays], dict[str, np.ndarray]]


def shared_out(batch: Batch, inputs: Arrays) -> dict[str, np.ndarray]:
    """What `batch` gives for samples along the first axis of each input, each process computing as many of them.

    All processes call this with the same inputs and get the same outputs. Where one fails all raise VerifyFailed.
    """
    processes = jax.process_count()
    count = len(next(iter(inputs.values())))
    if processes == 1:
        return batch(inputs)
    size = -(-count // processes)
    start = size * jax.process_index()
    own: tuple[dict[str, np.ndarray], str]
    failure: VerifyFailed | None = None
    try:
        part = {name: array[start : start + size] for name, array in inputs.items()}
        own = (batch(part) if start < count else {}), ""
    except VerifyFailed as error:  # the others wait for this process: it tells them before it fails
        own, failure = ({}, str(error)), error
    parts = [pickle.loads(part) for part in _everyones(pickle.dumps(own))]
    if failure is not None:
        raise failure
    for number, (_, message) in enumerate(parts):
        if message:
            raise VerifyFailed(f"process {number} of {processes} fails on its samples", found=message)
    outputs: list[Arrays] = [part for part, _ in parts if part]
    return {name: np.concatenate([part[name] for part in outputs]) for name in outputs[0]}


def _everyones(data: bytes) -> list[bytes]:
    """The bytes that each process gives, in the order of the processes."""
    lengths: Any = process_allgather(np.array([len(data)], np.int32))
    sizes = [int(n) for n in np.asarray(lengths).reshape(-1)]
    padded = np.zeros(max(sizes), np.uint8)
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    gathered: Any = process_allgather(padded)
    rows = np.asarray(gathered).reshape(len(sizes), -1)
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]
