"""Samples per second in verification: XLA, LiteRT with one process per core, and TensorFlow, in one run.

    python -m bench.verify [--json bench/results/verify.json] [-k SUBSTRING ...] [--rounds 5]

Float32, random inputs. XLA runs jfuse's file over many samples (`jfuse.running.over_samples`), TensorFlow the
Keras model with a batch; each at the batch size that is the fastest per sample, which is tried first. XLA always gets
as many samples as two of the largest batches on every core, so that batches follow each other as in a verification.
LiteRT runs the file one sample at a time in as many processes as there are cores, one thread each. The three take
turns; wall times
are the least of all rounds, ratios are taken in each round and their median given. Beside them stands the processor
time of one sample, of which a machine that is busy with other things takes less notice: for LiteRT one interpreter in
this process. Answers of all three are compared, once.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import jax
import keras
import numpy as np
import tensorflow as tf
from keras import layers

import jfuse
from jfuse.measure import relative_error
from jfuse.running.cores import cores
from jfuse.running.interpreter import LiteRt
from jfuse.running.over_samples import OverSamples
from jfuse.verification.runners.litert_workers import LiteRtWorkers

SMALL = (64, 128, 256, 1024, 4096)
LARGE = (4, 8, 16, 64, 256)
TRIES = 3
ALIKE = 1e-4  # a convolutional network's tolerance; the recurrent ones are 1e-6 apart


@dataclass(frozen=True)
class Model:
    """A Keras model with an open batch. sizes: the batch sizes to try."""

    name: str
    make: Callable[[], keras.Model]
    sizes: Sequence[int]


def sequence(steps: int, features: int, layer: Callable[[], Any]) -> Callable[[], keras.Model]:
    """A model of one layer over sequences."""

    def make() -> keras.Model:
        source = keras.Input((steps, features))
        return keras.Model(source, layer()(source))

    return make


def mlp() -> keras.Model:
    """64 to 256 to 256 to 10."""
    source = keras.Input((64,))
    hidden = layers.Dense(256, activation="relu")(layers.Dense(256, activation="relu")(source))
    return keras.Model(source, layers.Dense(10)(hidden))


def mobilenet() -> keras.Model:
    """MobileNetV2 of 0.35, with the moments of a forward pass, so that answers differ from input to input."""
    model = keras.applications.MobileNetV2(
        (96, 96, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.0
    model(np.random.default_rng(1).standard_normal((16, 96, 96, 3)).astype(np.float32), training=True)
    return model


MODELS = (
    Model("MLP 64-256-256-10", mlp, SMALL),
    Model("MobileNetV2 0.35, 96x96", mobilenet, LARGE),
    Model("LSTM 16, 20 steps", sequence(20, 8, lambda: layers.LSTM(16, return_sequences=True)), SMALL),
    Model("LSTM 64, 50 steps", sequence(50, 32, lambda: layers.LSTM(64, return_sequences=True)), SMALL),
    Model("LSTM 512, 100 steps", sequence(100, 64, lambda: layers.LSTM(512, return_sequences=True)), LARGE[2:]),
    Model(
        "BiLSTM 32, 50 steps",
        sequence(50, 16, lambda: layers.Bidirectional(layers.LSTM(32, return_sequences=True))),
        SMALL,
    ),
    Model("RNN 64, 50 steps", sequence(50, 32, lambda: layers.SimpleRNN(64, return_sequences=True)), SMALL),
    Model("GRU loop 128, 50 steps", sequence(50, 32, lambda: layers.GRU(128, return_sequences=True)), SMALL),
)


@dataclass(frozen=True)
class Side:
    """One runner. run: computes samples in batches of a size. sizes: those to try. samples: how many; None: a batch."""

    name: str
    run: Callable[[np.ndarray, int], Any]
    sizes: Sequence[int]
    samples: int | None = None

    def clocked(self, draw: np.ndarray, size: int) -> tuple[float, float]:
        """Seconds, and seconds of the processor in this process, for each sample."""
        x = draw[: self.samples or size]
        started, busy = time.perf_counter(), time.process_time()
        self.run(x, size)
        return (time.perf_counter() - started) / len(x), (time.process_time() - busy) / len(x)

    def fastest(self, draw: np.ndarray) -> int:
        """The size with the least seconds of the processor for each sample; the wall's tell more of other programs."""
        return min(self.sizes, key=lambda n: min(self.clocked(draw, n)[1] for _ in range(1 + TRIES)))


