"""LiteRT latency of recurrent models: jfuse's file against the official converter's, ratio by ratio in one run.

    python -m bench.recurrent [--json bench/results/recurrent.json] [-k SUBSTRING] [--rounds 200] [--prefer speed]

Batch 1, one thread. Both converters read one SavedModel with a fixed batch. The two files take turns, some invokes
each, and a ratio is taken in each round; their median does not depend on how busy the machine is. A file is right where
it answers like TensorFlow; what a file keeps between invokes by mistake shows in the second one. The official converter
runs in a process of its own, as it takes the process down on some models.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import math
import multiprocessing
import os
import platform
import statistics
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.base.measure import relative_error
from jfuse.proof.inputs import draw
from jfuse.running.interpreter import LiteRt
from jfuse.verification.runners.in_tensorflow import run_tensorflow
from tests.models.recurrences.recurrent_keras import Layers, bidirectional, embedded, layer, masked
from tests.models.recurrences.recurrent_keras_lstm import encoder_decoder, mixed_cells, rnn_of_cells
from tests.models.recurrences.recurrent_lstm_variants import Variant, concatenated
from tests.models.recurrences.recurrent_shells import Cell, Random, Shell
from tests.models.recurrences.recurrent_unknown import gru_before, highway, light_gru, minimal_gated_unit, sru
from tests.models.recurrences.recurrent_written import simple_cell

RIGHT = 1e-4  # the official converter need not sum in TensorFlow's order
FUSED = ("UNIDIRECTIONAL_SEQUENCE_", "BIDIRECTIONAL_SEQUENCE_", "LSTM", "RNN", "SVDF")


@dataclass(frozen=True)
class Model:
    """One model. save: writes a SavedModel with a fixed batch into a folder. units: what the targets go by."""

    name: str
    family: str
    units: int
    save: Callable[[Path], Path]
    options: Mapping[str, Any]


@dataclass(frozen=True)
class Result:
    """Measurements of one model; None where the official converter makes no file."""

    name: str
    family: str
    units: int
    operators: str
    official_operators: str | None
    us: float
    official_us: float | None
    ratio: float | None
    right: tuple[bool, bool]
    official_right: tuple[bool, bool] | None
    target: float | None

    @property
    def below(self) -> bool:
        """Whether the ratio misses its target; half a microsecond does not count."""
        if self.ratio is None or self.target is None or self.official_us is None:
            return False
        return self.ratio < self.target and self.us > self.official_us / self.target + 0.5


def keras_model(wire: Any, library: str, steps: int, features: int, **sizes: Any) -> Callable[[Path], Path]:
    """Saves a Keras model."""

    def save(folder: Path) -> Path:
        from tests.models.sources import exported, saved

        model = Layers(wire, batch=1, steps=steps, features=(features,), **sizes).build(library)
        # Of a Keras 3 model that `tf.saved_model.save` wrote the official converter makes a file that does not run.
        return (exported if library == "keras" else saved)(model, folder)

    return save


def written(make: Callable[[Random], Cell], form: str, steps: int, features: int, units: int) -> Callable[[Path], Path]:
    """Saves a loop written by hand."""

    def save(folder: Path) -> Path:
        import tensorflow as tf

        module = tf.Module()
        function = Shell(form, batch=1, steps=steps).function(make(Random(0, features, units)), features)
        module.variables_of_cell = list(function.get_concrete_function().variables)
        tf.saved_model.save(module, str(folder), signatures={"serving_default": function})
        return folder

    return save


def models() -> Iterable[Model]:
    """All models: layers by size, then uses and cells at one size each."""
    for steps, features, units in ((20, 8, 16), (50, 16, 32), (50, 32, 64), (100, 64, 128), (100, 64, 256)):
        at = f"t{steps}-i{features}-u{units}"
        for library in ("keras", "tf_keras"):
            for kind in ("LSTM", "GRU", "SimpleRNN"):
                save = keras_model(layer(kind, units, return_sequences=True), library, steps, features)
                yield Model(f"{library}-{kind.lower()}-{at}", kind.lower(), units, save, {})
        save = keras_model(bidirectional("LSTM", units, return_sequences=True), "keras", steps, features)
        yield Model(f"keras-bilstm-{at}", "lstm", units, save, {})
    yield from _uses(50, 16, 32)
    yield from _written(50, 16, 32)


def _uses(steps: int, features: int, units: int) -> Iterable[Model]:
    of = partial(keras_model, library="keras", steps=steps, features=features)
    states = ((units,), (units,))
    table: dict[str, tuple[str, Callable[[Path], Path], dict[str, Any]]] = {
        "lstm-last": ("lstm", of(layer("LSTM", units)), {}),
        "lstm-states": ("lstm", of(layer("LSTM", units, return_state=True)), {}),
        "lstm-go_backwards": ("lstm", of(layer("LSTM", units, go_backwards=True)), {}),
        "lstm-unroll": ("lstm", of(layer("LSTM", units, unroll=True)), {}),
        "lstm-no_bias": ("lstm", of(layer("LSTM", units, use_bias=False)), {}),
        "lstm-relu": ("lstm", of(layer("LSTM", units, activation="relu")), {}),
        "lstm-hard_sigmoid": ("loop", of(layer("LSTM", units, recurrent_activation="hard_sigmoid")), {}),
        "lstm-initial_states": ("lstm", of(layer("LSTM", units), extra=states), {}),
        "lstm-masked": ("loop", of(masked("LSTM", units)), {}),
        "lstm-masked-right": ("lstm", of(masked("LSTM", units)), {"padding": "right"}),
        "lstm-ids": ("lstm", of(embedded("LSTM", units, mask_zero=False), vocabulary=20), {}),
        "encoder_decoder": ("other", of(encoder_decoder, extra=((20, 8),)), {}),
        "rnn_of_cells": ("other", of(rnn_of_cells), {}),
        "mixed_cells": ("other", of(mixed_cells), {}),
        "gru-last": ("gru", of(layer("GRU", units)), {}),
        "gru-reset_before": ("gru", of(layer("GRU", units, reset_after=False, return_sequences=True)), {}),
        "gru-unroll": ("gru", of(layer("GRU", units, unroll=True, return_sequences=True)), {}),
        "gru-bidirectional": ("gru", of(bidirectional("GRU", units, return_sequences=True)), {}),
        "gru-masked": ("loop", of(masked("GRU", units)), {}),
        "rnn-relu": ("simplernn", of(layer("SimpleRNN", units, activation="relu")), {}),
        "birnn": ("simplernn", of(bidirectional("SimpleRNN", units, return_sequences=True)), {}),
        "bilstm-last": ("lstm", of(bidirectional("LSTM", units)), {}),
        "bilstm-sum": ("lstm", of(bidirectional("LSTM", units, merge="sum", return_sequences=True)), {}),
    }
    for name, (family, save, options) in table.items():
        yield Model(f"keras-{name}", family, 4 if family == "other" else units, save, options)


def _written(steps: int, features: int, units: int) -> Iterable[Model]:
    table: dict[str, tuple[str, Callable[[Random], Cell], str]] = {
        "lstm": ("lstm", Variant(order="foig").of, "while"),
        "lstm-concatenated": ("lstm", Variant(concatenated).of, "indexed"),
        "lstm-scan": ("lstm", Variant().of, "scan"),
        "lstm-unrolled": ("lstm", Variant().of, "unrolled"),
        "lstm-peephole": ("lstm", Variant(peephole=True).of, "while"),
        "lstm-projection": ("lstm", Variant(projection=units // 2).of, "while"),
        "lstm-clip": ("lstm", Variant(cell_clip=1.0).of, "while"),
        "lstm-coupled": ("lstm", Variant(order="fgo").of, "while"),
        "lstm-layer_norm": ("lstm", Variant(bias=False, norm=1e-8).of, "while"),
        "lstm-layer_norm_1e-3": ("loop", Variant(bias=False, norm=1e-3).of, "while"),
        "lstm-diagonal": ("lstm", Variant(diagonal=True).of, "while"),
        "rnn": ("simplernn", simple_cell(), "while"),
        "gru": ("gru", gru_before, "while"),
        "minimal_gated_unit": ("loop", minimal_gated_unit, "while"),
        "light_gru": ("loop", light_gru, "while"),
        "sru": ("loop", sru, "while"),
        "highway": ("loop", highway, "scan"),
    }
    for name, (family, make, form) in table.items():
        yield Model(f"written-{name}", family, units, written(make, form, steps, features, units), {})


def official(folder: str) -> bytes:
    """The official converter's file."""
    import tensorflow as tf

    with contextlib.redirect_stdout(io.StringIO()):  # it prints what it saves
        return bytes(tf.lite.TFLiteConverter.from_saved_model(folder).convert())


