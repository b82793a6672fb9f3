"""LiteRT latency of recurrences by form, fused, straight code and WHILE, beside the official converter's file.

    python bench/loops.py [--json bench/results/loops.json] [--cells LSTM RNN]

One thread, XNNPACK as it comes, random input, fixed shapes. Files take turns invoke by invoke, so that a noisy machine
disturbs them alike: the official one with what jfuse chooses, then each form forced; figures are 10th percentiles.

In the end the constants of the cost models are fitted to all rows by least squares. Those of loops are in
`jfuse/passes/scans/to_loops/loop_cost.py`: each model has a time of its own for the work of its steps, and the forms
differ from it by what the cost model says. Those of fused operators are in `jfuse/passes/fuse/fused_cost.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import platform
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.ir.graph import Graph
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.fuse import fused_cost
from jfuse.passes.fuse.fused_cost import FusedSize
from jfuse.passes.pipeline import PIPELINE
from jfuse.passes.scans.to_loops import loop_cost
from jfuse.passes.scans.to_loops.loop_cost import LoopSize, LoopSpelling
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops

SECONDS = 1.0  # of invokes for each model
MEASURED = (
    *(LoopSpelling(steps=steps) for steps in (1, 2, 4, 8, 16)),
    *(LoopSpelling(steps=steps, block=block) for block in (24, 96) for steps in (1, 4)),
    LoopSpelling(unrolled=True),
)
MOST_BYTES = 8 << 20  # weights of steps side by side in a file that is measured: more would empty the others' cache

SIZES = [  # batch, steps, features, units
    *((1, 20, 16, units) for units in (8, 32, 128)),
    *((1, 50, 16, units) for units in (8, 16, 32, 64)),
    *((1, 50, 64, units) for units in (128, 256, 512)),
    *((1, 200, 32, units) for units in (8, 32, 64, 128)),
    (1, 400, 32, 256),
    (1, 1000, 32, 64),
    *((8, 50, 32, units) for units in (32, 64, 128)),
    (8, 200, 32, 64),
]


class Cell(keras.layers.Layer):
    """A step that is no known cell: two states, a product of each, one gate."""

    def __init__(self, units: int, **options: Any) -> None:
        super().__init__(**options)
        self.units = units
        self.state_size = [units, units]
        self.output_size = units

    def build(self, shape: Any) -> None:
        self.w = self.add_weight(shape=(shape[-1], self.units), name="w")
        self.u = self.add_weight(shape=(self.units, self.units), name="u")
        self.v = self.add_weight(shape=(self.units, self.units), name="v")

    def call(self, x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        h, m = states
        gate = keras.ops.sigmoid(x @ self.w + h @ self.u)
        m = 0.9 * m + gate * keras.ops.tanh(x @ self.w + m @ self.v)
        return gate * m, [gate * m, m]


CELLS = {
    "GRU": lambda units: keras.layers.GRU(units, return_sequences=True),
    "GRU, reset before": lambda units: keras.layers.GRU(units, return_sequences=True, reset_after=False),
    "LSTM, elu": lambda units: keras.layers.LSTM(units, return_sequences=True, activation="elu"),
    "LSTM": lambda units: keras.layers.LSTM(units, return_sequences=True),
    "LSTM, last": lambda units: keras.layers.LSTM(units),
    "RNN": lambda units: keras.layers.SimpleRNN(units, return_sequences=True),
    "RNN, last": lambda units: keras.layers.SimpleRNN(units),
    "own cell": lambda units: keras.layers.RNN(Cell(units), return_sequences=True),
}
WITH_ALL_SIZES = ("GRU", "LSTM", "LSTM, last")


@dataclass
class Row:
    """One model: microseconds of the official file, of jfuse's, and of each form by its text, "fused" among them."""

    cell: str
    batch: int
    steps: int
    features: int
    units: int
    official_us: float
    jfuse_us: float
    chosen: str
    forms_us: dict[str, float]
    size: LoopSize = field(repr=False)
    fused: FusedSize | None = field(repr=False, default=None)


