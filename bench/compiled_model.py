"""Recurrent files for CompiledModel, run there, beside the default ones in Interpreter: right, and how fast?

    python -m bench.compiled_model [--json bench/results/compiled_model.json] [-k SUBSTRING ...]
    python -m bench.compiled_model --prefer speed [--json ...]            # the fastest forms, beside the default ones
    python -m bench.compiled_model --modes all --answers [--json ...]     # every mode, without times

The models are the 37 of `bench.quantize_recurrent`. A row has the SNR of CompiledModel's answers to five calls in a row
against TensorFlow in floats, the batch growing and shrinking where it is open, and the SNR of the default file in
Interpreter. Times are of a batch of 1, one thread, all in one process, in turns: a ratio is the median of those of the
rounds. The file for CompiledModel is timed in Interpreter, too: what it takes there is its form's, what it takes more
in CompiledModel is that API's. Rows that the JSON has are not measured again; it is written after each.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import jfuse
from bench.latency import in_compiled_model, in_interpreter, turn_of
from bench.quantize import answers, snr_db
from bench.quantize_recurrent import MODELS, Case, Mode, as_given, as_real
from bench.quantize_recurrent import MODES as QUANTIZED
from bench.recurrent import geometric_mean, operators
from jfuse.base.errors import JfuseError
from jfuse.running.cores import cores
from jfuse.running.file_process import CompiledModelProcess
from jfuse.verification.file_times import in_turns

MODES: Mapping[str, Mode] = {"float": Mode(None)} | {
    name: QUANTIZED[name] for name in ("int8", "int16x8", "dynamic", "float16", "int8_weights")
}
TARGET = "compiled-model"
BATCHES = (3, 1, 5, 2, 4)
"""Samples of each call where the batch is open."""
SECONDS = 1.5  # of calls for each file
RATIOS = {"ratio": "us", "ratio_in_interpreter": "in_interpreter_us"}
MOST = 1.1  # how many times the time of the default file a file for CompiledModel may take


def for_compiled_model(case: Case, mode: Mode, prefer: str = "auto") -> jfuse.Model:
    """The file of a model for CompiledModel."""
    return case.ours(replace(mode, target=TARGET), prefer=prefer)


def batches(case: Case) -> Sequence[int]:
    """How many samples each of five calls gets."""
    return [1] * len(BATCHES) if case.model.stateful else BATCHES


def answers_of_calls(case: Case, lite: jfuse.Model) -> list[np.ndarray]:
    """CompiledModel's output for each sample, from five calls in a row."""
    (given,), (output,) = lite.signature().input_names, lite.signature().output_names
    found: list[np.ndarray] = []
    with CompiledModelProcess(lite.to_bytes(), lite.program) as process:
        for count in batches(case):
            samples = case.compared[len(found) : len(found) + count]
            found.extend(map(np.ravel, process.run({given: as_given(lite, samples)})[output]))
    return as_real(lite, found)


def checked(case: Case, mode: Mode, prefer: str) -> dict[str, Any]:
    """How near both files' answers are to TensorFlow's, and what they hold."""
    lite, default = for_compiled_model(case, mode, prefer), case.ours(mode)
    found = answers_of_calls(case, lite)
    samples, wanted = case.compared[: len(found)], case.wanted[: len(found)]
    in_default = as_real(default, answers(default.to_bytes(), as_given(default, samples), as_real=False))
    return {
        "operators": operators(lite.to_bytes()),
        "default_operators": operators(default.to_bytes()),
        "snr_db": snr_db(found, wanted),
        "default_snr_db": snr_db(in_default, wanted),
        "bytes": len(lite.to_bytes()),
        "default_bytes": len(default.to_bytes()),
    }


def timed(case: Case, mode: Mode, prefer: str) -> dict[str, Any]:
    """The microseconds of a call, and the ratios to those of the default file in Interpreter."""
    default, lite = case.ours(mode), for_compiled_model(case, mode, prefer)
    calls = {
        "default_us": (in_interpreter, default),
        "us": (in_compiled_model, lite),
        "in_interpreter_us": (in_interpreter, lite),
    }
    sample = case.compared[:1]
    turns = {name: turn_of(load(of.to_bytes(), as_given(of, sample))) for name, (load, of) in calls.items()}
    found = {name: [statistics.median(turn) for turn in rounds] for name, rounds in in_turns(turns, SECONDS).items()}
    first = found["default_us"]
    return {name: 1e6 * statistics.median(us) for name, us in found.items()} | {
        ratio: statistics.median(us / default for us, default in zip(found[name], first, strict=True))
        for ratio, name in RATIOS.items()
    }


