"""LiteRT on many samples: one process for each core, so that none waits, and none takes this process with it."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.running.cores import cores
from jfuse.running.patience import Patience, ProcessWatch
from jfuse.running.worker import LiteRtFailed, Refused, Worker
from jfuse.verification.subject import Arrays

_FILE = 1  # its number: each process has this one


@dataclass
class LiteRtWorkers:
    """One file in LiteRT, in processes that are started on first use and ended by `close`, or with this one.

    count: how many; one for each core by default. delegates: as `LiteRt` has it. limits: of each process.
    """

    data: bytes
    count: int = field(default_factory=cores)
    delegates: bool = True
    limits: Limits = DEFAULT_LIMITS
    _workers: list[Worker] = field(default_factory=list, init=False, repr=False)

    def __post_init__(self) -> None:
        self._patience = Patience(self.limits.seconds)

    def run(self, inputs: Arrays, key: str, *, fresh: bool = False, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """The outputs of calls on samples along the first axis of each input, stacked.

        fresh: each sample in an interpreter of its own, for files that keep something between calls.
        in_a_row: a sample is several calls, along the second axis of each input and output.
        Raises LiteRtFailed, with the number of the sample and its calls, where LiteRT takes a process down or a call
        reaches a limit; Refused where it does not run a sample.
        """
        count = len(next(iter(inputs.values())))
        starts = [count * i // self.count for i in range(self.count + 1)]
        parts = [range(a, b) for a, b in pairwise(starts) if a < b]
        at: list[range] = []
        try:
            workers = self._started()[: len(parts)]
            watch = ProcessWatch(workers, self._patience)
            for worker, part in zip(workers, parts, strict=True):
                at = [part]
                samples = {name: np.ascontiguousarray(a[part.start : part.stop]) for name, a in inputs.items()}
                worker.ask(watch, self.limits, _FILE, "samples", (key, fresh, in_a_row, samples), ())
            found: dict[int, dict[str, np.ndarray]] = {}
            refused: dict[int, Refused] = {}
            waiting = dict(zip(workers, parts, strict=True))
            while waiting:
                first, *others = waiting
                for worker in first.ready(others):  # whichever dies is noticed at once
                    at = [waiting.pop(worker)]
                    try:
                        found[at[0].start] = worker.answer(self.limits)
                    except Refused as error:
                        refused[at[0].start] = error
            if refused:  # the first sample of all, whichever answer came first
                start = min(refused)
                sample = start + refused[start].sample
                raise Refused(f"sample {sample}: {refused[start]}", sample) from refused[start]
        except BaseException as error:  # what is left of other answers would be taken for those to the next request
            self.close()
            if isinstance(error, LiteRtFailed):
                _tell_sample(error, at[0].start if at else 0, inputs, key, in_a_row)
            raise
        return {name: np.concatenate([found[part.start][name] for part in parts]) for name in found[0]}

    def _started(self) -> list[Worker]:
        """The processes, with the file loaded in each."""
        if not self._workers:
            for _ in range(self.count):
                self._workers.append(Worker())
            watch = ProcessWatch(self._workers, self._patience)
            resolver = "AUTO" if self.delegates else "BUILTIN_WITHOUT_DEFAULT_DELEGATES"
            arguments = (np.frombuffer(self.data, np.uint8), resolver, 1, False, False)
            for worker in self._workers:
                worker.ask(watch, self.limits, _FILE, "load", arguments, ())
            try:
                for worker in self._workers:
                    worker.answer(self.limits)
            except Refused as error:
                raise VerifyFailed("LiteRT does not load the file", found=str(error)) from error
        return self._workers

    def close(self) -> None:
        """End the processes; the next `run` starts others."""
        workers, self._workers = self._workers, []
        for worker in workers:
            worker.close()

    def __del__(self) -> None:
        self.close()


def _tell_sample(error: LiteRtFailed, first: int, inputs: Arrays, key: str, in_a_row: bool) -> None:
    """Let the error name the sample among all of them, and keep its calls."""
    if error.sample is None:
        return
    error.sample += first
    error.message = error.message.replace("{sample}", str(error.sample))
    sample = {name: array[error.sample] for name, array in inputs.items()}
    turns = range(len(next(iter(sample.values()))) if in_a_row else 0)
    row = [{name: array[turn] for name, array in sample.items()} for turn in turns] or [sample]
    error.calls = tuple((key, call) for call in row)