class Official:
    """The official converter in a process that may die."""

    def __init__(self) -> None:
        self._pool: ProcessPoolExecutor | None = None

    def convert(self, folder: Path) -> bytes | None:
        """The file, or None where it refuses or crashes."""
        found = self.run(official, str(folder))
        return None if isinstance(found, str) else found

    def run(self, convert: Callable[..., bytes], *arguments: Any) -> bytes | str:
        """Run a converter in the other process; return its file, or the reason why there is none."""
        if self._pool is None:
            self._pool = ProcessPoolExecutor(1, multiprocessing.get_context("spawn"))
        try:
            return self._pool.submit(convert, *arguments).result(timeout=300)
        except BrokenProcessPool:
            self._pool = None
            return "ends its process"
        except Exception as error:  # it raises what it likes
            return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]

    def close(self) -> None:
        """End the process."""
        if self._pool is not None:
            self._pool.shutdown()


def operators(data: bytes) -> str:
    """The recurrent operators and loops of a file, else the number of its operators."""
    model = schema.Model.GetRootAs(data, 0)
    names = {number: name for name, number in vars(schema.BuiltinOperator).items() if not name.startswith("_")}
    counts = Counter[str]()
    total = 0
    for graph in (model.Subgraphs(i) for i in range(model.SubgraphsLength())):
        total += graph.OperatorsLength()
        for i in range(graph.OperatorsLength()):
            name = names[model.OperatorCodes(graph.Operators(i).OpcodeIndex()).BuiltinCode()]
            counts[name] += name == "WHILE" or name.startswith(FUSED)
    found = " + ".join(f"{n} {name}" if n > 1 else name for name, n in sorted(counts.items()) if n)
    return found.replace("DIRECTIONAL_SEQUENCE", "") or f"{total} operators"


