"""Steps that stand side by side: runs of operations that repeat, as those of an unrolled loop do."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass

_LONGEST = 64  # operations of a step
_FEWEST = 3  # steps in a row
_FEWEST_OPERATIONS = 12


@dataclass(frozen=True)
class Repeat:
    """Operations from `start` on: `count` steps of the same length."""

    start: int
    period: int
    steps: int

    @property
    def stop(self) -> int:
        """The operation after the last one."""
        return self.start + self.period * self.steps


def repeats(keys: Sequence[Hashable], start: int, stop: int) -> list[Repeat]:
    """The runs of repeated operations among those from `start` up to `stop`, first come first served.

    keys: equal for operations that do the same in two steps.
    """
    groups: list[Repeat] = []
    at = start
    while at < stop:
        candidates = (_at(keys, at, stop, period) for period in range(2, _LONGEST + 1))
        worth = [r for r in candidates if _is_worth(r, keys)]
        best = max(worth, key=lambda r: (r.stop, -r.period), default=None)
        if best is not None:
            groups.append(best)
            at = best.stop
        else:
            at += 1
    return groups


def _is_worth(repeat: Repeat, keys: Sequence[Hashable]) -> bool:
    """Whether a block helps: a chain of one and the same operation is no loop."""
    step = set(keys[repeat.start : repeat.start + repeat.period])
    return repeat.steps >= _FEWEST and repeat.stop - repeat.start >= _FEWEST_OPERATIONS and len(step) > 1


def _at(keys: Sequence[Hashable], start: int, stop: int, period: int) -> Repeat:
    end = start + period
    while end < stop and keys[end] == keys[end - period]:
        end += 1
    return Repeat(start, period, (min(end, stop) - start) // period)
