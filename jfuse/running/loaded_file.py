"""`LoadedFile`: one file in LiteRT, in the process shared by all files that run one call at a time.

There is one such process here, and one on each device.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from itertools import count
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, KernelFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.running.patience import LOOK_S, Patience, ProcessWatch
from jfuse.running.programs.device import AboutDevice, Device
from jfuse.running.worker import LiteRtFailed, Refused, Worker, can_run

_NUMBERS = count(1)


class LoadedFile:
    """A file in an interpreter, which lives as long as this object.   data: the file

    delegates: False runs every operator on its builtin kernel, without XNNPACK. preserve: every tensor can be read
    after a call. allocate: tensors are allocated now, not with the first call. stateless: nothing is kept between
    calls, so that it may be loaded again.
    Raises Refused where LiteRT does not load the file, LiteRtFailed where that takes the process down.
    """

    def __init__(
        self,
        data: bytes,
        *,
        delegates: bool = True,
        threads: int = 1,
        preserve: bool = False,
        allocate: bool = False,
        stateless: bool = False,
        limits: Limits = DEFAULT_LIMITS,
        device: Device | None = None,
    ) -> None:
        self._shared = _shared(device)
        self._number, self._drop = next(_NUMBERS), self._shared.drop  # the module may be gone before this object is
        self._data = data
        resolver = "AUTO" if delegates else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
        self._how = (resolver, threads, preserve, allocate)
        self._limits = limits
        self._stateless = stateless
        self._patience = Patience(limits.seconds)
        self._worker: Worker | None = None
        self._called = False
        self.ask("signatures")

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker's `Loaded`, and copy the arrays of its result."""
        with self._shared.lock:
            worker = self._shared.worker(self._limits)
            if worker is not self._worker:
                if self._called and not self._stateless:
                    raise KernelFailed(
                        "LiteRT's process has ended, and with it what the file kept between calls",
                        remedy="begin again: model.stream(), or verify once more",
                    )
                self._request(worker, "load", (np.frombuffer(self._data, np.uint8), *self._how))
                self._worker = worker
            self._called = self._called or method in ("call", "rows")
            return _copied(self._request(worker, method, arguments))

    def _request(self, worker: Worker, method: str, arguments: Sequence[Any]) -> Any:
        started = time.monotonic()
        try:
            worker.ask(
                ProcessWatch([worker], self._patience),
                self._limits,
                self._number,
                method,
                arguments,
                self._shared.dropped(),
            )
            answer = worker.answer(self._limits)
        except Refused:
            raise
        except BaseException as error:  # its answer would be taken for that to the next request
            self._shared.close()
            if isinstance(error, LiteRtFailed):
                error.message = error.message.replace(" on sample {sample}", "")
                error.sample = error.sample if method == "rows" else None
            raise
        if method == "call" and (passed := time.monotonic() - started) < LOOK_S:
            self._patience.ended(1, passed)
        return answer

    def __del__(self) -> None:
        self._drop(self._number)


class _SharedWorker:
    """The process, started when it is first needed, again where it has died, and in each process that is forked."""

    def __init__(self, device: Device | None = None) -> None:
        self.lock = threading.RLock()
        self._device = device
        self._worker: Worker | None = None
        self._dropped: deque[int] = deque()
        atexit.register(self.close)
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(after_in_child=self.forked)

    def worker(self, limits: Limits = DEFAULT_LIMITS) -> Worker:
        if self._worker is not None and self._worker.owner != os.getpid():
            self._worker.close()  # the other process keeps its own
            self._worker = None
        if self._worker is None:
            self._worker = Worker("litert", self._device, limits)
        return self._worker

    def drop(self, number: int) -> None:
        """Tell the process with the next request: this is called by the garbage collector, at any moment."""
        self._dropped.append(number)

    def dropped(self) -> list[int]:
        return [self._dropped.popleft() for _ in range(len(self._dropped))]

    def close(self) -> None:
        if self._worker is not None:
            worker, self._worker = self._worker, None
            worker.close()

    def forked(self) -> None:
        """In a new process: another thread may have held the lock, and the worker answers to the old one alone."""
        self.lock = threading.RLock()


_SHARED = _SharedWorker()
_ON_DEVICES: dict[Device, _SharedWorker] = {}


def _shared(device: Device | None) -> _SharedWorker:
    if device is None:
        return _SHARED
    if device not in _ON_DEVICES:
        _ON_DEVICES[device] = _SharedWorker(device)
    return _ON_DEVICES[device]


def start_early() -> None:
    """Start the process on this machine, which then imports LiteRT while its first file is being made.

    Where it cannot be started, the first file says so.
    """
    if can_run():
        with _SHARED.lock, suppress(JfuseError):
            _SHARED.worker()


def asked(device: Device, limits: Limits = DEFAULT_LIMITS) -> AboutDevice:
    """Ask a device to describe itself. Raises JfuseError where LiteRT does not start there."""
    shared = _shared(device)
    with shared.lock:
        about = shared.worker(limits).about
    assert about is not None, "of a device"
    return about


def _copied(answer: Any) -> Any:
    """The arrays of an answer, which would go with the next one."""
    if isinstance(answer, np.ndarray):
        return np.array(answer)
    if isinstance(answer, dict):
        return {name: _copied(value) for name, value in answer.items()}
    if isinstance(answer, list | tuple):
        return type(answer)(map(_copied, answer))
    return answer
