"""How near the choice of `prefer="speed"` comes to the fastest form that was measured.

    python -m bench.forms            # recurrences that the cost models were not made of, by machine
    python -m bench.forms --write    # the table of the cost models, and constants that fit, from the grids

Nothing is measured here: `bench/loops.py` wrote `bench/results/loops_MACHINE.json` (the grid) and
`bench/results/loops_held_out_MACHINE.json`. Each machine is judged twice: with `machine=` that names it, and with the
choice that is good on all of them, where nobody says which.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

from jfuse.passes.options import ANY_MACHINE, FUSED, MACHINES
from jfuse.passes.scans.to_loops import fused_cost, loop_cost
from jfuse.passes.scans.to_loops.fused_cost import FusedSize
from jfuse.passes.scans.to_loops.loop_cost import ROOMS, LoopSize, LoopSpelling, fastest

RESULTS = Path(__file__).parent / "results"
MEASURED = files(loop_cost.__package__).joinpath("measured_forms.json")
KINDS: tuple[str, ...] = MACHINES[1:]
SAME = {"zen4-avx2": "zen4"}  # of the same processor; it did not run all rows
LEAST = 0.2  # of a file's time that its loop takes at least, whatever the operators around it are expected to take


@dataclass(frozen=True)
class Choice:
    """One recurrence: the form that is chosen, the fastest one, and how many times its time the chosen one takes."""

    name: str
    chosen: str
    fastest: str
    ratio: float


def rows(name: str) -> list[dict[str, Any]]:
    """Measured rows: the sizes of each recurrence, and the mean of both measurements of each form."""
    found = []
    for row in json.loads((RESULTS / f"loops_{name}.json").read_text(encoding="utf-8"))["rows"]:
        fused = None if row["fused"] is None else FusedSize(**row["fused"])
        us = {form: fmean((us, row["again_us"][form])) for form, us in row["forms_us"].items()}
        found.append({**row, "size": LoopSize(**row["size"]), "fused": fused, "us": us})
    return found


def choices(kind: str, machine: str) -> Iterator[Choice]:
    """Yield the choice for each held-out recurrence with this `machine=`, on one kind of machine."""
    for row in rows(f"held_out_{kind}"):
        us = row["us"]
        chosen, least = chosen_form(row, machine), min(us, key=lambda form: us[form])
        text = f"{row['cell']}, batch {row['batch']}, {row['steps']} steps, {row['units']} units"
        yield Choice(text, chosen, least, us[chosen] / us[least])


def chosen_form(row: Mapping[str, Any], machine: str) -> str:
    """The form that `prefer="speed"` takes, as decided in `jfuse.passes.fuse.profitability` and `scan_to_loops`."""
    size, fused = row["size"], row["fused"]
    form = fastest(size, ROOMS["speed"], machine)
    if fused is not None and fused.microseconds(machine) <= row["around_us"] + size.microseconds(form, machine):
        return FUSED
    return form.short


def table() -> dict[str, Any]:
    """Content of `measured_forms.json`: measured over modelled times, for loops and for fused operators.

    They stand in the order of the kinds; None where a kind of machine did not run a recurrence in a form, nor the same
    processor otherwise.
    """
    kinds = {kind: {key(row): row for row in rows(kind)} for kind in KINDS}
    loops, fused = [], []
    for at, row in {at: row for of_kind in reversed(kinds.values()) for at, row in of_kind.items()}.items():
        same = {kind: kinds[kind].get(at) or kinds[SAME.get(kind, kind)].get(at) for kind in KINDS}
        forms = {form: LoopSpelling.named(form) for form in row["us"] if form != FUSED}
        errors = {
            f: [_error(r, f, row["size"].modelled(form, k)) for k, r in same.items()] for f, form in forms.items()
        }
        loops.append({"place": _rounded(row["size"].place()), "errors": errors})
        if row["fused"] is not None:
            errors = {FUSED: [_error(r, FUSED, row["fused"].modelled()) for r in same.values()]}
            fused.append({"place": _rounded(row["fused"].place()), "errors": errors})
    return {"machines": KINDS, "loops": loops, "fused": fused}


def _error(row: Mapping[str, Any] | None, form: str, modelled_us: float) -> float | None:
    return None if row is None or form not in row["us"] else float(f"{alone_us(row, form) / modelled_us:.4g}")


def _rounded(place: Sequence[float]) -> list[float]:
    return [round(float(x), 4) for x in place]


def key(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """Key that is equal for rows of one recurrence."""
    return tuple(row[name] for name in ("cell", "batch", "steps", "features", "units"))


def alone_us(row: Mapping[str, Any], form: str) -> float:
    """The microseconds of a loop, or of a fused operator, without the operators around it."""
    around = 0.0 if form == FUSED else row["around_us"]
    us: float = row["us"][form]
    return max(us - around, LEAST * us)


def fitted() -> dict[str, float]:
    """The constants of the cost models that fit the grids best, by relative errors."""
    grid = [(kind, row) for kind in KINDS for row in rows(kind)]
    loops = [(kind, row, LoopSpelling.named(form)) for kind, row in grid for form in row["us"] if form != FUSED]
    found = _least([_features(*one) for one in loops], [alone_us(row, form.short) for _, row, form in loops])
    with_fused = [row for _, row in grid if row["fused"] is not None]
    names = (*loop_cost.FORM_CONSTANTS, *loop_cost.WORK_CONSTANTS, *KINDS)
    constants = dict(zip(names, found, strict=True))
    found = _least([row["fused"].features() for row in with_fused], [alone_us(row, FUSED) for row in with_fused])
    return constants | dict(zip(fused_cost.FUSED_CONSTANTS, found, strict=True))


def _features(kind: str, row: Mapping[str, Any], form: LoopSpelling) -> list[float]:
    """Cost features of a loop form on a kind of machine, in the order of the unit costs; last the far bytes."""
    size = row["size"]
    far = [size.far(form, loop_cost.NEAR_CACHES[kind]) if name == kind else 0.0 for name in KINDS]
    return [*size.features(form), *size.work(form)[: len(loop_cost.WORK_CONSTANTS)], *far]


def in_use(name: str) -> float:
    """The constant that the cost models have: by its name, or what a far byte takes on a kind of machine."""
    if name in KINDS:
        return loop_cost.NEAR_CACHES[name].far_us
    found: float = getattr(fused_cost if name in fused_cost.FUSED_CONSTANTS else loop_cost, name)
    return found


def _least(features: Sequence[Sequence[float]], times: Sequence[float]) -> list[float]:
    """The unit costs whose relative errors are least in sum: least squares, weighted anew."""
    matrix = np.array(features) / np.array(times)[:, None]
    weights = np.ones(len(times))
    for _ in range(30):
        found = np.linalg.lstsq(matrix * weights[:, None], weights, rcond=None)[0]
        weights = 1 / np.sqrt(np.maximum(np.abs(matrix @ found - 1), 0.03))
    return list(map(float, found))


def main() -> None:
    """Print each choice, and how many are how near to the best; with --write the table is made anew."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    if parser.parse_args().write:
        text = json.dumps(table()).replace(', {"place"', ',\n{"place"')
        Path(str(MEASURED)).write_text(text + "\n", encoding="utf-8")
        for name, value in fitted().items():
            print(f"{name:<15} {value:.3g} fitted, {in_use(name):.3g} in use")
    for kind in KINDS:
        beside_fused(kind)
        for machine in (kind, ANY_MACHINE):
            told(kind, machine)


