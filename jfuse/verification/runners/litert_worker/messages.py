"""Messages between two processes: small ones over a pipe, the arrays in them through a file that the receiver maps.

A pipe holds 64 KiB, so that both processes would take turns to copy an array of any size through it.
"""

from __future__ import annotations

import mmap
import pickle
from itertools import accumulate
from typing import IO, Any

PROGRESS = "<qq"
"""The form of a worker's file of progress: how many calls it has begun, and the number of the sample."""
_ALIGNED = 64  # bytes


class Messages:
    """One end of a conversation.   received, sent: the files of arrays, which exist; the other end has them swapped."""

    def __init__(self, reading: IO[bytes], writing: IO[bytes], received: str, sent: str) -> None:
        self._reading = reading
        self._writing = writing
        self._received = open(received, "rb")
        self._sent = open(sent, "r+b")

    def send(self, message: Any) -> None:
        """Send anything that can be pickled. What the message before it held must not be needed any more."""
        buffers: list[pickle.PickleBuffer] = []
        data = pickle.dumps(message, 5, buffer_callback=buffers.append)
        views = [buffer.raw() for buffer in buffers]
        for start, view in zip(_starts([len(v) for v in views]), views, strict=True):
            self._sent.seek(start)
            self._sent.write(view)
        self._sent.flush()
        pickle.dump((data, [len(v) for v in views]), self._writing, 5)
        self._writing.flush()

    def receive(self) -> Any:
        """The next message; EOFError where none comes. Its arrays are read-only and hold until another one is sent."""
        data, sizes = pickle.load(self._reading)
        if not any(sizes):
            return pickle.loads(data, buffers=[b""] * len(sizes))
        whole = memoryview(mmap.mmap(self._received.fileno(), 0, access=mmap.ACCESS_READ))
        return pickle.loads(data, buffers=[whole[a : a + n] for a, n in zip(_starts(sizes), sizes, strict=True)])

    def close(self) -> None:
        """Close the files and the pipes."""
        for stream in (self._reading, self._writing, self._received, self._sent):
            try:
                stream.close()
            except OSError:  # what was not read by a process that is no more
                pass


def _starts(sizes: list[int]) -> list[int]:
    """Where buffers lie that follow each other."""
    return list(accumulate((-(-size // _ALIGNED) * _ALIGNED for size in sizes), initial=0))[: len(sizes)]