@dataclass(frozen=True)
class Row:
    """What was measured of one model: microseconds for one sample, and how often XLA is as fast as the others."""

    name: str
    error: float
    batch: dict[str, int]
    us: dict[str, float]
    processor_us: dict[str, float]
    per_litert: float
    per_tensorflow: float


def measure(model: Model, rounds: int) -> Row:
    """One row."""
    keras.utils.set_random_seed(0)
    source = model.make()
    shape = tuple(source.inputs[0].shape[1:])
    draw = np.random.default_rng(0).standard_normal((2 * max(model.sizes) * cores(), *shape)).astype(np.float32)
    fixed = keras.Input(shape, batch_size=1)
    data = jfuse.convert(keras.Model(fixed, source(fixed)), verify=False)
    (name,), key = data.signature().input_names, data.signature().key
    workers, alone = LiteRtWorkers(data.to_bytes()), LiteRt(data.to_bytes())
    function = tf.function(
        lambda x: source(x, training=False), input_signature=[tf.TensorSpec((None, *shape), tf.float32)]
    )
    programs = {n: OverSamples.of(data.jax(), most=n) for n in model.sizes}
    sides = [
        Side("xla", lambda x, n: programs[n]([x[:, None]])[0], model.sizes, len(draw)),
        Side("litert", lambda x, _: workers.run({name: x[:, None]}, key), [64 * cores()]),
        Side("tensorflow", lambda x, _: function(tf.constant(x)).numpy(), model.sizes),
    ]
    few = draw[: min(model.sizes) * cores()]
    answers = [side.run(few, min(model.sizes)) for side in sides]
    found = (answers[0][:, 0], next(iter(answers[1].values()))[:, 0])
    error = max(relative_error(one, answers[2]) for one in found)
    assert error < ALIKE, f"{model.name}: {error}"
    best = {side.name: side.fastest(draw) for side in sides}
    times: dict[str, list[float]] = {side.name: [] for side in sides}
    spent: dict[str, list[float]] = {side.name: [] for side in sides}
    single = Side("litert", lambda x, _: [alone.run(key, {name: row[None]}) for row in x], [16])
    for _ in range(rounds):
        for side in sides:
            wall, processor = side.clocked(draw, best[side.name])
            if side.name == "litert":
                _, processor = single.clocked(draw, 16)
            times[side.name].append(wall)
            spent[side.name].append(processor)
    workers.close()
    ratios = {n: [t / x for t, x in zip(times[n], times["xla"], strict=True)] for n in ("litert", "tensorflow")}
    return Row(
        model.name,
        error,
        best,
        {n: 1e6 * min(t) for n, t in times.items()},
        {n: 1e6 * min(t) for n, t in spent.items()},
        statistics.median(ratios["litert"]),
        statistics.median(ratios["tensorflow"]),
    )


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    load = os.getloadavg()[0]
    rows = []
    print(f"{'':25}{'samples/s':>10}{'batch':>7}{'µs: XLA':>10}{'LiteRT':>9}{'TF':>9}{'x LiteRT':>10}{'x TF':>7}")
    for model in MODELS:
        if not any(part.lower() in model.name.lower() for part in arguments.k):
            continue
        row = measure(model, arguments.rounds)
        rows.append(row)
        us, busy = row.us, row.processor_us
        print(
            f"{row.name:25}{1e6 / us['xla']:>10.0f}{row.batch['xla']:>7}{us['xla']:>10.1f}{us['litert']:>9.1f}"
            f"{us['tensorflow']:>9.1f}{row.per_litert:>10.2f}{row.per_tensorflow:>7.2f}\n"
            f"{'  processor time':25}{'':17}{busy['xla']:>10.1f}{busy['litert']:>9.1f}{busy['tensorflow']:>9.1f}"
            f"{busy['litert'] / busy['xla']:>10.2f}{busy['tensorflow'] / busy['xla']:>7.2f}",
            flush=True,
        )
    if arguments.json:
        machine = f"{platform.machine()}, {cores()} cores, load {load:.1f} at the start"
        report = {
            "machine": machine,
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "tensorflow": tf.__version__,
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