def invoker(data: bytes, inputs: Mapping[str, np.ndarray]) -> Callable[[int], float]:
    """A function that invokes a file some times, and gives the seconds that one takes."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    runner = interpreter.get_signature_runner("serving_default")
    runner(**inputs)  # sizes tensors and fills the inputs, which stay as they are

    def invoke(count: int) -> float:
        started = time.perf_counter()
        for _ in range(count):
            interpreter.invoke()
        return (time.perf_counter() - started) / count

    return invoke


def in_turns(calls: Sequence[Callable[[int], float]], rounds: int) -> tuple[list[float], float]:
    """The median microseconds of each, and the median of the ratios of the last to the first, round by round."""
    # Turns of half a millisecond: short enough to be interrupted seldom, and long enough for the clock.
    counts = [max(1, int(0.0005 / min(call(1) for _ in range(5)))) for call in calls]
    found = [[call(count) for call, count in zip(calls, counts, strict=True)] for _ in range(rounds)]
    medians = [1e6 * statistics.median(column) for column in zip(*found, strict=True)]
    return medians, statistics.median(row[-1] / row[0] for row in found)


def is_right(
    data: bytes, inputs: Sequence[Mapping[str, np.ndarray]], wanted: Sequence[Mapping[str, np.ndarray]]
) -> tuple[bool, bool]:
    """Whether the first and the second invoke answer like TensorFlow."""
    runtime = LiteRt(data)
    found = [runtime.run("serving_default", x) for x in inputs]
    first, second = (
        all(relative_error(f[name], w[name]) <= RIGHT for name in w) for f, w in zip(found, wanted, strict=True)
    )
    return first, second


def target(model: Model, theirs: str, right: tuple[bool, bool]) -> float | None:
    """The least ratio that is asked for; None where there is nothing to beat."""
    if "WHILE" not in theirs and "LSTM" in theirs:
        return 1 / 1.1  # the op without its reset
    if not all(right):
        return None
    if model.family == "lstm" and model.units <= 64 and "WHILE" in theirs:
        return 4.0
    return 1.5 if model.family == "gru" and model.units <= 128 else 1.0


def measure(model: Model, converter: Official, folder: Path, rounds: int, prefer: Any) -> Result:
    """One model through both converters. prefer: as jfuse.convert has it."""
    saved = model.save(folder / "model")
    lite = jfuse.convert(
        saved,
        jfuse.Inputs(signatures=["serving_default"]),
        verify=False,
        **{"prefer": prefer, **model.options},
    )
    assert lite.imported is not None
    (signature,), function = lite.program.signatures, lite.imported.functions["serving_default"]
    types = [(name, var.type) for name, var in zip(signature.input_names, signature.graph.inputs, strict=False)]
    rng = np.random.default_rng(0)
    inputs = [{name: draw(rng, t, {}, 1.0, 20) for name, t in types} for _ in range(2)]
    wanted = [run_tensorflow(function, x) for x in inputs]
    ours, theirs = lite.to_bytes(), converter.convert(saved)
    common = (model.name, model.family, model.units, operators(ours))
    right = is_right(ours, inputs, wanted)
    if theirs is None:
        (us,), _ = in_turns([invoker(ours, inputs[0])], rounds)
        return Result(*common, None, us, None, None, right, None, None)
    calls = [invoker(data, inputs[0]) for data in (ours, theirs)]
    (us, official_us), ratio = in_turns(calls, rounds)
    official_right = is_right(theirs, inputs, wanted)
    goal = target(model, operators(theirs), official_right)
    return Result(*common, operators(theirs), us, official_us, ratio, right, official_right, goal)


def geometric_mean(ratios: Sequence[float]) -> float:
    """Of one ratio at least."""
    return math.exp(statistics.fmean(map(math.log, ratios)))


def line(result: Result) -> str:
    """One row of the table."""
    judged = {None: "", (True, True): "right", (True, False): "wrong on invoke 2"}
    theirs = judged.get(result.official_right, "wrong")
    ratio = "" if result.ratio is None else f"{result.ratio:.2f}x"
    official_us = "" if result.official_us is None else f"{result.official_us:.1f}"
    mark = " <" if result.below else ""
    return (
        f"{result.name:<32}{result.us:>9.1f}{official_us:>10}{ratio:>9}{mark:<3}{result.operators:<28}"
        f"{result.official_operators or 'does not convert':<28}{theirs:<18}{'' if all(result.right) else 'WRONG'}"
    )


def summary(results: Sequence[Result]) -> dict[str, float | int]:
    """Geometric means of the ratios, over all files and over those that are right on every invoke, and counts."""
    compared = [r for r in results if r.ratio is not None]
    right = [r for r in compared if r.official_right and all(r.official_right)]
    found: dict[str, float | int] = {
        "models": len(results),
        "official_converts": len(compared),
        "official_right": len(right),
        "below_target": sum(r.below for r in results),
    }
    for name, rows in (("geometric_mean", compared), ("geometric_mean_where_right", right)):
        if rows:
            found[name] = geometric_mean([r.ratio for r in rows if r.ratio is not None])
    return found


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", default="", help="only models whose names hold this")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--prefer", choices=["fused", "speed"], default="fused", help="as jfuse.convert has it")
    arguments = parser.parse_args()
    print(f"{'model':<32}{'jfuse µs':>9}{'official':>10}{'ratio':>9}   {'jfuse':<28}{'official':<28}official is")
    converter, results = Official(), []
    for model in models():
        if arguments.k in model.name:
            with tempfile.TemporaryDirectory() as folder:
                results.append(measure(model, converter, Path(folder), arguments.rounds, arguments.prefer))
            print(line(results[-1]), flush=True)
    converter.close()
    found = summary(results)
    print(
        "\n".join(
            f"{name}: {value:.2f}" if isinstance(value, float) else f"{name}: {value}" for name, value in found.items()
        )
    )
    if arguments.json:
        machine = f"{platform.machine()}, {os.cpu_count()} cores"
        rows = [{**asdict(r), "below": r.below} for r in results]
        report = {"machine": machine, "jfuse": jfuse.__version__, "summary": found, "rows": rows}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
