"""How near the cost model's choice of a form comes to the fastest one that was measured.

    python -m bench.forms

Reads `bench/results/forms.json`: recurrences of 8 to 512 units and 5 to 200 steps in all forms, with the times that
`bench/loops.py` measured, and sets beside them what `prefer="speed"` chooses. Nothing is measured here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from jfuse.passes.fuse.fused_cost import FusedSize
from jfuse.passes.scans.to_loops.loop_cost import MAX_BYTES_FOR_SPEED, MAX_OPERATORS, LoopSize, LoopSpelling

RESULTS = Path(__file__).parent / "results" / "forms.json"
FUSED = "fused"


@dataclass(frozen=True)
class Choice:
    """One recurrence: the form that is chosen, the fastest one, and how many times its time the chosen one takes."""

    name: str
    chosen: str
    fastest: str
    ratio: float


def choices() -> Iterator[Choice]:
    """The choice for each measured recurrence, among the forms that were measured."""
    for row in json.loads(RESULTS.read_text(encoding="utf-8"))["rows"]:
        measured, expected = row["forms_us"], expected_us(row)
        chosen, fastest = min(expected, key=lambda f: expected[f]), min(measured, key=lambda f: measured[f])
        name = f"{row['cell']}, batch {row['batch']}, {row['steps']} steps, {row['units']} units"
        yield Choice(name, chosen, fastest, measured[chosen] / measured[fastest])


def expected_us(row: dict[str, Any]) -> dict[str, float]:
    """What the cost model says of each measured form that may be chosen, in microseconds."""
    size = LoopSize(**row["size"])
    found = {}
    for word in row["forms_us"]:
        if word == FUSED:
            found[word] = FusedSize(*row["fused"]).microseconds()
        elif size.allows(form := LoopSpelling.named(word), MAX_OPERATORS, MAX_BYTES_FOR_SPEED):
            found[word] = size.microseconds(form)
    return found


def main() -> None:
    """Print each choice, and how many are how near to the best."""
    found = sorted(choices(), key=lambda choice: choice.ratio)
    for choice in found:
        print(f"{choice.name:<55}{choice.chosen:>10}{choice.fastest:>10}{choice.ratio:>7.2f}")
    ratios = [choice.ratio for choice in found]
    for limit in (1.05, 1.1, 1.25):
        print(f"within {limit:g} times the fastest: {sum(r <= limit for r in ratios)} of {len(ratios)}")
    print(f"mean {fmean(ratios):.3f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
