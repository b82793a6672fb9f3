"""A worker process that runs files in LiteRT or tflite-micro, here or on a device: a crash ends the worker alone."""

from __future__ import annotations

import mmap
import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError, KernelFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.running.litert_worker.messages import PROGRESS, Messages
from jfuse.running.patience import Patience, ProcessWatch
from jfuse.running.programs.device import SOURCES, AboutDevice, Device, FirstLine, about, as_line

_FIRST_HANDLE = 3  # after the standard streams, which the process has of its own
_LAST_WORDS = 2000  # characters of what a process wrote before it died
_NO_MEMORY = ("bad_alloc", "MemoryError", "Cannot allocate memory", "ut of memory", "length_error")
_OUTSIDE = ("SIGKILL", "SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")  # Windows has two of them
_FROM_OUTSIDE = frozenset(number for name in _OUTSIDE if (number := getattr(signal, name, None)) is not None)
_HAS_POSIX = hasattr(select, "poll") and hasattr(os, "pread") and hasattr(signal, "SIGKILL")
_PART = 2**20  # bytes that are read at once
_START_S = 60.0  # for a device to answer at all, where no limit is given
_END_S = 2.0  # for a process that has closed its output
_NAMES = {"litert": "LiteRT", "micro": "tflite-micro", "compiled_model": "CompiledModel"}


class LiteRtFailed(KernelFailed):
    """LiteRT, or tflite-micro, took its process down, or did not end, or its process was ended.

    cause: "crash" by the file itself; "time" or "memory", the limit that it reached; "stopped" or "killed", from
    outside. sample: the number of the one that it was at, None while it loaded the file. calls: the signature and the
    inputs of the calls that it was at, the last of them the one that failed.
    """

    cause: str = "crash"
    sample: int | None = None
    calls: tuple[tuple[str, Any], ...] = ()


class Refused(Exception):
    """LiteRT does not run a file or a sample in the ordinary way.   sample: its number"""

    def __init__(self, message: str, sample: int) -> None:
        super().__init__(message)
        self.sample = sample


def can_run() -> bool:
    """Whether this system has the means to watch a process that runs files."""
    return _HAS_POSIX


