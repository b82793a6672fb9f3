"""LiteRT's time of recurrences in each form: fused, straight code, and WHILE with one or several steps a turn.

    python -m bench.loops FILE.json [--rows held_out|linear] [--cells GRU RNN] [--again]

One thread, XNNPACK as it comes, random input, fixed shapes. The files of a recurrence take turns of some calls in a
row, so that a noisy machine disturbs them alike; figures are 10th percentiles of the calls. Each is taken twice, in two
halves of the turns: `again_us` beside `forms_us` tells what the machine adds by itself.

Rows are measured in an order drawn by chance and written every minute, so that a run that is ended has some of all
sizes. Rows that the file has already stay; with --again each form keeps the lesser of two times, as whatever else the
machine does only adds to it. The rows of the grid are what the cost models are made of (`python -m bench.forms
--write`), those held out are others, of sizes and cells in between, by which the choice is judged (`python -m
bench.forms`). Linear recurrences (`bench/results/loops_linear.json`) have forms of their own; a test judges their
choice.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.ir.graph import Graph
from jfuse.kernels.control import while_
from jfuse.opaque_ops.state_operands import keeps_state
from jfuse.passes.context import Context
from jfuse.passes.fuse.profitability import plain_microseconds
from jfuse.passes.options import FUSED
from jfuse.passes.scans.to_loops.fused_cost import FusedSize
from jfuse.passes.scans.to_loops.loop_cost import FORMS, LoopSize, LoopSpelling, Room
from jfuse.passes.scans.to_loops.scan_to_loops import scan_to_loops

MOST_BYTES = 12 << 20  # weights of steps side by side in a file that is measured
MANY = 100_000  # operators: more than any file here has

WRITE_S = 60.0
SECONDS = 0.12  # of calls for each file
TURN_S = 0.006  # of calls in a row: of most files several, of which the first finds the memory of another in the cache
LEAST_TURNS = 6

Model = tuple[str, int, int, int, int]
"""Cell, batch, steps, features, units."""


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


class Linear(keras.layers.Layer):
    """A step h' = a h + x, where a is a constant for each unit, or a gate on the input."""

    def __init__(self, units: int, *, gated: bool, **options: Any) -> None:
        super().__init__(**options)
        self.units = self.state_size = self.output_size = units
        self.decay = None if gated else np.linspace(0.5, 0.99, units, dtype=np.float32)

    def call(self, x: Any, states: Sequence[Any]) -> tuple[Any, list[Any]]:
        factor = keras.ops.sigmoid(x) if self.decay is None else self.decay
        h = factor * states[0] + x
        return h, [h]


LINEAR = {
    "decay": lambda units: keras.layers.RNN(Linear(units, gated=False), return_sequences=True),
    "gate on the input": lambda units: keras.layers.RNN(Linear(units, gated=True), return_sequences=True),
}
"""Linear recurrences, which have forms without a loop; `--rows linear` measures them."""
CELLS = {
    "GRU": lambda units: keras.layers.GRU(units, return_sequences=True),
    "GRU, last": lambda units: keras.layers.GRU(units),
    "GRU, reset before": lambda units: keras.layers.GRU(units, return_sequences=True, reset_after=False),
    "LSTM, elu": lambda units: keras.layers.LSTM(units, return_sequences=True, activation="elu"),
    "LSTM": lambda units: keras.layers.LSTM(units, return_sequences=True),
    "LSTM, last": lambda units: keras.layers.LSTM(units),
    "RNN": lambda units: keras.layers.SimpleRNN(units, return_sequences=True),
    "RNN, last": lambda units: keras.layers.SimpleRNN(units),
    "own cell": lambda units: keras.layers.RNN(Cell(units), return_sequences=True),
}


