"""Samples per second in verification: XLA, LiteRT with one process per core, and TensorFlow, in one run.

    python -m bench.verify [--json bench/results/verify.json] [-k SUBSTRING ...] [--rounds 5] [--device cpu|gpu]
    python -m bench.verify --save FOLDER [-k SUBSTRING ...]
    python -m bench.verify --files FOLDER ...

Float32, random inputs. XLA runs jfuse's file over many samples (`jfuse.running.over_samples`), TensorFlow the
Keras model with a batch; each at the batch size that is the fastest per sample, which is tried first. XLA always gets
as many samples as two of the largest batches on every core, so that batches follow each other as in a verification.
LiteRT runs the file one sample at a time in as many processes as there are cores, one thread each. The three take
turns; wall times
are the least of all rounds, ratios are taken in each round and their median given. Beside them stands the processor
time of one sample, of which a machine that is busy with other things takes less notice: for LiteRT one interpreter in
this process. Answers of all three are compared, once. The last column is the seconds that `jfuse.convert` takes to
verify the model against TensorFlow, the first time in this process.

A machine with a GPU may have no TensorFlow: `--save` writes the models' files and measures nothing, and `--files`
measures such files by themselves, XLA against LiteRT. `--device` is the one that XLA runs on; a GPU also tries larger
batches, up to 4,096 of small samples. The outputs of all samples come back to the host, as a verification compares them
there: where they are whole sequences, that takes a GPU longer than computing them.
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
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.base.measure import relative_error
from jfuse.running.cores import cores
from jfuse.running.litert_workers import LiteRtWorkers
from jfuse.running.over_samples import OverSamples

if TYPE_CHECKING:
    import keras

SMALL = (64, 128, 256, 1024, 4096)
LARGE = (4, 8, 16, 64, 256)
ON_GPU = (1024, 4096)  # tried as well, unless the samples are images
TRIES = 3
ALIKE = 1e-4  # a convolutional network's tolerance; the recurrent ones are 1e-6 apart


@dataclass(frozen=True)
class Model:
    """A Keras model with an open batch. sizes: the batch sizes to try."""

    name: str
    make: Callable[[], keras.Model]
    sizes: Sequence[int]

    def file(self, folder: Path) -> Path:
        """Where `--save` writes it."""
        return folder / f"{self.name.replace(',', '').replace(' ', '_')}.tflite"


def sequence(steps: int, features: int, layer: Callable[[Any], Any]) -> Callable[[], keras.Model]:
    """A model of one layer over sequences.   layer: makes it, given `keras.layers`"""

    def make() -> keras.Model:
        import keras

        source = keras.Input((steps, features))
        return keras.Model(source, layer(keras.layers)(source))

    return make


def mlp() -> keras.Model:
    """64 to 256 to 256 to 10."""
    import keras
    from keras import layers

    source = keras.Input((64,))
    hidden = layers.Dense(256, activation="relu")(layers.Dense(256, activation="relu")(source))
    return keras.Model(source, layers.Dense(10)(hidden))


def mobilenet(side: int = 96, alpha: float = 0.35) -> keras.Model:
    """MobileNetV2, of 0.35 on small images by default."""
    return _awake("MobileNetV2", side, alpha=alpha)


def _awake(name: str, side: int = 96, **options: Any) -> keras.Model:
    """An application with the moments of a forward pass, so that answers differ from input to input."""
    import keras
    from keras import layers

    build = getattr(keras.applications, name)
    model = build(input_shape=(side, side, 3), weights=None, classes=10, classifier_activation=None, **options)
    for layer in model.layers:
        if isinstance(layer, layers.BatchNormalization):
            layer.momentum = 0.0
    model(np.random.default_rng(1).standard_normal((16, side, side, 3)).astype(np.float32), training=True)
    return model


MODELS = (
    Model("MLP 64-256-256-10", mlp, SMALL),
    Model("MobileNetV2 0.35, 96x96", mobilenet, LARGE),
    Model("EfficientNetB0, 96x96", lambda: _awake("EfficientNetB0"), LARGE[:4]),
    Model("LSTM 16, 20 steps", sequence(20, 8, lambda layers: layers.LSTM(16, return_sequences=True)), SMALL),
    Model("LSTM 64, 50 steps", sequence(50, 32, lambda layers: layers.LSTM(64, return_sequences=True)), SMALL),
    Model("LSTM 512, 100 steps", sequence(100, 64, lambda layers: layers.LSTM(512, return_sequences=True)), LARGE[2:]),
    Model("LSTM 512, 100 steps, last", sequence(100, 64, lambda layers: layers.LSTM(512)), LARGE[2:]),
    Model(
        "BiLSTM 32, 50 steps",
        sequence(50, 16, lambda layers: layers.Bidirectional(layers.LSTM(32, return_sequences=True))),
        SMALL,
    ),
    Model("RNN 64, 50 steps", sequence(50, 32, lambda layers: layers.SimpleRNN(64, return_sequences=True)), SMALL),
    Model("GRU loop 128, 50 steps", sequence(50, 32, lambda layers: layers.GRU(128, return_sequences=True)), SMALL),
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
    """Measurements of one model: microseconds a sample, and the speed of XLA relative to the others.

    per_tensorflow, check_s: None for a file, which no Keras model stands beside.
    """

    name: str
    error: float
    batch: dict[str, int]
    us: dict[str, float]
    processor_us: dict[str, float]
    per_litert: float
    per_tensorflow: float | None
    check_s: float | None


@dataclass(frozen=True)
class MeasuredModel:
    """A model's file of one sample, and the Keras model over a batch that it was made of, if that is there.

    check_s: how long the Keras model took to verify.
    """

    model: Model
    file: jfuse.Model
    keras: Callable[[np.ndarray], np.ndarray] | None = None
    check_s: float | None = None

    @classmethod
    def of_keras(cls, model: Model) -> MeasuredModel:
        """Converted now."""
        import keras
        import tensorflow as tf

        keras.utils.set_random_seed(0)
        source = model.make()
        shape = tuple(source.inputs[0].shape[1:])
        fixed = keras.Input(shape, batch_size=1)
        function = tf.function(
            lambda x: source(x, training=False), input_signature=[tf.TensorSpec((None, *shape), tf.float32)]
        )
        check_s = jfuse.convert(source).report.seconds["verify"]
        data = jfuse.convert(keras.Model(fixed, source(fixed)), verify=False)
        return cls(model, data, lambda x: function(tf.constant(x)).numpy(), check_s)

    @property
    def sizes(self) -> Sequence[int]:
        """The batch sizes to try on jax's default device."""
        images = len(self.file.signature().graph.inputs[0].type.shape) > 3
        return self.model.sizes if images or jax.default_backend() == "cpu" else sorted({*self.model.sizes, *ON_GPU})

    def draw(self) -> np.ndarray:
        """Samples for two runs of the largest batch on every core or GPU."""
        tensor = self.file.signature().graph.inputs[0].type
        count = 2 * max(self.sizes) * (cores() if jax.default_backend() == "cpu" else jax.device_count())
        return np.random.default_rng(0).standard_normal((count, *tensor.shape[1:])).astype(np.float32)

    def row(self, rounds: int) -> Row:
        """All runners in turn."""
        draw, data = self.draw(), self.file.to_bytes()
        (name,), key = self.file.signature().input_names, self.file.signature().key
        workers, alone = LiteRtWorkers(data), Interpreter(model_content=data, num_threads=1).get_signature_runner(key)
        sizes = self.sizes
        programs = {n: OverSamples.of(self.file.jax(), most=n) for n in sizes}
        sides = [
            Side("xla", lambda x, n: programs[n]([x[:, None]])[0], sizes, len(draw)),
            Side("litert", lambda x, _: next(iter(workers.run({name: x[:, None]}, key).values())), [64 * cores()]),
        ]
        if (function := self.keras) is not None:
            sides.append(Side("tensorflow", lambda x, _: function(x), sizes))
        few = draw[: min(sizes) * cores()]
        answers = [side.run(few, min(sizes)).reshape(len(few), -1) for side in sides]
        error = max(relative_error(one, answers[-1]) for one in answers[:-1])
        assert error < ALIKE, f"{self.model.name}: {error}"
        best = {side.name: side.fastest(draw) for side in sides}
        times: dict[str, list[float]] = {side.name: [] for side in sides}
        spent: dict[str, list[float]] = {side.name: [] for side in sides}
        single = Side("litert", lambda x, _: [alone(**{name: row[None]}) for row in x], [16])
        for _ in range(rounds):
            for side in sides:
                wall, processor = side.clocked(draw, best[side.name])
                if side.name == "litert":
                    _, processor = single.clocked(draw, 16)
                times[side.name].append(wall)
                spent[side.name].append(processor)
        workers.close()
        ratios = {n: statistics.median(t / x for t, x in zip(times[n], times["xla"], strict=True)) for n in times}
        return Row(
            self.model.name,
            error,
            best,
            {n: 1e6 * min(t) for n, t in times.items()},
            {n: 1e6 * min(t) for n, t in spent.items()},
            ratios["litert"],
            ratios.get("tensorflow"),
            self.check_s,
        )


