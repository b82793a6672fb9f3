"""LiteRT on many samples: one process for each core, so that none waits, and none takes this process with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.running.cores import cores
from jfuse.running.litert_worker.tallies import TallyRequest, TallyResult, together
from jfuse.running.patience import Patience, ProcessWatch
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused, Worker

Arrays: TypeAlias = Mapping[str, np.ndarray]

_FILE = 1  # its number: each process has this one


@dataclass
class LiteRtWorkers:
    """One file in LiteRT, in processes that are started on first use and ended by `close`, or with this one.

    count: how many; one for each core by default. delegates: as `LiteRt` has it. limits: of each process. device: where
    they run; None for here.
    """

    data: bytes
    count: int = field(default_factory=cores)
    delegates: bool = True
    limits: Limits = DEFAULT_LIMITS
    device: Device | None = None
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

        def samples(part: slice) -> tuple[Any, ...]:
            return key, fresh, in_a_row, {name: np.ascontiguousarray(a[part]) for name, a in inputs.items()}

        def told(error: LiteRtFailed, first: int) -> None:
            _tell_sample(error, first, inputs, key, in_a_row)

        parts_of_outputs = self._shared_out("samples", count, samples, told)
        return {name: np.concatenate([part[name] for part in parts_of_outputs]) for name in parts_of_outputs[0]}

    def look(self, inputs: Sequence[np.ndarray], looks: TallyRequest) -> TallyResult:
        """Collect statistics over calls of the first subgraph, on samples along the first axis of each input.

        Only the statistics leave the processes. Raises as `run` does.
        """

        def samples(part: slice) -> tuple[Any, ...]:
            return [np.ascontiguousarray(a[part]) for a in inputs], tuple(looks)

        return together([TallyResult(*part) for part in self._shared_out("look", len(inputs[0]), samples)])

    def _shared_out(
        self,
        method: str,
        count: int,
        arguments: Callable[[slice], tuple[Any, ...]],
        on_failure: Callable[[LiteRtFailed, int], None] = lambda error, first: None,
    ) -> list[Any]:
        """Split the samples over the processes, and return the answers in order.

        on_failure: called with the error and the first sample of the failed part. Answers hold until the next request.
        """
        starts = [count * i // self.count for i in range(self.count + 1)]
        parts = [range(a, b) for a, b in pairwise(starts) if a < b]
        at: list[range] = []
        try:
            workers = self._started()[: len(parts)]
            watch = ProcessWatch(workers, self._patience)
            for worker, part in zip(workers, parts, strict=True):
                at = [part]
                request = arguments(slice(part.start, part.stop))
                worker.ask(watch, self.limits, _FILE, method, request, ())
            answers: dict[int, Any] = {}
            refused: dict[int, Refused] = {}
            waiting = dict(zip(workers, parts, strict=True))
            while waiting:
                first, *others = waiting
                for worker in first.ready(others):  # whichever dies is noticed at once
                    at = [waiting.pop(worker)]
                    try:
                        answers[at[0].start] = worker.answer(self.limits)
                    except Refused as error:
                        refused[at[0].start] = error
            if refused:  # the first sample of all, whichever answer came first
                start = min(refused)
                sample = start + refused[start].sample
                raise Refused(f"sample {sample}: {refused[start]}", sample) from refused[start]
        except BaseException as error:  # what is left of other answers would be taken for those to the next request
            self.close()
            if isinstance(error, LiteRtFailed):
                on_failure(error, at[0].start if at else 0)
            raise
        return [answers[part.start] for part in parts]

    def _started(self) -> list[Worker]:
        """The processes, with the file loaded in each."""
        if not self._workers:
            for _ in range(self.count):
                self._workers.append(Worker("litert", self.device, self.limits))
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
