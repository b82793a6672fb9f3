"""LiteRT latency of Keras 3 LSTMs: jfuse's fused file, jfuse's loop, and the official converter's file, in one run.

    python -m bench.latency [--json bench/results/latency.json]
    python -m bench.latency --forms bench/results/latency_forms.json    # the forms of an LSTM in LiteRT's two APIs

Batch 1, one thread, random input. The three files take turns, some calls each, so that a noisy machine disturbs all of
them alike; figures are medians, and what counts are the ratios. The official converter needs a fixed batch, so it gets
the model with batch 1; jfuse gets the same.

--forms: fused, the cell with the BASIC kernel and plain operators, straight or in a WHILE, in Interpreter and in
CompiledModel, all in one process, in turns. Rows that the JSON has stay; it is written after each, and so is the table
of docs/targets.md, which is made of it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import keras
import numpy as np
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.frontends.official_converter import of_keras_model, official_bytes
from jfuse.running.interpreter import LiteRt
from jfuse.verification.file_times import in_turns, litert_turn

SHAPES = [(20, 8, 16), (50, 16, 32), (50, 32, 64), (100, 64, 256)]  # steps, features, units
SECONDS = 2.0  # of calls for each file


def official(model: keras.Model) -> bytes:
    """The official converter's file, from the model with a fixed batch."""
    return official_bytes(of_keras_model(model))


def medians_us(files: list[bytes], x: np.ndarray, seconds: float = SECONDS) -> list[float]:
    """The median time of a call of each file in microseconds, taken in turns."""
    turns = {}
    for number, data in enumerate(files):
        ((key, (names, _)),) = LiteRt(data).signatures().items()
        turns[str(number)] = litert_turn(data, [(key, {names[0]: x})])
    found = in_turns(turns, seconds)
    return [1e6 * statistics.median(s for turn in calls for s in turn) for calls in found.values()]


def measure(steps: int, features: int, units: int) -> dict[str, Any]:
    """One row: sizes, microseconds of each file, and the ratios to the fused one."""
    keras.utils.set_random_seed(0)
    source = keras.Input((steps, features), batch_size=1, name="x")
    model = keras.Model(source, keras.layers.LSTM(units, return_sequences=True)(source))
    x = np.random.default_rng(0).standard_normal((1, steps, features)).astype(np.float32)
    files = [
        jfuse.convert(model).to_bytes(),
        jfuse.convert(model, forms=jfuse.Forms(recover=False)).to_bytes(),
        official(model),
    ]
    fused, loop, theirs = medians_us(files, x)
    return {
        "steps": steps,
        "features": features,
        "units": units,
        "fused_us": fused,
        "loop_us": loop,
        "official_us": theirs,
        "loop_per_fused": loop / fused,
        "official_per_fused": theirs / fused,
    }


FORMS: Mapping[str, dict[str, Any]] = {
    "fused": {"prefer": "fused"},
    "BASIC, straight": {"prefer": "fused", "target": "compiled-model", "loop": "unroll"},
    "BASIC, WHILE": {"prefer": "fused", "target": "compiled-model", "loop": "while"},
    "plain, straight": {"recover": False, "target": "compiled-model", "loop": "unroll"},
    "plain, WHILE": {"recover": False, "target": "compiled-model", "loop": "while"},
}
"""How to write a file with each form of an LSTM."""
APIS = ("Interpreter", "CompiledModel")
FEATURES, FORM_SECONDS, IN_A_ROW, LONG_S = 32, 0.3, 5, 0.05
DOCS = Path("docs/targets.md")
HEADING = """## What the forms of an LSTM cost

Microseconds of the fused operator, and of each other form how many times that; 32 features, one thread
(`bench/results/latency_forms.json`)."""
MARKS = ("<!-- made by python -m bench.latency --forms -->", "<!-- until here -->")


def forms_grid() -> Iterator[tuple[int, int, int]]:
    """Units, steps and batches, those of most use first."""
    for several_units in ((8, 32, 128, 512), (16, 64, 256)):
        yield from product(several_units, (10, 50, 200), (1, 8))


