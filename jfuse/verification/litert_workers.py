"""LiteRT on many samples: one process for each core, so that none waits, and none takes this process with it."""

from __future__ import annotations

import pickle
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.verification.cores import cores
from jfuse.verification.subject import Arrays

_WORKER = Path(__file__).with_name("litert_worker")
_LAST_WORDS = 2000  # bytes of what a process wrote before it died


class Refused(Exception):
    """LiteRT does not run a sample in the ordinary way: refused inputs, or outputs without elements."""


@dataclass
class LiteRtWorkers:
    """One file in LiteRT, in processes that are started on first use and ended by `close`, or with this one.

    count: how many; one for each core by default. delegates: as `LiteRt` has it.
    """

    data: bytes
    count: int = field(default_factory=cores)
    delegates: bool = True
    _stack: ExitStack | None = field(default=None, init=False, repr=False)
    _workers: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def run(self, inputs: Arrays, key: str, *, fresh: bool = False, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """The outputs of calls on samples along the first axis of each input, stacked.

        fresh: each sample in an interpreter of its own, for files that keep something between calls.
        in_a_row: a sample is several calls, along the second axis of each input and output.
        Raises VerifyFailed, with the number of the sample, where LiteRT takes a process down; Refused where it does not
        run a sample.
        """
        count = len(next(iter(inputs.values())))
        starts = [count * i // self.count for i in range(self.count + 1)]
        parts = [range(a, b) for a, b in pairwise(starts) if a < b]
        try:
            workers = self._started()[: len(parts)]
            for worker, part in zip(workers, parts, strict=True):
                worker.ask(
                    (key, fresh, in_a_row),
                    {name: array[part.start : part.stop] for name, array in inputs.items()},
                    part,
                )
            found = [worker.answer() for worker in workers]
        except BaseException:  # what is left of other answers would be taken for those to the next request
            self.close()
            raise
        return {name: np.concatenate([outputs[name] for outputs in found]) for name in found[0]}

    def _started(self) -> list[_Worker]:
        if self._stack is None:
            with ExitStack() as stack:
                folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="jfuse-")))
                model = folder / "model.tflite"
                model.write_bytes(self.data)
                self._workers = []
                for number in range(self.count):
                    self._workers.append(_Worker(model, folder / f"progress-{number}", self.delegates))
                    stack.callback(self._workers[-1].close)
                self._stack = stack.pop_all()
        return self._workers

    def close(self) -> None:
        """End the processes; the next `run` starts others."""
        if self._stack is not None:
            self._stack.close()
            self._stack = None

    def __del__(self) -> None:
        self.close()


class _Worker:
    """One process, and the samples that it was asked for last."""

    def __init__(self, model: Path, progress: Path, delegates: bool) -> None:
        resolver = "AUTO" if delegates else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
        progress.write_bytes(bytes(8))
        self._progress = progress
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(model), str(progress), resolver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        self._part = range(0)

    def ask(self, how: tuple[str, bool, bool], inputs: Arrays, part: range) -> None:
        """Send a request. how: the key, fresh and in_a_row; part: the numbers of its samples."""
        self._part = part
        assert self._process.stdin is not None
        try:
            pickle.dump((*how, dict(inputs)), self._process.stdin, pickle.HIGHEST_PROTOCOL)
            self._process.stdin.flush()
        except (BrokenPipeError, ConnectionError, OSError) as error:
            raise self._died() from error

    def answer(self) -> dict[str, np.ndarray]:
        """The outputs of the last request."""
        assert self._process.stdout is not None
        try:
            outputs, refused = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError, OSError) as error:
            raise self._died() from error
        if refused is not None:
            raise Refused(f"sample {self._part.start + refused[0]}: {refused[1]}")
        found: dict[str, np.ndarray] = outputs
        return found

    def _died(self) -> VerifyFailed:
        status = self._process.wait()
        (number,) = struct.unpack("<q", self._progress.read_bytes())
        self._said.seek(0)
        words = self._said.read()[-_LAST_WORDS:].decode(errors="replace").split()
        how = f"signal {-status}" if status < 0 else f"exit code {status}"
        return VerifyFailed(
            f"LiteRT takes its process down on sample {self._part.start + number}",
            found=" ".join([f"{how}:", *words]),
            remedy="run this sample alone in LiteRT, in a process of its own; the file ends whatever runs it",
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                _close(stream)


def _close(stream: Any) -> None:
    try:
        stream.close()
    except OSError:  # what was not read by a process that is no more
        pass