@dataclass
class Row:
    """One recurrence: microseconds of the file in each form by its word, "fused" among them.

    around_us: what the operators before and after the loop take of them by the cost model.
    """

    cell: str
    batch: int
    steps: int
    features: int
    units: int
    around_us: float
    forms_us: dict[str, float]
    again_us: dict[str, float]
    size: LoopSize = field(repr=False)
    fused: FusedSize | None = field(repr=False, default=None)

    @property
    def model(self) -> Model:
        """The measured model."""
        return self.cell, self.batch, self.steps, self.features, self.units

    def merged(self, before: Row | None) -> Row:
        """The row with the lesser of two times of each form."""
        if before is None:
            return self
        first, second = (
            {form: min(us, old.get(form, us)) for form, us in new.items()}
            for new, old in ((self.forms_us, before.forms_us), (self.again_us, before.again_us))
        )
        return replace(self, forms_us=first, again_us=second)

    @classmethod
    def read(cls, row: dict[str, Any]) -> Row:
        """A row as the file has it."""
        fused = None if row["fused"] is None else FusedSize(**row["fused"])
        return cls(**{**row, "size": LoopSize(**row["size"]), "fused": fused})


def grid() -> Iterator[Model]:
    """The recurrences from which the cost models are made."""
    for cell in ("GRU", "LSTM", "LSTM, last", "RNN", "own cell", "RNN, last", "GRU, last"):
        for units in (8, 16, 32, 64, 128, 256, 512):
            yield from ((cell, 1, steps, 32, units) for steps in (5, 10, 20, 35, 50, 70, 100, 140, 200))
        yield from ((cell, 8, steps, 32, units) for units in (16, 64, 256) for steps in (10, 50, 200))
        # Where the weights of steps side by side leave the second cache, and where a batch does.
        yield from ((cell, 1, steps, 32, units) for units in (96, 192, 384) for steps in (10, 35, 100, 200))
        yield from ((cell, 4, steps, 32, units) for units in (32, 96, 192) for steps in (20, 70, 150))
    yield from (("GRU", 1, steps, 32, units) for steps in (400, 1000) for units in (16, 64, 256))
    # Of few features the product that other forms do before the loop is cheap beside a fused operator's matrices.
    for cell in ("RNN", "RNN, last", "LSTM", "LSTM, last", "GRU"):
        lengths = (10, 20, 35, 50, 70, 100, 140, 200)
        yield from ((cell, 1, steps, 8, units) for units in (8, 16, 32) for steps in lengths)


def held_out(count: int = 64) -> Iterator[Model]:
    """Recurrences of 8 to 512 units and 5 to 200 steps, drawn evenly in the logarithm, of all cells."""
    rng = np.random.default_rng(7)
    for number in range(count):
        units, steps = (round(float(np.exp(rng.uniform(np.log(a), np.log(b))))) for a, b in ((8, 512), (5, 200)))
        yield list(CELLS)[number % len(CELLS)], int(rng.choice([1, 1, 1, 4])), steps, int(rng.choice([8, 40])), units


def linear() -> Iterator[Model]:
    """Linear recurrences of as many features as units."""
    for cell in LINEAR:
        yield from ((cell, 1, steps, units, units) for units in (8, 64, 256) for steps in (16, 64, 128, 512))
        yield from ((cell, 8, steps, 32, 32) for steps in (32, 256))


ROWS = {"grid": grid, "held_out": held_out, "linear": linear}


