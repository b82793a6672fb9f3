"""Times of files in LiteRT, measured side by side in a separate process.

The files take turns, and only ratios within one round count, so that other load of the machine
disturbs all alike. Absolute times are those of this machine at this moment.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from statistics import median

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Program
from jfuse.proof.inputs import draws, size_choices
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.programs.device import Device
from jfuse.running.worker import Refused
from jfuse.tflite.write.named_file import with_signature

SECONDS = 0.5  # of calls for each file
_CALLS = 6  # in a row, of which the first finds the memory of another file in the cache
_LEAST_ROUNDS = 7

Turn = Callable[[], list[float]]
"""One turn: the seconds of each call in it."""


@dataclass(frozen=True)
class Timing:
    """The median time of a call of a file in microseconds, and how many times that of the first file it is."""

    microseconds: float
    ratio: float = 1.0


def timed(
    files: Mapping[str, bytes],
    program: Program,
    seconds: float = SECONDS,
    limits: Limits = DEFAULT_LIMITS,
    device: Device | None = None,
) -> dict[str, Timing]:
    """The time of each file on the same random inputs, all signatures together, one thread.

    files: of equal signatures, by name; ratios are to the first. program: of one of them. device: where they
    run; None for here. Raises VerifyFailed where LiteRT does not run one of them.
    """
    calls = [(s.key, drawn_inputs(program, number)) for number, s in enumerate(program.signatures)]
    turns: dict[str, Turn] = {}
    for name, data in files.items():
        try:
            turns[name] = litert_turn(with_signature(data, program), calls, limits=limits, device=device)
        except Refused as error:
            raise VerifyFailed(
                "LiteRT does not run a file that is to be timed", where=name, found=str(error)
            ) from error
    times = {name: [median(turn) for turn in found] for name, found in in_turns(turns, seconds).items()}
    first = next(iter(times.values()))
    return {
        name: Timing(1e6 * median(found), median(t / of for t, of in zip(found, first, strict=True)))
        for name, found in times.items()
    }


def in_turns(
    turns: Mapping[str, Turn], seconds: float = SECONDS, least: int = _LEAST_ROUNDS
) -> dict[str, list[list[float]]]:
    """The seconds of each call, in each round, by name: rounds until so many seconds for each have passed.

    least: how many rounds there are in any case.

    A turn that is run for the first time here is counted: `litert_turn` has made its first calls already.
    """
    seconds_by_name: dict[str, list[list[float]]] = {name: [] for name in turns}
    end = time.perf_counter() + seconds * len(turns)
    rounds = 0
    while time.perf_counter() < end or rounds < least:
        for name, turn in turns.items():
            seconds_by_name[name].append(turn())
        rounds += 1
    return seconds_by_name


def litert_turn(
    data: bytes,
    calls: list[tuple[str, dict[str, np.ndarray]]],
    *,
    threads: int = 1,
    limits: Limits = DEFAULT_LIMITS,
    device: Device | None = None,
) -> Turn:
    """A turn of a file in LiteRT: some calls in a row, each of all signatures one after the other.

    calls: a signature's key, and its inputs. device: where it runs; None for here. Raises Refused where LiteRT does not
    run the file.
    """
    file = LoadedFile(data, threads=threads, limits=limits, device=device)

    def turn() -> list[float]:
        times = [file.ask("timed", key, inputs, _CALLS)[1:] for key, inputs in calls]
        return [sum(each) for each in zip(*times, strict=True)]

    turn()  # the first calls prepare, and are not counted
    return turn


def drawn_inputs(program: Program, number: int = 0) -> dict[str, np.ndarray]:
    """Random inputs of one signature by name, at the first choice of its open sizes."""
    signature = program.signatures[number]
    (inputs,) = draws(signature, size_choices(signature.graph)[0], seed=number, count=1)
    return inputs
