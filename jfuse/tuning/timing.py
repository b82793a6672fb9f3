"""How long files take in LiteRT beside one another, in a process of its own.

Files take turns, and what counts are ratios within one round, so that whatever else the machine does disturbs them
alike. Absolute times are those of this machine at this moment.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from jfuse.errors import VerifyFailed
from jfuse.ir.graph import Program
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.proof.inputs import draws, size_choices
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.named_file import with_signature
from jfuse.running.worker import Refused

SECONDS = 0.5  # of calls for each file
_CALLS = 6  # in a row, of which the first finds the memory of another file in the cache
_LEAST_ROUNDS = 7


@dataclass(frozen=True)
class Timing:
    """The median time of a call of a file in microseconds, and how many times that of the first file it is."""

    microseconds: float
    ratio: float = 1.0


def timed(
    files: Mapping[str, bytes], program: Program, seconds: float = SECONDS, limits: Limits = DEFAULT_LIMITS
) -> dict[str, Timing]:
    """The time of each file on the same random inputs, all signatures together, one thread.

    files: of equal signatures, by name; ratios are to the first. program: what one of them says.
    Raises VerifyFailed where LiteRT does not run one of them.
    """
    calls = [(s.key, _inputs(program, number)) for number, s in enumerate(program.signatures)]
    runs: dict[str, _Run] = {}
    for name, data in files.items():
        try:
            runs[name] = _Run(LoadedFile(with_signature(data, program), limits=limits), calls)
            runs[name].seconds()  # the first calls prepare, and are not counted
        except Refused as error:
            raise VerifyFailed(
                "LiteRT does not run a file that is to be timed", where=name, found=str(error)
            ) from error
    times: dict[str, list[float]] = {name: [] for name in files}
    end = time.perf_counter() + seconds * len(files)
    while time.perf_counter() < end or len(next(iter(times.values()))) < _LEAST_ROUNDS:
        for name, run in runs.items():
            times[name].append(run.seconds())
    first = next(iter(times.values()))
    return {
        name: Timing(1e6 * median(found), median(t / of for t, of in zip(found, first, strict=True)))
        for name, found in times.items()
    }


@dataclass(frozen=True)
class _Run:
    file: LoadedFile
    calls: list[tuple[str, dict[str, np.ndarray]]]

    def seconds(self) -> float:
        """The median of some calls in a row, of all signatures one after the other."""
        return sum(float(median(self.file.ask("timed", key, inputs, _CALLS)[1:])) for key, inputs in self.calls)


def _inputs(program: Program, number: int) -> dict[str, np.ndarray]:
    signature = program.signatures[number]
    (found,) = draws(signature, size_choices(signature.graph)[0], seed=number, count=1)
    return found