def beside_fused(kind: str) -> None:
    """Print how many times the fused LSTM's time the best WHILE and straight code take: 50 steps, the last result."""
    print(f"LSTM of 50 steps, {kind}: WHILE and straight code, in times of the fused operator")
    for row in rows(kind):
        if (row["cell"], row["steps"]) == ("LSTM, last", 50):
            us = row["us"]
            loop = min(time for form, time in us.items() if form not in (FUSED, "unrolled"))
            straight = f"{us['unrolled'] / us[FUSED]:.2f}" if "unrolled" in us else "-"
            print(f"batch {row['batch']}, {row['units']:>3} units: {loop / us[FUSED]:.2f} {straight}")


def told(kind: str, machine: str) -> None:
    """Print the choices for one kind of machine where `machine=` says this."""
    found = sorted(choices(kind, machine), key=lambda choice: choice.ratio)
    print(f"{kind}, machine={machine!r}")
    for choice in found:
        if choice.ratio > 1.02:
            print(f"{choice.name:<55}{choice.chosen:>10}{choice.fastest:>10}{choice.ratio:>7.2f}")
    ratios = [choice.ratio for choice in found]
    for limit in (1.02, 1.05, 1.1):
        print(f"within {limit:g} times the fastest: {sum(r <= limit for r in ratios)} of {len(ratios)}")
    print(f"mean {fmean(ratios):.3f}, worst {max(ratios):.2f}")


if __name__ == "__main__":
    main()