def row_of(
    case_of: Callable[[int | None], Case], mode: Mode, parts: Sequence[str], prefer: str = "auto"
) -> dict[str, Any]:
    """The parts of a row, or why there is no such file.   case_of: the model with a batch, None for an open one"""
    row: dict[str, Any] = {}
    try:
        for part in parts:
            row |= checked(case_of(None), mode, prefer) if part == "answers" else timed(case_of(1), mode, prefer)
    except JfuseError as error:
        row["refused"] = " ".join(str(error).split())[:300]
    return row


def measured(known: Sequence[Mapping[str, Any]], options: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """Each row that is asked for, with the parts that it lacks."""
    table = {(row["model"], row["mode"]): row for row in known}
    wanted = {"answers": "snr_db", **({} if options.answers else {"times": "ratio"})}
    for name in (name for name in MODELS if not options.k or any(k in name for k in options.k)):
        with tempfile.TemporaryDirectory() as folder:
            cases: dict[int | None, Case] = {}

            def case_of(batch: int | None, cases: dict[int | None, Case], name: str, at: Path) -> Case:
                if batch not in cases:
                    (at / str(batch)).mkdir()
                    cases[batch] = Case.of(MODELS[name], at / str(batch), batch=batch)
                return cases[batch]

            of = partial(case_of, cases=cases, name=name, at=Path(folder))
            for mode in options.modes:
                row = {"model": name, "mode": mode, **table.get((name, mode), {})}
                parts = [part for part, key in wanted.items() if key not in row or "refused" in row]
                if parts:
                    row.pop("refused", None)
                    yield row | row_of(of, MODES[mode], parts, options.prefer)


def summary(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """For each mode how many files there are, the mean ratios of times and the worst ones."""
    lines = []
    for mode in MODES:
        of = [row for row in rows if row["mode"] == mode]
        refused = [row["model"] for row in of if "refused" in row]
        lines += [f"{mode}: {len(of)} models, refused: {', '.join(refused) or 'none'}"] if of else []
        for key, api in (("ratio", "CompiledModel"), ("ratio_in_interpreter", "Interpreter")):
            ratios = {row["model"]: row[key] for row in of if key in row}
            slow = [f"{name} {ratio:.2f}" for name, ratio in ratios.items() if ratio > MOST]
            if ratios:
                mean, worst = geometric_mean(list(ratios.values())), max(ratios.values())
                told = f"geometric mean {mean:.2f}, worst {worst:.2f}, above {MOST}: {', '.join(slow) or 'none'}"
                lines.append(f"  time in {api}, {len(ratios)} models: {told}")
    return lines


def line(row: Mapping[str, Any]) -> str:
    """One row as text."""
    head = f"{row['model']:<19} {row['mode']:<12}"
    if "refused" in row:
        return f"{head} refused: {row['refused']}"
    parts = [f"{row['snr_db']:.1f} dB (default {row['default_snr_db']:.1f})", row["operators"]]
    if "ratio" in row:
        times = " and ".join(f"{row[key]:.2f}" for key in RATIOS)
        parts.append(f"{row['us']:.1f} us, {times} times {row['default_operators']}")
    return f"{head} {' | '.join(parts)}"


def write(path: Path, rows: Mapping[tuple[str, str], Mapping[str, Any]]) -> None:
    """Write the rows in the order of models and modes."""
    order = [key for key in ((name, mode) for name in MODELS for mode in MODES) if key in rows]
    machine = f"{platform.machine()}, {cores()} cores, one thread"
    path.write_text(json.dumps({"machine": machine, "rows": [rows[key] for key in order]}, indent=1) + "\n")


def main() -> None:
    """Measure, and print a line for each row and a summary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[])
    parser.add_argument("--modes", nargs="*", default=["float"], choices=[*MODES, "all"])
    parser.add_argument("--prefer", default="auto", choices=["auto", "speed", "fused", "size"])
    parser.add_argument("--answers", action="store_true", help="do not measure times")
    options = parser.parse_args()
    options.modes = list(MODES) if "all" in options.modes else options.modes
    path: Path | None = options.json
    known = json.loads(path.read_text())["rows"] if path is not None and path.is_file() else []
    rows = {(row["model"], row["mode"]): row for row in known}
    for row in measured(known, options):
        rows[row["model"], row["mode"]] = row
        print(line(row), flush=True)
        if path is not None:
            write(path, rows)
    print("\n".join(summary(list(rows.values()))))


if __name__ == "__main__":
    main()
