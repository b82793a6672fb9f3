"""Settings of Python, jax and TensorFlow that jfuse changes while a public function runs, and puts back after it."""

from __future__ import annotations

import gc
import os
import random
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import jax
import numpy as np

from jfuse.base.errors import JfuseError

_FRAMES = 8000  # Python's own limit of 1,000 allows some forty functions, loops or branches in each other
# Objects that are made from one search for garbage to the next. Python's own 700 take much of the time of converting
# thousands of operators, all of whose objects stay.
_NEW_OBJECTS = 20_000
_LOCK = threading.Lock()


@contextmanager
def own_settings() -> Iterator[None]:
    """Within the `with`, jax and NumPy compute as the kernels expect it, in this thread.

    A model may divide by 0 and overflow: that is no error of who computes it.
    """
    with ExitStack() as stack:
        stack.enter_context(jax.numpy_rank_promotion("allow"))
        stack.enter_context(jax.transfer_guard("allow"))
        stack.enter_context(jax.debug_nans(False))
        stack.enter_context(jax.debug_infs(False))
        stack.enter_context(jax.disable_jit(False))
        stack.enter_context(np.errstate(all="ignore"))
        yield


def eager_tensorflow() -> AbstractContextManager[Any]:
    """Within the `with`, TensorFlow computes at once, also where the caller is building a graph; if it is imported."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return nullcontext() if context is None or context.executing_eagerly() else context.eager_mode()


@contextmanager
def own_random_numbers() -> Iterator[None]:
    """Within the `with`, libraries may draw from Python's and NumPy's generators, which then go on as before it.

    Keras takes the seed of each Dropout layer from them when it reads a model.
    """
    of_python, of_numpy = random.getstate(), np.random.get_state()
    try:
        yield
    finally:
        random.setstate(of_python)
        np.random.set_state(of_numpy)


_FORKED: list[bool] = []


def _note_fork() -> None:
    """In a new process: whether jax had started its threads, which this process lacks, and would wait for."""
    bridge = sys.modules.get("jax._src.xla_bridge")  # jax has no public function that says so
    if getattr(bridge, "backends_are_initialized", bool)():
        _FORKED.append(True)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_note_fork)


def need_threads_of_jax() -> None:
    """Raise JfuseError in a process that was forked after jax has run: its computations would never end."""
    if _FORKED:
        raise JfuseError(
            "jax has run in the process from which this one was forked",
            expected="a process in which jax can start its threads",
            found="a fork, in which whatever jax computes waits without an end",
            remedy='multiprocessing.get_context("spawn"), or fork before jfuse or jax compute anything',
        )


def has_device() -> bool:
    """Whether jax finds something to compute on."""
    try:
        return bool(jax.devices())
    except Exception:  # jax raises errors of several kinds
        return False


@contextmanager
def large_programs() -> Iterator[None]:
    """Within the `with`, Python allows deeply nested models their frames, and seldom searches for garbage.

    Python has one limit of each kind for all threads: they are the caller's own again when the last of these blocks
    ends.
    """
    with _LOCK:
        if _LIMITS.blocks == 0:
            _LIMITS.raise_all()
        _LIMITS.blocks += 1
    try:
        yield
    finally:
        with _LOCK:
            _LIMITS.blocks -= 1
            if _LIMITS.blocks == 0:
                _LIMITS.put_back()


class _Limits:
    """Python's own limits, and those before the first block; changes by others meanwhile stay.

    blocks: how many are entered, in all threads.
    """

    def __init__(self) -> None:
        self.blocks = 0
        self._frames, self._garbage = sys.getrecursionlimit(), gc.get_threshold()

    def raise_all(self) -> None:
        self._frames, self._garbage = sys.getrecursionlimit(), gc.get_threshold()
        sys.setrecursionlimit(self._more_frames)
        gc.set_threshold(*self._seldom)

    def put_back(self) -> None:
        if sys.getrecursionlimit() == self._more_frames:
            sys.setrecursionlimit(self._frames)
        if gc.get_threshold() == self._seldom:
            gc.set_threshold(*self._garbage)

    @property
    def _more_frames(self) -> int:
        return max(_FRAMES, self._frames)

    @property
    def _seldom(self) -> tuple[int, int, int]:
        new, young, old = self._garbage
        return max(_NEW_OBJECTS, new) if new else 0, young, old  # 0: the caller wants no searches


_LIMITS = _Limits()