_HEAD = f"{'':25}{'samples/s':>10}{'batch':>7}{'µs: XLA':>10}{'LiteRT':>10}{'TF':>10}{'x LiteRT':>10}{'x TF':>7}"
_HEAD += f"{'check s':>9}"


def lines(row: Row) -> str:
    """The wall time of a row, and the processor's below it."""
    us, busy = row.us, row.processor_us

    def columns(of: dict[str, float], litert: float, tensorflow: float | None) -> str:
        there = [f"{of[name]:>10.1f}" if name in of else f"{'':10}" for name in ("xla", "litert", "tensorflow")]
        return "".join(there) + f"{litert:>10.2f}" + ("" if tensorflow is None else f"{tensorflow:>7.2f}")

    of_tensorflow = None if row.per_tensorflow is None else busy["tensorflow"] / busy["xla"]
    return (
        f"{row.name:25}{1e6 / us['xla']:>10.0f}{row.batch['xla']:>7}{columns(us, row.per_litert, row.per_tensorflow)}"
        f"{'' if row.check_s is None else f'{row.check_s:>9.2f}'}\n"
        f"{'  processor time':25}{'':17}{columns(busy, busy['litert'] / busy['xla'], of_tensorflow)}"
    )


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", choices=("cpu", "gpu"))
    parser.add_argument("--save", type=Path, metavar="FOLDER")
    parser.add_argument("--files", type=Path, metavar="FOLDER")
    arguments = parser.parse_args()
    if arguments.device:
        jax.config.update("jax_platforms", {"gpu": "cuda"}.get(arguments.device, arguments.device))
    chosen = [model for model in MODELS if any(part.lower() in model.name.lower() for part in arguments.k)]
    if arguments.save:
        for model in chosen:
            MeasuredModel.of_keras(model).file.save(model.file(arguments.save))
        return
    load = os.getloadavg()[0]
    rows = []
    print(_HEAD)
    for model in chosen:
        files = arguments.files
        measured = MeasuredModel(model, jfuse.load(model.file(files))) if files else MeasuredModel.of_keras(model)
        rows.append(measured.row(arguments.rounds))
        print(lines(rows[-1]), flush=True)
    if arguments.json:
        report = {
            "machine": f"{platform.machine()}, {cores()} cores, load {load:.1f} at the start",
            "device": jax.devices()[0].device_kind,
            "jax": jax.__version__,
            "rows": [asdict(row) for row in rows],
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
