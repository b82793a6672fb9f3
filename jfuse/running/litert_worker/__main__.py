"""A process that runs files in LiteRT, or in tflite-micro, as another process asks it to.

    python litert_worker RUNTIME PARENT REQUESTS ANSWERS PROGRESS

RUNTIME is the module beside this one whose `Loaded` runs files: `litert`, `micro` or `compiled_model`. PARENT is the
process that asks; where it ends, this one does. REQUESTS, ANSWERS and PROGRESS are handles of files without a name, so
that nothing is left behind, whatever ends the two. It imports neither TensorFlow nor jax nor jfuse, so that it is
there at once.
Requests come over its standard input, answers go over its standard output, as `Messages` with the files REQUESTS and
ANSWERS: `(memory, dropped, number, method, arguments)` and `(result, None)`, or `(None, (sample, message))` where the
runtime refuses. memory: the bytes that this process may take besides its own; dropped: files that are not needed any
more; method: of `Loaded`. PROGRESS holds two 64-bit integers: how many calls were begun, and the number of the sample
that runs. Whoever finds the process dead reads there which one it was.

On another machine `there` does the same, started by `jfuse.running.programs.device`: with no file in common, arrays
and the progress go through the standard streams as well, and the process ends with its standard input.
"""

from __future__ import annotations

import mmap
import os
import resource
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

from messages import PROGRESS, Messages  # type: ignore[import-not-found]  # beside this file, which is run as a folder

_LARGEST = 2**63 - 1  # of a limit, for the system's call
_LOOK_S = 0.5
_HOLDS_THE_LOCK = ("micro",)  # Python's, while it computes (measured on tflite-micro 0.dev20261023)
_MOST_HANDLES = 256  # that are open before any file is loaded
_REFUSALS = (ValueError, RuntimeError, TypeError, KeyError, IndexError)


def main(runtime: str, parent: str, requests: str, answers: str, progress: str) -> None:
    """Answer requests until there are no more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # it is meant for the process that asks
    if runtime in _HOLDS_THE_LOCK:
        _guarded(int(parent))
    threading.Thread(target=_end_with, args=(int(parent),), daemon=True).start()
    out = os.dup(1)
    os.dup2(2, 1)  # what the runtime prints must not get between the answers
    counter = mmap.mmap(int(progress), PROGRESS.size)
    messages = Messages(_exactly, lambda data: _write(out, data), int(requests), int(answers))

    def note(progress_now: bytes) -> None:
        counter[:] = progress_now

    LoadedFiles(messages, note, import_module(runtime).Loaded).serve()


def there(runtime: str) -> None:
    """Answer requests over the standard streams alone, and end this process with them."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_input, daemon=True).start()
    out = os.dup(1)
    os.dup2(2, 1)
    messages = Messages(_exactly, lambda data: _write(out, data))
    try:
        LoadedFiles(messages, messages.tell, import_module(runtime).Loaded).serve()
    finally:
        os._exit(0)


def _end_with_input() -> None:
    """End this process, whatever it computes, once nobody can write to its standard input any more."""
    poll = select.poll()
    poll.register(0, 0)
    while not any(event & (select.POLLHUP | select.POLLERR) for _, event in poll.poll(1000 * _LOOK_S)):
        pass
    time.sleep(_LOOK_S)  # a last answer may be on its way
    os._exit(0)


def _end_with(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(_LOOK_S)
    os._exit(0)


def _guarded(parent: int) -> None:
    """Let a process of its own end this one with its parent: no thread could, while the runtime computes."""
    worker = os.getpid()
    if os.fork():
        return
    os.closerange(0, _MOST_HANDLES)  # whoever reads an answer must see its end
    while os.getppid() == worker and _parent_of(worker) == parent:
        time.sleep(_LOOK_S)
    if os.getppid() == worker:
        os.kill(worker, signal.SIGKILL)
    os._exit(0)


def _parent_of(process: int) -> int:
    try:
        with open(f"/proc/{process}/stat") as file:
            return int(file.read().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def _exactly(count: int) -> bytes:
    data = sys.stdin.buffer.read(count)
    if len(data) < count:
        raise EOFError
    return data


def _write(handle: int, data: bytes | memoryview) -> None:
    while data:
        data = data[os.write(handle, data) :]


class LoadedFiles:
    """The files that are loaded, by number."""

    def __init__(self, messages: Any, note: Callable[[bytes], None], kind: Any) -> None:
        self._messages = messages
        self._kind = kind
        self._note = note
        self._calls = 0
        self._loaded: dict[int, Any] = {}
        self._own = _address_space()

    def serve(self) -> None:
        """Answer one request after the other until the other side closes the pipe."""
        while True:
            try:
                memory, dropped, number, method, arguments = self._messages.receive()
            except EOFError:
                return
            for old in dropped:
                self._loaded.pop(old, None)
            _limit_memory(self._own + memory)
            reply: tuple[Any, tuple[int, str] | None]
            try:
                if method == "load":
                    self.begin(-1)
                    self._loaded[number] = self._kind(self.begin, *arguments)
                    answer = None
                else:
                    self.begin(0)
                    answer = getattr(self._loaded[number], method)(*arguments)
                reply = answer, None
            except _REFUSALS as error:
                reply = None, (getattr(error, "sample", 0), " ".join(str(error).split()))
            del arguments
            self._messages.send(reply)

    def begin(self, number: int) -> None:
        """Take note that a call of a sample begins."""
        self._calls += 1
        self._note(PROGRESS.pack(self._calls, number))


def _address_space() -> int:
    """The bytes of address space that this process has by now; 0 where the system does not tell."""
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def _limit_memory(size: int) -> None:
    if sys.platform == "linux":
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        soft = min(size, _LARGEST if hard == resource.RLIM_INFINITY else hard)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


if __name__ == "__main__":
    main(*sys.argv[1:])
