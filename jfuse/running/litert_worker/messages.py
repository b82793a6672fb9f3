"""Messages between two processes: small ones over a pipe, the arrays in them through a file that the receiver maps.

A pipe holds 64 KiB, so that both processes would take turns to copy an array of any size through it. Processes on two
machines have no file in common: there arrays follow their message through the pipe.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import re
import struct
from collections.abc import Callable
from importlib.util import find_spec
from itertools import accumulate
from typing import Any

PROGRESS = struct.Struct("<qq")
"""A worker's progress: how many calls it has begun, and the number of the sample, below 0 while it loads a file."""
_SIZE = struct.Struct("<q")
_PROGRESS_SIZE = -1  # in the place of a message's size: a progress follows
_ALIGNED = 64  # bytes
_UNREADABLE = (pickle.UnpicklingError, ValueError, TypeError, LookupError, AttributeError, ImportError, OverflowError)
_OF_ARRAYS = frozenset({"_frombuffer", "_reconstruct", "dtype", "ndarray", "scalar"})
_CORE = re.compile(r"^numpy\._?core\b")
_OWN_CORE = "numpy._core" if find_spec("numpy._core") is not None else "numpy.core"


class Messages:
    """One end of a conversation.

    read: gives so many bytes of the pipe, or raises EOFError; write: takes bytes. received, sent: handles of the files
    of arrays; the other end has them swapped; None for both where there are none. note: is given the progress that the
    other end tells.
    """

    def __init__(
        self,
        read: Callable[[int], bytes],
        write: Callable[[bytes | memoryview], None],
        received: int | None = None,
        sent: int | None = None,
        note: Callable[[bytes], None] = lambda progress: None,
    ) -> None:
        self._read = read
        self._write = write
        self._received = received
        self._sent = sent
        self._note = note

    def send(self, message: Any) -> None:
        """Send anything that can be pickled. What the message before it held must not be needed any more."""
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, 5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        sizes = [len(v) for v in views]
        for start, view in zip(_starts(sizes), views if self._sent is not None else (), strict=False):
            while len(view):
                written = os.pwrite(self._sent, view[: 2**30], start)  # type: ignore[arg-type]  # not None
                view, start = view[written:], start + written
        whole = pickle.dumps((data, sizes), 5)
        self._write(_SIZE.pack(len(whole)) + whole)
        for view in views if self._sent is None else ():
            self._write(view)

    def tell(self, progress: bytes) -> None:
        """Send the progress, between messages."""
        self._write(_SIZE.pack(_PROGRESS_SIZE) + progress)

    def receive(self) -> Any:
        """The next message; EOFError where none comes. Its arrays are read-only and hold until another one is sent."""
        while (size := _SIZE.unpack(self._read(_SIZE.size))[0]) == _PROGRESS_SIZE:
            self._note(self._read(PROGRESS.size))
        try:
            data, sizes = _Reader(io.BytesIO(self._read(size))).load()
            return _Reader(io.BytesIO(data), buffers=self._buffers(sizes)).load()
        except _UNREADABLE as error:
            raise EOFError(f"no message can be read: {error}") from error

    def _buffers(self, sizes: list[int]) -> list[bytes | memoryview]:
        if self._received is None or not any(sizes):
            return [self._read(size) for size in sizes]
        whole = memoryview(mmap.mmap(self._received, 0, access=mmap.ACCESS_READ))
        return [whole[a : a + n] for a, n in zip(_starts(sizes), sizes, strict=True)]


class _Reader(pickle.Unpickler):
    """Reads numbers, texts, arrays and containers of these. NumPy has two names for the module of its arrays."""

    def find_class(self, module: str, name: str) -> Any:
        room = module.partition(".")[0]
        if room == "numpy" and name in _OF_ARRAYS:
            return super().find_class(_CORE.sub(_OWN_CORE, module), name)
        if room == "ml_dtypes" and "." not in name and isinstance(found := super().find_class(module, name), type):
            return found
        raise pickle.UnpicklingError(f"{module}.{name} is nothing that messages hold")


def _starts(sizes: list[int]) -> list[int]:
    """Where buffers lie that follow each other."""
    return list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))[: len(sizes)]
