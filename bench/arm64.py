"""Files in LiteRT on arm64 beside x86-64 and XLA, in every bit. The processors are emulated: nothing here is timed.

    python -m bench.runtimes.emulated                 # once: QEMU and a Python of arm64, from Debian and PyPI
    python -m bench.arm64 [--json bench/results/arm64.json] [--parts rows recurrent applications] [-k SUBSTRING ...]
    python -m bench.arm64 --markdown                  # the table of the committed result

rows: graphs of one operator with an integer body, drawn as in tests/kernels/integer, by default and without XNNPACK.
recurrent: the 37 models of `bench.quantize_recurrent` in five modes, four calls in a row. applications: those of
`bench.quantize` in integers, two images. Files are made here, and run here and on each processor. Answers are compared
with those of this machine, and integers with XLA's.

Rows are written as they come; a second run measures those that are not there yet (all of them with --again).
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

import jfuse
from bench.quantize_recurrent import as_given, nearness
from bench.runtimes.emulated import CPUS, command, versions, why_missing
from jfuse.base.errors import JfuseError
from jfuse.base.limits import Limits
from jfuse.running.interpreter import LiteRt
from jfuse.running.programs.device import Device

RESULT = Path("bench/results/arm64.json")
MODES = ("int8", "int16x8", "dynamic", "float16", "int8_weights")
INTEGERS = ("int8", "int16x8")
WAYS = ("default", "without XNNPACK")
CALLS, IMAGES = 4, 2
LAST_BITS_DB = 120.0  # what sums of floats in another order leave; a step of 16 bits is below 100
LIMITS = Limits(seconds=600.0)  # of one call, in emulation
Arrays = Mapping[str, np.ndarray]


@dataclass(frozen=True)
class File:
    """A file, the calls that it gets one after the other, and what XLA answers, where that is compared."""

    data: bytes
    calls: Sequence[Arrays]
    xla: Sequence[np.ndarray] | None
    delegates: bool = True

    def compared(self, cpus: Sequence[str]) -> dict[str, Any]:
        """How near XLA is to this machine, and each processor to it; why there is no answer otherwise."""
        here = self.answers(None)
        found = {} if self.xla is None else {"xla": nearness(self.xla, here)}
        for cpu in cpus:
            try:
                found[cpu] = nearness(self.answers(Device(command(cpu))), here)
            except JfuseError as error:
                found[cpu] = f"refused: {' '.join(str(error).split())[:200]}"
        return found

    def answers(self, device: Device | None) -> list[np.ndarray]:
        """The outputs of each call in LiteRT, there or here."""
        lite = LiteRt(self.data, delegates=self.delegates, limits=LIMITS, device=device)
        ((key, _),) = lite.signatures().items()
        return [flat(lite.run(key, call)) for call in self.calls]


def flat(outputs: Arrays) -> np.ndarray:
    """All outputs of a call in a row, by name."""
    return np.concatenate([np.ravel(outputs[name]) for name in sorted(outputs)])


Measured = tuple[str, str, Callable[[], list[File]]]
"""The name of a row, its mode, and what makes its files."""


def integer_rows() -> Iterator[Measured]:
    """Operators with an integer body, by default and without XNNPACK."""
    from tests.kernels.integer.rows import ROWS

    for name, row in ROWS.items():
        for way in WAYS if "xnnpack" in row.roundings else ():
            yield name, way, partial(_drawn, row, way)


def _drawn(row: Any, way: str) -> list[File]:
    from tests.kernels.integer.oracles import drawn, file_of, on_xla

    rng, files = np.random.default_rng(row.many), []
    for _ in range(row.many):
        graph = row.draw(rng)
        calls = drawn(rng, graph, row.states)
        xla = None  # without XNNPACK are kernels for this processor, which no integer body follows
        if way == "default":
            xla = [np.concatenate([np.ravel(y) for y in ys]) for ys in on_xla(graph, "xnnpack", calls, row.states)]
        named = [{f"x{i}": array for i, array in enumerate(call)} for call in calls]
        files.append(File(file_of(graph, row.states), named, xla, delegates=way == "default"))
    return files


def recurrent() -> Iterator[Measured]:
    """Recurrent models; those in integers come first."""
    from bench.quantize_recurrent import MODELS, Case

    for modes in (INTEGERS, MODES[len(INTEGERS) :]):
        for name, model in MODELS.items():
            with tempfile.TemporaryDirectory() as folder:
                case = cache(partial(Case.of, model, Path(folder)))
                for mode in modes:
                    yield name, mode, partial(_recurrent_file, case, mode)


def _recurrent_file(case: Callable[[], Any], mode: str) -> list[File]:
    from bench.quantize_recurrent import MODES as RECIPES

    lite = case().ours(RECIPES[mode])
    return [_file(lite, as_given(lite, case().compared[:CALLS]), mode)]


def applications() -> Iterator[Measured]:
    """Networks for images, in integers."""
    from bench.quantize import SETS, Case

    for name in SETS["applications"].models:
        case = cache(partial(Case.of, name, of=SETS["applications"]))
        for mode in INTEGERS:
            yield name, mode, partial(_application_file, case, mode)


def _application_file(case: Callable[[], Any], mode: str) -> list[File]:
    lite = jfuse.quantize(case().source, mode, case().calibration, verify=False)
    return [_file(lite, case().compared[:IMAGES], mode)]


def _file(lite: jfuse.Model, samples: np.ndarray, mode: str) -> File:
    """A file of one input, which gets one sample after the other."""
    with tempfile.TemporaryDirectory() as folder:
        loaded = jfuse.load(lite.save(Path(folder) / "model.tflite"))
    (name,), stream = loaded.signature().input_names, loaded.stream(quick=True)
    calls = [{name: row[None]} for row in samples]
    return File(lite.to_bytes(), calls, [flat(stream.run(call)) for call in calls] if mode in INTEGERS else None)


PARTS: Mapping[str, Callable[[], Iterator[Measured]]] = {
    "rows": integer_rows,
    "recurrent": recurrent,
    "applications": applications,
}


def row_of(make: Callable[[], list[File]]) -> dict[str, Any]:
    """How near the answers to all files are: "equal" where all are, else the worst."""
    try:
        found = [file.compared(CPUS) for file in make()]
    except JfuseError as error:
        return {"no file": " ".join(str(error).split())[:200]}
    return {side: min((one[side] for one in found), key=_order) for side in found[0]}


def _order(nearness: float | str) -> float:
    return nearness if isinstance(nearness, float) else {"equal": 1e9}.get(nearness, -1e9)


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """How many rows of each part and mode are equal in every bit, and those that are not."""
    lines = ["| part | mode | files | XLA | Cortex-A57 | Cortex-A76 |", "|---|---|---|---|---|---|"]
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault((row["part"], row["mode"]), []).append(row)
    for (part, mode), group in groups.items():
        cells = [_equal([row[side] for row in group if side in row]) for side in ("xla", *CPUS)]
        lines.append(f"| {part} | `{mode}` | {len(group)} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _equal(found: Sequence[float | str]) -> str:
    """So many are equal, so many but for last bits of floats, and the least decibels of the others."""
    decibels = [of for of in found if isinstance(of, float)]
    others = [of for of in decibels if of < LAST_BITS_DB]
    counts = {
        "equal": found.count("equal"),
        "but for last bits": len(decibels) - len(others),
        f"from {min(others, default=0):.0f} dB": len(others),
        "refused": len(found) - len(decibels) - found.count("equal"),
    }
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count)


def main() -> None:
    """Measure, and print a line for each row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    if options.markdown:
        print(markdown(json.loads(RESULT.read_text())["rows"]), end="")
        return
    if missing := why_missing():
        raise SystemExit(missing)
    path: Path | None = options.json
    table = (
        {} if path is None or not path.exists() else {_key(row): row for row in json.loads(path.read_text())["rows"]}
    )
    for part in options.parts:
        for name, mode, make in PARTS[part]():
            row: dict[str, Any] = {"part": part, "name": name, "mode": mode}
            if not any(k in f"{name} {mode}" for k in options.k) or (_key(row) in table and not options.again):
                continue
            row |= row_of(make)
            table[_key(row)] = row
            print(" ".join(f"{value:.0f}" if isinstance(value, float) else value for value in row.values()), flush=True)
            if path is not None:
                write(path, list(table.values()))


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["part"], row["name"], row["mode"]


def write(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    """Write the result: rows of a part and a mode stand together."""
    order = {part: i for i, part in enumerate(PARTS)}
    rows = sorted(rows, key=lambda row: (order[row["part"]], (*WAYS, *MODES).index(row["mode"])))
    result = {"emulator": "qemu-user 10.0", "packages": versions().split(), "rows": rows}
    path.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
