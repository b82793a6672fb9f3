"""Processes of `jax.distributed`: each computes its part, and all of them get all results."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any, TypeVar

import jax
import numpy as np
from jax.experimental.multihost_utils import live_devices, process_allgather

from jfuse.base.errors import JfuseError

T = TypeVar("T")


def own_share(count: int) -> range:
    """Which of so many things this process does: all have as many, the last ones fewer or none."""
    size = -(-count // jax.process_count())
    start = min(count, size * jax.process_index())
    return range(start, min(count, start + size))


def of_all_processes(own: Callable[[], T], error: type[JfuseError] = JfuseError) -> list[T]:
    """Gather the results of `own` from all processes, in their order. All processes call this, and get the same list.

    Raises the error of `own` in this process; else an `error` that names the process that failed or ended.
    With `jax_enable_recoverability` an ended process is noticed after the timeout of `jax.distributed.initialize`.
    Without it, jax would end this process by then, so the error comes at once. It names the process only if there are
    two.
    """
    if jax.process_count() == 1:
        return [own()]
    outcome: tuple[T | None, str] = None, ""
    failure: Exception | None = None
    try:
        outcome = own(), ""
    except Exception as failed:  # the other processes wait for this one: it tells them before it fails
        outcome, failure = (None, str(failed) or type(failed).__name__), failed
    data = pickle.dumps(outcome)
    try:
        gathered = _gathered(data)
    except (ValueError, RuntimeError) as broken:  # of the library that connects them: Gloo's is a ValueError
        ended = _ended()
        raise error(
            f"{_named(ended)} of {jax.process_count()} ended before it gave its part",
            found=str(broken),
            remedy="its last output says why; start all processes again",
        ) from broken
    if failure is not None:
        raise failure
    everyones: list[tuple[Any, str]] = [pickle.loads(data) for data in gathered]
    for number, (_, message) in enumerate(everyones):
        if message:
            raise error(f"process {number} of {len(everyones)} fails on its samples", found=message)
    return [value for value, _ in everyones]


def _gathered(data: bytes) -> list[bytes]:
    """The bytes that each process gives, in the order of the processes."""
    lengths: Any = process_allgather(np.array([len(data)], np.int32))
    sizes = [int(n) for n in np.asarray(lengths).reshape(-1)]
    padded = np.zeros(1 << (max(sizes) - 1).bit_length(), np.uint8)  # jax compiles a program for each length
    padded[: len(data)] = np.frombuffer(data, np.uint8)
    gathered: Any = process_allgather(padded)
    rows = np.asarray(gathered).reshape(len(sizes), -1)
    return [row[:size].tobytes() for row, size in zip(rows, sizes, strict=True)]


def _ended() -> list[int]:
    """The processes that may be the one that ended."""
    everyone = set(range(jax.process_count()))
    if not jax.config.values["jax_enable_recoverability"]:
        return sorted(everyone - {jax.process_index()})
    with live_devices(jax.devices()) as live:  # returns when all that live ask for it, and jax misses the others
        return sorted(everyone - {device.process_index for device in live})


def _named(processes: list[int]) -> str:
    """Such as `process 1`, or `one of the processes 0, 2`."""
    numbers = ", ".join(map(str, processes))
    return f"process {numbers}" if len(processes) == 1 else f"one of the processes {numbers}"