def measure_forms(units: int, steps: int, batch: int) -> dict[str, Any]:
    """The microseconds of each form in each API; CompiledModel takes no fused operators."""
    keras.utils.set_random_seed(0)
    inputs = keras.Input((steps, FEATURES), batch_size=batch, name="x")
    source = jfuse.load(keras.Model(inputs, keras.layers.LSTM(units)(inputs)))
    files = {name: jfuse.lower(source, **options).to_bytes() for name, options in FORMS.items()}
    x = np.random.default_rng(0).standard_normal((batch, steps, FEATURES)).astype(np.float32)
    calls = {f"{name} in {APIS[0]}": in_interpreter(data, x) for name, data in files.items()}
    calls |= {f"{name} in {APIS[1]}": in_compiled_model(files[name], x) for name in list(FORMS)[1:]}
    found = in_turns({name: turn_of(call) for name, call in calls.items()}, FORM_SECONDS, least=3)
    us = {name: 1e6 * statistics.median(s for turn in turns for s in turn) for name, turns in found.items()}
    sizes = {name: len(data) for name, data in files.items()}
    return {"units": units, "steps": steps, "batch": batch, "us": us, "bytes": sizes}


def in_interpreter(data: bytes, x: np.ndarray) -> Callable[[], Any]:
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    return lambda: interpreter.invoke()


def in_compiled_model(data: bytes, x: np.ndarray) -> Callable[[], Any]:
    model = CompiledModel.from_buffer(data)
    before, after = model.create_input_buffers(0), model.create_output_buffers(0)
    before[0].write(np.ravel(x))
    return lambda: model.run_by_index(0, before, after)


def turn_of(call: Callable[[], Any]) -> Callable[[], list[float]]:
    """Some calls in a row. The first one finds the memory of another file in the cache."""

    def turn() -> list[float]:
        found: list[float] = []
        while len(found) <= 1 or (len(found) <= IN_A_ROW and sum(found) < LONG_S):
            started = time.perf_counter()
            call()
            found.append(time.perf_counter() - started)
        return found[1:]

    turn()
    return turn


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of the forms: microseconds of the fused operator, and of each other form how many times that."""
    names = [f"{name} in {api}" for api in APIS for name in FORMS if (name, api) != ("fused", APIS[1])]
    lines = [f"| units | steps | batch | {' | '.join(names[:1])}, \u00b5s | {' | '.join(names[1:])} |"]
    lines.append(f"|{'---|' * (len(names) + 3)}")
    for row in sorted(rows, key=lambda row: (row["batch"], row["units"], row["steps"])):
        first, *others = (row["us"][name] for name in names)
        cells = [f"{first:.0f}", *(f"{us / first:.2f}" for us in others)]
        lines.append(f"| {row['units']} | {row['steps']} | {row['batch']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def with_table(page: str, rows: Sequence[Mapping[str, Any]]) -> str:
    """The page with the table between its marks."""
    before, _, rest = page.partition(MARKS[0])
    after = rest.partition(MARKS[1])[2] or "\n"
    return f"{before.rstrip()}\n\n{MARKS[0]}\n\n{HEADING}\n\n{markdown(rows)}\n\n{MARKS[1]}{after}"


def forms(path: Path) -> None:
    """Measure the rows that a result lacks; write it and the table of the page after each."""
    rows = json.loads(path.read_text())["rows"] if path.exists() else []
    known = {(row["units"], row["steps"], row["batch"]) for row in rows}
    for sizes in (sizes for sizes in forms_grid() if sizes not in known):
        rows.append(measure_forms(*sizes))
        print(*sizes, {name: round(us, 1) for name, us in rows[-1]["us"].items()}, flush=True)
        machine = f"{platform.machine()}, {os.cpu_count()} cores, one thread"
        path.write_text(json.dumps({"machine": machine, "jfuse": jfuse.__version__, "rows": rows}, indent=1) + "\n")
        DOCS.write_text(with_table(DOCS.read_text(encoding="utf-8"), rows), encoding="utf-8")


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--forms", type=Path, metavar="JSON")
    arguments = parser.parse_args()
    if arguments.forms is not None:
        forms(arguments.forms)
        return
    rows = []
    print(f"{'steps':>6}{'features':>9}{'units':>6}{'fused µs':>10}{'loop':>8}{'official':>10}")
    for shape in SHAPES:
        row = measure(*shape)
        rows.append(row)
        print(
            f"{row['steps']:>6}{row['features']:>9}{row['units']:>6}{row['fused_us']:>10.1f}"
            f"{row['loop_per_fused']:>7.2f}x{row['official_per_fused']:>9.2f}x",
            flush=True,
        )
    if arguments.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        report = {"machine": machine, "jfuse": jfuse.__version__, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