def main() -> None:
    """Print the table and the constants; with --json write the table as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--cells", nargs="+", choices=list(CELLS), default=list(CELLS))
    arguments = parser.parse_args()
    print(f"{'cell':<18}{'batch':>6}{'steps':>6}{'feat.':>6}{'units':>6}{'official µs':>13}{'jfuse':>15}  forms, µs")
    rows = []
    for cell, batch, steps, features, units in chosen_models(arguments.cells):
        rows.append(measured(cell, batch, steps, features, units))
        print(line(rows[-1]), flush=True)
    constants = fitted(rows)
    for name, value in constants.items():
        in_use = getattr(fused_cost if name in fused_cost.FUSED_CONSTANTS else loop_cost, name)
        print(f"{name:<12} {value:.3g} fitted, {in_use:.3g} in use")
    if arguments.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        table = list(map(asdict, rows))  # with sizes: bench/forms.py compares the model's choice with the times
        report = {"machine": machine, "jfuse": jfuse.__version__, "rows": table, "fitted": constants}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


def chosen_models(cells: Sequence[str]) -> list[tuple[str, int, int, int, int]]:
    """GRU and LSTM at all sizes, the other cells at some."""
    return [(cell, *size) for cell in cells for i, size in enumerate(SIZES) if cell in WITH_ALL_SIZES or i % 4 == 1]


def measured(cell: str, batch: int, steps: int, features: int, units: int) -> Row:
    """All files of one model, measured in turns."""
    keras.utils.set_random_seed(0)
    source = keras.Input((steps, features), batch_size=batch, name="x")
    model = keras.Model(source, CELLS[cell](units)(source))
    x = np.random.default_rng(0).standard_normal((batch, steps, features)).astype(np.float32)
    loaded = jfuse.load(model)
    sizes: list[LoopSize] = []

    def choose(size: LoopSize, room: int) -> LoopSpelling:
        sizes.append(size)
        return loop_cost.fastest(size, room)

    fused = jfuse.lower(loaded)
    sources = {"jfuse": fused.to_bytes(), "official": official(model)}
    loop = file_of(loaded, choose)
    (size,) = sizes
    found = [form for form in MEASURED if is_measured(form, size)]
    of_forms = {short(form): file_of(loaded, lambda size, room, form=form: form) for form in found}
    of_forms |= {"fused": sources["jfuse"]} if loop != sources["jfuse"] else {}
    # The two by themselves: the files of all forms together would empty each other's cache.
    times = percentiles_us({name: invoker(data, x) for name, data in sources.items()})
    times |= percentiles_us({name: invoker(data, x) for name, data in of_forms.items()})
    ops = [eqn for eqn in fused.signature().graph.eqns if keeps_state(eqn)]
    fused_size = FusedSize.of(ops[0]) if ops else None
    chosen = "fused" if ops else short(loop_cost.fastest(size, loop_cost.MAX_OPERATORS))
    forms = {name: times[name] for name in of_forms}
    return Row(cell, batch, steps, features, units, times["official"], times["jfuse"], chosen, forms, size, fused_size)


def is_measured(form: LoopSpelling, size: LoopSize) -> bool:
    """Whether a form makes sense at all at a size."""
    steps = size.steps if form.unrolled else form.steps
    several_turns = form.unrolled or 2 * max(steps, form.block) <= size.steps
    return several_turns and (steps == 1 or steps * size.weights <= MOST_BYTES)


def file_of(model: jfuse.Model, choose: Any) -> bytes:
    """The file in which each loop has the form that `choose` says, and nothing is fused."""

    def unlooped(graph: Graph, ctx: Context) -> Graph:
        return scan_to_loops(graph, ctx, choose)

    passes = tuple(unlooped if step.__name__ == scan_to_loops.__name__ else step for step in PIPELINE)
    return jfuse.lower(model, passes=passes, recover=False).to_bytes()


def official(model: keras.Model) -> bytes:
    """The official converter's file."""
    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it saves
        return bytes(tf.lite.TFLiteConverter.from_keras_model(model).convert())


def invoker(data: bytes, x: np.ndarray) -> Interpreter:
    """An interpreter that has its input."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    return interpreter


def percentiles_us(interpreters: dict[str, Interpreter]) -> dict[str, float]:
    """The 10th percentile of the time of one invoke in microseconds, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in interpreters}
    end = time.perf_counter() + SECONDS
    while time.perf_counter() < end or min(map(len, times.values())) < 20:
        for name, interpreter in interpreters.items():
            started = time.perf_counter()
            interpreter.invoke()
            times[name].append(time.perf_counter() - started)
    return {name: 1e6 * float(np.percentile(found, 10)) for name, found in times.items()}


def line(row: Row) -> str:
    """A row of the table."""
    forms = "  ".join(f"{name} {us:.0f}" for name, us in row.forms_us.items())
    ratio = f"{row.jfuse_us:.0f} ({row.official_us / row.jfuse_us:.2f}x)"
    start = f"{row.cell:<18}{row.batch:>6}{row.steps:>6}{row.features:>6}{row.units:>6}{row.official_us:>13.0f}"
    return f"{start}{ratio:>15}  {forms}; chosen: {row.chosen}"


def short(form: LoopSpelling) -> str:
    """A form in one word: x4 are four steps a turn, /24 blocks of 24 steps."""
    return "unrolled" if form.unrolled else f"x{form.steps}" + (f"/{form.block}" if form.block else "")


def fitted(rows: Sequence[Row]) -> dict[str, float]:
    """The constants of the cost models that fit the measured forms best."""
    features, times, owners = [], [], []
    for number, row in enumerate(rows):
        for form in MEASURED:
            # Operators beyond the near cache are left out of the model: such forms are never chosen.
            if short(form) in row.forms_us and abreast(form, row.size) <= loop_cost.NEAR_OPERATORS:
                features.append(row.size.features(form))
                times.append(row.forms_us[short(form)])
                owners.append(number)
    matrix, own = np.array(features), np.eye(len(rows))[owners]
    weights = 1 / np.array(times)[:, None]  # relative errors count
    both = np.hstack([matrix, own]) * weights
    solution = np.linalg.lstsq(both, np.ones(len(times)), rcond=None)[0]
    work = np.array([row.size.work() for row in rows])
    own_us = solution[matrix.shape[1] :]
    rates = np.linalg.lstsq(work / own_us[:, None], np.ones(len(rows)), rcond=None)[0]
    names = (*loop_cost.FORM_CONSTANTS, *loop_cost.WORK_CONSTANTS)
    found = dict(zip(names, map(float, (*solution[: matrix.shape[1]], *rates)), strict=True))
    return found | fitted_to_fused([row for row in rows if row.fused is not None])


def fitted_to_fused(rows: Sequence[Row]) -> dict[str, float]:
    """The constants of the cost of fused operators."""
    if not rows:
        return {}
    matrix = np.array([row.fused.features() for row in rows if row.fused is not None])
    times = np.array([row.forms_us["fused"] for row in rows])
    rates = np.linalg.lstsq(matrix / times[:, None], np.ones(len(rows)), rcond=None)[0]
    return dict(zip(fused_cost.FUSED_CONSTANTS, map(float, rates), strict=True))


def abreast(form: LoopSpelling, size: LoopSize) -> int:
    """How many operators stand side by side."""
    return size.operators * (size.steps if form.unrolled else form.steps)


if __name__ == "__main__":
    main()