class Worker:
    """A process; it ends with this one, whatever ends that. Nothing of it has a name in a folder.

    runtime: "litert", "micro" or "compiled_model". device: where it runs; None for here. limits: of starting there.
    about: what the device is. Raises JfuseError where the process cannot be started.
    """

    def __init__(self, runtime: str = "litert", device: Device | None = None, limits: Limits = DEFAULT_LIMITS) -> None:
        self._name = _NAMES[runtime] if device is None else f"{_NAMES[runtime]} on the device"
        self._device = device
        self._handles: list[int] = []
        self._process: subprocess.Popen[bytes] | None = None
        self.about: AboutDevice | None = None
        if not _HAS_POSIX:
            raise JfuseError(
                f"{self._name} runs in a process that is watched, for which this system lacks the means",
                expected="Linux or macOS",
                found=sys.platform,
                remedy="verify=False writes the file without running it; or use WSL",
            )
        self.owner = os.getpid()
        self._late_s: float | None = None
        self._stopped = False
        self._heard = 0
        self._busy = False
        self._watch: ProcessWatch | None = None
        self._out_of_memory = _times_out_of_memory()
        self._words = self._nameless("words")
        self._progress: mmap.mmap | bytearray = bytearray(PROGRESS.size)
        self._messages = self._here(runtime) if device is None else self._there(device, runtime, limits)

    def _here(self, runtime: str) -> Messages:
        """Start the worker as a process of this machine."""
        requests, answers, progress = map(self._nameless, ("requests", "answers", "progress"))
        os.ftruncate(progress, PROGRESS.size)
        self._progress = mmap.mmap(progress, PROGRESS.size)
        numbers = [str(n) for n in (self.owner, requests, answers, progress)]
        try:
            self._start([sys.executable, str(SOURCES), runtime, *numbers], (requests, answers, progress))
        except OSError as error:
            raise JfuseError(f"no process can be started for {self._name}", found=error.strerror) from error
        return Messages(self._read, self._write, answers, requests)

    def _there(self, device: Device, runtime: str, limits: Limits) -> Messages:
        """Start the device's command, send it the worker, and read what the device says of itself."""
        first, said = FirstLine(runtime), bytearray()
        self._watch = ProcessWatch([self], Patience(_START_S if limits.seconds is None else limits.seconds))
        self._note(PROGRESS.pack(0, -1))
        self._busy = True
        try:
            self._start(device.words())
            self._write(first.line)
            while (answer := first.answer(said)) is None:
                self._wait(self._out, select.POLLIN)
                if not (part := os.read(self._out, _PART)):
                    raise EOFError
                said = (said + part)[-_PART:]
            self.about = about(device, _NAMES[runtime], answer)
        except (EOFError, OSError, ValueError) as error:
            raise device.failed(_NAMES[runtime], self._why_no_answer(error, said)) from error
        finally:
            if self.about is None:
                self.close()
        self._busy = False
        return Messages(self._read, self._write, note=self._note)

    def _why_no_answer(self, error: Exception, said: bytearray) -> str:
        """Explain why a device's command gave no answer: its exit status and its last words."""
        if self._process is None:
            return str(error).partition("] ")[2] or str(error)  # without the number
        status = self._ended()
        how = _how(status) if self._late_s is None else f"no answer within {self._late_s:.3g} s"
        words = as_line(self.said()[-_LAST_WORDS:], said[-_LAST_WORDS:].decode(errors="replace"))
        return f"{how}: {words}" if words else how

    def _nameless(self, name: str) -> int:
        self._handles.append(_nameless(name))
        return self._handles[-1]

    def _start(self, command: Sequence[str], handles: Sequence[int] = ()) -> None:
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._words,
            bufsize=0,
            pass_fds=handles,
            process_group=0,  # Ctrl-C in a terminal is for this process alone
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._in, self._out = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._in, False)

    def _note(self, progress: bytes) -> None:
        self._progress[:] = progress

    @property
    def pid(self) -> int:
        """The number that the system has for the process."""
        return self._running.pid

    @property
    def _running(self) -> subprocess.Popen[bytes]:
        assert self._process is not None, "started by now"
        return self._process

    def ask(
        self,
        watch: ProcessWatch,
        limits: Limits,
        number: int,
        method: str,
        arguments: Sequence[Any],
        dropped: Sequence[int],
    ) -> None:
        """Send a request, as the worker describes them."""
        self._heard = os.fstat(self._words).st_size
        self._note(PROGRESS.pack(self.progress_of_all()[0], -1 if method == "load" else 0))
        self._busy = True
        self._watch = watch
        try:
            self._messages.send((limits.memory_bytes, tuple(dropped), number, method, tuple(arguments)))
        except (EOFError, ConnectionError) as error:
            raise self._died(limits) from error
        except OSError as error:
            raise JfuseError(f"the inputs cannot be handed to {self._name}'s process", found=error.strerror) from error

    def answer(self, limits: Limits) -> Any:
        """The answer to the last request; its arrays hold until the next request. Raises Refused, LiteRtFailed."""
        try:
            result, refused = self._messages.receive()
        except (EOFError, OSError) as error:
            raise self._died(limits) from error
        self._busy = False
        if refused is not None and not refused[1]:  # an allocation that fails has no reason
            failure = LiteRtFailed(
                f"{self._name} needs more memory than it may take",
                expected=f"at most {limits.memory_bytes:,} bytes",
                remedy="smaller inputs; where the model is as large as that, limits=jfuse.Limits(memory_bytes=…)",
            )
            failure.cause, failure.sample = "memory", refused[0]
            raise failure
        if refused is not None:
            raise Refused(refused[1], refused[0])
        return result

    def said(self) -> str:
        """Read the text that the process printed since the last request."""
        return os.pread(self._words, 2**20, self._heard).decode(errors="replace")

    def progress_of_all(self) -> tuple[int, int]:
        """How many calls were begun, and the number of the sample."""
        calls, sample = PROGRESS.unpack(self._progress[:])
        return calls, sample

    def progress(self) -> tuple[int, int] | None:
        """How many calls were begun, and the number of the sample; None while no answer is awaited."""
        return self.progress_of_all() if self._busy and self._late_s is None else None

    def give_up(self, limit_s: float) -> None:
        """As `Watched` has it: whoever waits for the answer finds the process dead."""
        self._late_s = limit_s
        self._stopped = _is_stopped(self.pid)
        self._kill()

    def ready(self, other: Sequence[Worker]) -> list[Worker]:
        """Those of this and other workers at work that have an answer or are dead, as soon as there is one."""
        workers = {worker._out: worker for worker in (self, *other)}
        return [workers[handle] for handle in self._waited(list(workers), select.POLLIN)] or [self]

    def _read(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            self._wait(self._out, select.POLLIN)
            part = os.read(self._out, min(count - len(data), _PART))
            if not part:
                raise EOFError
            data += part
        return bytes(data)

    def _write(self, data: bytes | memoryview) -> None:
        data = memoryview(data)
        while data:
            self._wait(self._in, select.POLLOUT)
            try:
                data = data[os.write(self._in, data) :]
            except BlockingIOError:
                continue

    def _wait(self, handle: int, event: int) -> None:
        """Wait until a pipe is ready; a process that is too slow is ended meanwhile."""
        if not self._waited([handle], event):
            raise EOFError

    def _waited(self, handles: Sequence[int], event: int) -> list[int]:
        """Those of pipes that are ready; none where this process was given up."""
        assert self._watch is not None, "ask() has set it"
        poll = select.poll()
        for handle in handles:
            poll.register(handle, event)
        while not (ready := poll.poll(1000 * self._watch.look_s)):
            self._watch.look()
            if self._late_s is not None:  # what a device's command has started may keep the pipe open
                return []
        return [handle for handle, _ in ready]

    def _died(self, limits: Limits) -> LiteRtFailed:
        self._busy = False
        status = self._ended()
        _, sample = self.progress_of_all()
        place = "while it loads the file" if sample < 0 else "on sample {sample}"
        words = self.said()[-_LAST_WORDS:].split()
        alone = f"run this call alone in {self._name}, in a process of its own"
        how = _how(status)
        if self._stopped:
            cause, message = "stopped", f"{self._name}'s process was stopped from outside {place}"
            expected, found, remedy = f"an answer within {self._late_s:.3g} s", "none", "run it again"
        elif self._late_s is not None:
            cause, message = "time", f"{self._name} does not come to an end {place}"
            expected, found = f"an answer within {self._late_s:.3g} s", "none; its process was ended"
            remedy = f"{alone}; where the model is as slow as that, limits=jfuse.Limits(seconds=…)"
        elif any(word in " ".join(words) for word in _NO_MEMORY) or self._was_ended_for_memory(status):
            cause, message = "memory", f"{self._name} needs more memory than it may take {place}"
            expected, found = f"at most {limits.memory_bytes:,} bytes", how
            remedy = "smaller inputs; where the model is as large as that, limits=jfuse.Limits(memory_bytes=…)"
        elif self._device is not None:
            cause, message = "killed", f"{self._name} ends {place}"
            expected, found = None, f"{self._device.command!r} ends with {how}"
            remedy = "look whether the device is still there; where it is, the file ends LiteRT on it"
        elif -status in _FROM_OUTSIDE:
            cause, message = "killed", f"{self._name}'s process was ended from outside {place}"
            expected, found, remedy = None, how, "run it again; whoever sent the signal did not mean the file"
        else:
            cause, message = "crash", f"{self._name} takes its process down {place}"
            expected, found, remedy = None, how, f"{alone}; the file ends whatever runs it"
        failure = LiteRtFailed(message, expected=expected, found=" ".join([f"{found}:", *words]) if words else found)
        failure.remedy, failure.cause, failure.sample = remedy, cause, None if sample < 0 else sample
        return failure

    def _was_ended_for_memory(self, status: int) -> bool:
        return _HAS_POSIX and status == -signal.SIGKILL and _times_out_of_memory() > self._out_of_memory

    def _ended(self) -> int:
        """How the process ended, which has closed its output or says what nobody can read."""
        try:
            return self._running.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._kill()
            return self._running.wait()

    def _kill(self) -> None:
        """End the process; of a device's command all that it has started here."""
        try:
            if self._device is not None:
                os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self._running.kill()

    def close(self) -> None:
        """End the process, and close the pipes to it."""
        if self._process is not None:
            if self._handles and self.owner == os.getpid():
                self._kill()
                self._process.wait()
            for stream in (self._process.stdin, self._process.stdout):
                if stream is not None:
                    stream.close()
        handles, self._handles = self._handles, []
        for handle in handles:
            os.close(handle)


def _nameless(name: str) -> int:
    """A file in memory, or on the disk without a name; never as a standard stream, which may be closed here."""
    if hasattr(os, "memfd_create"):
        handle = os.memfd_create(f"jfuse {name}")
    else:
        with tempfile.TemporaryFile() as file:
            handle = os.dup(file.fileno())
    low = []
    while handle < _FIRST_HANDLE:
        low.append(handle)
        handle = os.dup(handle)
    for each in low:
        os.close(each)
    return handle


def _how(status: int) -> str:
    """How a process ended, by what the system says of it."""
    return name_of_signal(-status) if status < 0 else f"exit code {status}"


def name_of_signal(number: int) -> str:
    """A signal by number and name."""
    try:
        return f"signal {number} ({signal.Signals(number).name})"
    except ValueError:
        return f"signal {number}"


def _is_stopped(process: int) -> bool:
    """Whether somebody has stopped a process, where the system tells."""
    try:
        state = Path(f"/proc/{process}/stat").read_text(errors="replace").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return False
    return state in ("T", "t")


def _times_out_of_memory() -> int:
    """How often this system has ended a process because memory ran out, as far as it tells."""
    try:
        rows = dict(line.split(maxsplit=1) for line in Path("/proc/vmstat").read_text().splitlines())
        return int(rows.get("oom_kill", 0))
    except (OSError, ValueError):
        return 0
