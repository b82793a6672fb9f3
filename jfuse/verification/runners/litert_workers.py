"""LiteRT on many samples: one process for each core, so that none waits, and none takes this process with it."""

from __future__ import annotations

import mmap
import pickle
import struct
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.verification.runners.cores import cores
from jfuse.verification.runners.litert_worker.messages import PROGRESS, Messages
from jfuse.verification.runners.patience import Patience, watched
from jfuse.verification.subject import Arrays

_WORKER = Path(__file__).with_name("litert_worker")
_LAST_WORDS = 2000  # bytes of what a process wrote before it died


class Refused(Exception):
    """LiteRT does not run a sample in the ordinary way: refused inputs, or outputs without elements."""


class SampleFailed(VerifyFailed):
    """LiteRT takes its process down, or does not end.

    sample: the number of the one that it was at, None while it loaded the file. calls: the signature and the inputs of
    the calls that the sample is.
    """

    sample: int | None = None
    calls: tuple[tuple[str, Arrays], ...] = ()


@dataclass
class LiteRtWorkers:
    """One file in LiteRT, in processes that are started on first use and ended by `close`, or with this one.

    count: how many; one for each core by default. delegates: as `LiteRt` has it. limit_s: how long a call may take, in
    seconds; None: as `Patience` has it.
    """

    data: bytes
    count: int = field(default_factory=cores)
    delegates: bool = True
    limit_s: float | None = None
    _stack: ExitStack | None = field(default=None, init=False, repr=False)
    _workers: list[_Worker] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._patience = Patience(self.limit_s)

    def run(self, inputs: Arrays, key: str, *, fresh: bool = False, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """The outputs of calls on samples along the first axis of each input, stacked.

        fresh: each sample in an interpreter of its own, for files that keep something between calls.
        in_a_row: a sample is several calls, along the second axis of each input and output.
        Raises SampleFailed, with the number of the sample, where LiteRT takes a process down or a call does not end;
        Refused where it does not run a sample.
        """
        count = len(next(iter(inputs.values())))
        starts = [count * i // self.count for i in range(self.count + 1)]
        parts = [range(a, b) for a, b in pairwise(starts) if a < b]
        try:
            workers = self._started()[: len(parts)]
            with watched(workers, self._patience):
                for worker, part in zip(workers, parts, strict=True):
                    samples = {name: np.ascontiguousarray(a[part.start : part.stop]) for name, a in inputs.items()}
                    worker.ask((key, fresh, in_a_row), samples, part)
                found = [worker.answer() for worker in workers]
        except BaseException as error:  # what is left of other answers would be taken for those to the next request
            self.close()
            if isinstance(error, SampleFailed) and error.sample is not None:
                sample = {name: array[error.sample] for name, array in inputs.items()}
                turns = range(len(next(iter(sample.values()))) if in_a_row else 0)
                row = [{name: array[turn] for name, array in sample.items()} for turn in turns] or [sample]
                error.calls = tuple((key, call) for call in row)
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
                    self._workers.append(_Worker(model, folder / str(number), self.delegates))
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
    """One process, and the samples that it was asked for last.   folder: for its files, made here"""

    def __init__(self, model: Path, folder: Path, delegates: bool) -> None:
        resolver = "AUTO" if delegates else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
        files = [folder / name for name in ("progress", "samples", "outputs")]
        folder.mkdir()
        for file in files:
            file.write_bytes(struct.pack(PROGRESS, 0, -1))
        with files[0].open("r+b") as opened:
            self._progress = mmap.mmap(opened.fileno(), 0)
        self._said = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(model), *map(str, files), resolver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._messages = Messages(self._process.stdout, self._process.stdin, str(files[2]), str(files[1]))
        self._part = range(0)
        self._late_s: float | None = None

    def ask(self, how: tuple[str, bool, bool], inputs: Arrays, part: range) -> None:
        """Send a request. how: the key, fresh and in_a_row; part: the numbers of its samples."""
        self._progress[:] = struct.pack(PROGRESS, self._now()[0], -1)
        self._part = part
        try:
            self._messages.send((*how, dict(inputs)))
        except ConnectionError as error:
            raise self._died() from error

    def answer(self) -> dict[str, np.ndarray]:
        """The outputs of the last request, until the next one."""
        try:
            outputs, refused = self._messages.receive()
        except (EOFError, pickle.UnpicklingError, OSError) as error:
            raise self._died() from error
        if refused is not None:
            raise Refused(f"sample {self._part.start + refused[0]}: {refused[1]}")
        found: dict[str, np.ndarray] = outputs
        return found

    def _now(self) -> tuple[int, int]:
        calls, sample = struct.unpack(PROGRESS, self._progress)
        return calls, sample

    def progress(self) -> tuple[int, int] | None:
        """As `Watched` has it."""
        calls, sample = self._now()
        return None if sample >= len(self._part) or self._late_s is not None else (calls, sample)

    def give_up(self, limit_s: float) -> None:
        """As `Watched` has it: whoever waits for the answer finds the process dead."""
        self._late_s = limit_s
        self._process.kill()

    def _died(self) -> SampleFailed:
        status = self._process.wait()
        _, number = self._now()
        sample = None if number < 0 else self._part.start + number
        place = "while it loads the file" if sample is None else f"on sample {sample}"
        self._said.seek(0)
        words = self._said.read()[-_LAST_WORDS:].decode(errors="replace").split()
        if self._late_s is not None:
            found = SampleFailed(
                f"LiteRT does not come to an end {place}",
                expected=f"an answer within {self._late_s:.3g} s",
                found=" ".join(["none; its process was ended", *words]),
                remedy="run this sample alone in LiteRT; where the model is as slow as that, raise litert_limit_s",
            )
        else:
            how = f"signal {-status}" if status < 0 else f"exit code {status}"
            found = SampleFailed(
                f"LiteRT takes its process down {place}",
                found=" ".join([f"{how}:", *words]),
                remedy="run this sample alone in LiteRT, in a process of its own; the file ends whatever runs it",
            )
        found.sample = sample
        return found

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()
        self._messages.close()
        self._said.close()
