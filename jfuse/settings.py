"""Settings of Python, jax and TensorFlow that jfuse changes while a public function runs, and puts back after it."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

import jax

_FRAMES = 8000  # Python's own limit of 1,000 allows some forty functions, loops or branches in each other
_LOCK = threading.Lock()
_DEPTH = [0, 0]  # how many public functions run, in all threads, and the limit before the first of them


@contextmanager
def own_settings() -> Iterator[None]:
    """Within the `with`, jax computes as the kernels expect it, in this thread."""
    with ExitStack() as stack:
        stack.enter_context(jax.numpy_rank_promotion("allow"))
        stack.enter_context(jax.transfer_guard("allow"))
        stack.enter_context(jax.debug_nans(False))
        stack.enter_context(jax.debug_infs(False))
        stack.enter_context(jax.disable_jit(False))
        yield


def eager_tensorflow() -> AbstractContextManager[Any]:
    """Within the `with`, TensorFlow computes at once, also where the caller is building a graph; if it is imported."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return nullcontext() if context is None or context.executing_eagerly() else context.eager_mode()


def has_device() -> bool:
    """Whether jax finds something to compute on."""
    try:
        return bool(jax.devices())
    except Exception:  # jax raises errors of several kinds
        return False


@contextmanager
def deep_recursion() -> Iterator[None]:
    """Within the `with`, as many frames may lie in each other as deeply nested models need.

    Python has one limit for all threads: it is the caller's own again when the last of these blocks ends.
    """
    with _LOCK:
        if _DEPTH[0] == 0:
            _DEPTH[1] = sys.getrecursionlimit()
            sys.setrecursionlimit(max(_FRAMES, _DEPTH[1]))
        _DEPTH[0] += 1
    try:
        yield
    finally:
        with _LOCK:
            _DEPTH[0] -= 1
            if _DEPTH[0] == 0 and sys.getrecursionlimit() == max(_FRAMES, _DEPTH[1]):
                sys.setrecursionlimit(_DEPTH[1])