def main() -> None:
    """Print a line for each recurrence, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("json", type=Path)
    parser.add_argument("--rows", choices=list(ROWS), default="grid")
    parser.add_argument("--kind", default=platform.machine(), help="the kind of machine, as the file names it")
    parser.add_argument("--cells", nargs="+", choices=[*CELLS, *LINEAR], default=[*CELLS, *LINEAR])
    parser.add_argument("--again", action="store_true", help="measure rows that the file has once more")
    arguments = parser.parse_args()
    known = json.loads(arguments.json.read_text())["rows"] if arguments.json.exists() else []
    rows = {row.model: row for row in map(Row.read, known)}
    wanted = [m for m in ROWS[arguments.rows]() if m[0] in arguments.cells and (arguments.again or m not in rows)]
    written = time.monotonic()
    for number, place in enumerate(np.random.default_rng(0).permutation(len(wanted)), 1):
        row = measured(*wanted[place])
        print(line(row), flush=True)
        rows[row.model] = row.merged(rows.get(row.model))
        if number == len(wanted) or time.monotonic() > written + WRITE_S:
            write(arguments.json, arguments.kind, rows)
            written = time.monotonic()


def write(path: Path, kind: str, rows: dict[Model, Row]) -> None:
    """Write the table, in the order of `ROWS`."""
    ordered = [rows[model] for models in ROWS.values() for model in models() if model in rows]
    report = {"machine": kind, "jfuse": jfuse.__version__, "rows": list(map(asdict, ordered))}
    path.write_text(json.dumps(report) + "\n")


def measured(cell: str, batch: int, steps: int, features: int, units: int) -> Row:
    """All forms of one recurrence, measured in turns."""
    keras.backend.clear_session()
    keras.utils.set_random_seed(0)
    source = keras.Input((steps, features), batch_size=batch, name="x")
    loaded = jfuse.load(keras.Model(source, {**CELLS, **LINEAR}[cell](units)(source)))
    x = np.random.default_rng(0).standard_normal((batch, steps, features)).astype(np.float32)
    sizes: list[LoopSize] = []
    single = in_form(loaded, lambda size, room: sizes.append(size) or LoopSpelling())
    (size,) = sizes
    around = sum(plain_microseconds(eqn) for eqn in single.signature().graph.eqns if eqn.op is not while_)
    found = [form for form in FORMS if is_measured(form, size)]
    files = {form.short: in_form(loaded, lambda size, room, form=form: form).to_bytes() for form in found}
    fused = jfuse.lower(loaded)
    ops = [eqn for eqn in fused.signature().graph.eqns if keeps_state(eqn)]
    if ops:
        files[FUSED] = fused.to_bytes()
    first, second = percentiles_us({name: invoker(data, x) for name, data in files.items()})
    fused_size = FusedSize.of(ops[0]) if ops else None
    return Row(cell, batch, steps, features, units, around, first, second, size, fused_size)


def is_measured(form: LoopSpelling, size: LoopSize) -> bool:
    """Whether a form makes sense at all at a size."""
    return size.allows(form, Room(operators=MANY, abreast=MANY, bytes=MOST_BYTES))


def in_form(model: jfuse.Model, choose: Any) -> jfuse.Model:
    """The model in which each loop has the form that `choose` says, and nothing is fused."""

    def unlooped(graph: Graph, ctx: Context) -> Graph:
        return scan_to_loops(graph, ctx, choose)

    instead = jfuse.rewrites(instead=scan_to_loops.__name__, trust=True, changes=True, default=False)  # not compared
    return jfuse.lower(model, pipeline=jfuse.Pipeline(passes=[instead(unlooped)]), forms=jfuse.Forms(recover=False))


def invoker(data: bytes, x: np.ndarray) -> Interpreter:
    """An interpreter that has its input."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    interpreter.allocate_tensors()
    interpreter.set_tensor(interpreter.get_input_details()[0]["index"], x)
    return interpreter


def percentiles_us(interpreters: dict[str, Interpreter]) -> tuple[dict[str, float], dict[str, float]]:
    """The 10th percentile of the time of one call in microseconds, of the odd turns and of the even ones."""
    halves: tuple[dict[str, list[float]], ...] = ({name: [] for name in interpreters}, {n: [] for n in interpreters})
    end = time.perf_counter() + SECONDS * len(interpreters)
    turns = 0
    while time.perf_counter() < end or turns < LEAST_TURNS:
        for name, interpreter in interpreters.items():
            halves[turns % 2][name] += turn(interpreter)
        turns += 1
    first, second = ({n: 1e6 * float(np.percentile(t, 10)) for n, t in times.items()} for times in halves)
    return first, second


def turn(interpreter: Interpreter) -> list[float]:
    """The seconds of each call of some in a row, the first of which is not counted."""
    interpreter.invoke()
    found: list[float] = []
    while sum(found) < TURN_S or len(found) < 2:
        started = time.perf_counter()
        interpreter.invoke()
        found.append(time.perf_counter() - started)
    return found


def line(row: Row) -> str:
    """A row of the table."""
    forms = "  ".join(f"{name} {us:.0f} {row.again_us[name] / us - 1:+.0%}" for name, us in row.forms_us.items())
    return f"{row.cell:<18}{row.batch:>3}{row.steps:>5}{row.features:>4}{row.units:>5}  {forms}"


if __name__ == "__main__":
    main()
