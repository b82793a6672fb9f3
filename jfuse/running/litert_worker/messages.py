"""Messages between two processes: small ones over a pipe, the arrays in them through a file that the receiver maps.

A pipe holds 64 KiB, so that both processes would take turns to copy an array of any size through it.
"""

from __future__ import annotations

import mmap
import os
import pickle
import struct
from collections.abc import Callable
from itertools import accumulate
from typing import Any

PROGRESS = struct.Struct("<qq")
"""A worker's progress: how many calls it has begun, and the number of the sample, below 0 while it loads a file."""
_SIZE = struct.Struct("<q")
_ALIGNED = 64  # bytes


class Messages:
    """One end of a conversation.

    read: gives so many bytes of the pipe, or raises EOFError; write: takes bytes. received, sent: handles of the files
    of arrays; the other end has them swapped.
    """

    def __init__(self, read: Callable[[int], bytes], write: Callable[[bytes], None], received: int, sent: int) -> None:
        self._read = read
        self._write = write
        self._received = received
        self._sent = sent

    def send(self, message: Any) -> None:
        """Send anything that can be pickled. What the message before it held must not be needed any more."""
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, 5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        for start, view in zip(_starts([len(v) for v in views]), views, strict=True):
            while len(view):
                written = os.pwrite(self._sent, view[: 2**30], start)
                view, start = view[written:], start + written
        whole = pickle.dumps((data, [len(v) for v in views]), 5)
        self._write(_SIZE.pack(len(whole)) + whole)

    def receive(self) -> Any:
        """The next message; EOFError where none comes. Its arrays are read-only and hold until another one is sent."""
        data, sizes = pickle.loads(self._read(_SIZE.unpack(self._read(_SIZE.size))[0]))
        if not any(sizes):
            return pickle.loads(data, buffers=[b""] * len(sizes))
        whole = memoryview(mmap.mmap(self._received, 0, access=mmap.ACCESS_READ))
        return pickle.loads(data, buffers=[whole[a : a + n] for a, n in zip(_starts(sizes), sizes, strict=True)])


def _starts(sizes: list[int]) -> list[int]:
    """Where buffers lie that follow each other."""
    return list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))[: len(sizes)]
