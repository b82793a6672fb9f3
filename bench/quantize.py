"""Quantized files: jfuse against the official converter, in the same modes, on the same models and samples, in one run.

    python -m bench.quantize [--json bench/results/quantize.json] [-k SUBSTRING ...] [--modes int8 ...] [--rounds 20]
    python -m bench.quantize --seeds 3 [--json bench/results/quantize_seeds.json] [-k ...] [--modes ...]

Models are awake Keras models with a batch of 1; 64 drawn inputs calibrate, 32 others are compared. SNR is that of all
outputs in LiteRT with its default delegates, against TensorFlow in floats: 10 log10 of the power of the answers over
that of the errors. Latency is the least of many rounds in turns, one thread. The official converter reads a SavedModel
in a process of its own, as some conversions end theirs; the modes that it lacks have no figures of it. Modes that need
no data are measured without and with it, integers also with the plain ranges of the calibration and biases as they are.

--seeds draws models and samples so many times, and prints the mean of the SNR with the least and the greatest of all
draws, and of how much it is above the official file's: a row of a single draw that is a decibel lower may be chance.
Nothing is timed.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse import QuantizeRule, Recipe
from jfuse.running.cores import cores

OFFICIAL = ("float16", "dynamic", "int8", "int16x8")
MODES = (*OFFICIAL, "int8_weights", "int4_weights", "int4_gptq", "int2_weights")
_NEED_DATA = ("int8", "int16x8", "int4_gptq")
_PLAIN = {
    mode: QuantizeRule("integer", activation_bits=bits, range_algorithm="minmax", min_elements=0)
    for mode, bits in (("int8", 8), ("int16x8", 16))
}
_TAKE_DATA = ("dynamic", "int8_weights", "int4_weights", "int2_weights")
_CALIBRATE, _COMPARE = 64, 32
_TURN_MS = 2.0  # long enough for the clock, short enough to be interrupted seldom
_BITS16 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"


def mlp() -> Any:
    """Three dense layers."""
    from keras import Input, Sequential, layers

    return Sequential(
        [Input((64,)), layers.Dense(256, "relu"), layers.Dense(128, "tanh"), layers.Dense(10, activation="softmax")]
    )


def cnn() -> Any:
    """Convolutions, a skip, pooling, a classifier."""
    from keras import Input, Model, layers

    inputs = Input((32, 32, 3))
    x = layers.Conv2D(32, 3, padding="same", activation="relu")(inputs)
    y = layers.BatchNormalization()(layers.Conv2D(32, 3, padding="same")(x))
    x = layers.MaxPooling2D()(layers.ReLU()(layers.Add()([x, y])))
    x = layers.Conv2D(64, 3, strides=2, activation="relu")(x)
    return Model(inputs, layers.Dense(10)(layers.Flatten()(x)))


def keywords() -> Any:
    """Separable convolutions over the bands of a second of sound."""
    from keras import Input, Sequential, layers

    separable = [
        layer
        for _ in range(3)
        for layer in (layers.SeparableConv2D(48, 3, padding="same"), layers.BatchNormalization(), layers.ReLU(6.0))
    ]
    first = layers.Conv2D(48, (10, 4), strides=2, activation="relu")
    pooled = layers.GlobalAveragePooling2D()
    return Sequential([Input((49, 40, 1)), first, *separable, pooled, layers.Dense(12, activation="softmax")])


def text() -> Any:
    """Embedded ids, convolutions over sequences, layer norms."""
    from keras import Input, Model, layers

    ids = Input((40,), dtype="int32")
    x = layers.Embedding(500, 64)(ids)
    for _ in range(2):
        x = layers.LayerNormalization()(layers.Conv1D(64, 3, padding="same", activation="relu")(x))
    return Model(ids, layers.Dense(5)(layers.GlobalMaxPooling1D()(x)))


def gated() -> Any:
    """Gates, hard swishes, concatenations, averages."""
    from keras import Input, Model, layers

    inputs = Input((24, 24, 8))
    x = layers.Activation("hard_silu")(layers.Conv2D(32, 3, padding="same")(inputs))
    gate = layers.Dense(32, activation="sigmoid")(layers.GlobalAveragePooling2D(keepdims=True)(x))
    x = layers.Concatenate()([layers.Multiply()([x, gate]), inputs])
    x = layers.AveragePooling2D(2)(layers.LeakyReLU(0.1)(layers.Conv2D(48, 1)(x)))
    return Model(inputs, layers.Dense(6)(layers.Flatten()(x)))


def _of_phone(name: str) -> Callable[[], Any]:
    def build() -> Any:
        from bench import models

        return getattr(models, name)()

    return build


def _mobilenet() -> Any:
    from bench.verify import mobilenet

    return mobilenet()


MODELS: Mapping[str, Callable[[], Any]] = {
    "mlp": mlp,
    "cnn": cnn,
    "keywords": keywords,
    "gated": gated,
    "text": text,
    "u_net": _of_phone("phone_u_net"),
    "transformer": _of_phone("phone_encoder"),
    "mobilenet_v2": _mobilenet,
}


def fixed(model: Any) -> Any:
    """The model with a batch of 1, awake: biases that are not zero, moments of normalizations from a forward pass."""
    import keras

    rng = np.random.default_rng(9)
    for weight in model.weights:
        if weight.name == "bias":
            weight.assign(rng.standard_normal(weight.shape) * 0.1)
    for layer in model.layers:
        if isinstance(layer, keras.layers.BatchNormalization):
            layer.momentum = 0.0
    (x,) = model.inputs
    model(drawn(x, 16, 5), training=True)
    inputs = keras.Input(batch_shape=(1, *x.shape[1:]), dtype=x.dtype, name="x")
    return keras.Model(inputs, model(inputs))


def drawn(x: Any, count: int, seed: int) -> np.ndarray:
    """So many inputs, normal or ids."""
    rng = np.random.default_rng(seed)
    if x.dtype == "int32":
        return rng.integers(0, 500, (count, *x.shape[1:])).astype(np.int32)
    return rng.standard_normal((count, *x.shape[1:])).astype(np.float32)


def official(folder: Path, mode: str) -> bytes:
    """The official converter's file of a SavedModel, in a mode."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder / "saved"))
    converter.optimizations = [tf.lite.Optimize.DEFAULT]
    if mode == "float16":
        converter.target_spec.supported_types = [tf.float16]
    if mode in ("int8", "int16x8"):
        samples = np.load(folder / "samples.npy")
        converter.representative_dataset = lambda: ([row[None]] for row in samples)
    if mode == "int16x8":
        converter.target_spec.supported_ops = [getattr(tf.lite.OpsSet, _BITS16), tf.lite.OpsSet.TFLITE_BUILTINS]
    with contextlib.redirect_stdout(io.StringIO()):
        return bytes(converter.convert())


def official_apart(folder: Path, mode: str) -> bytes | str:
    """The same in a process of its own; the reason where it fails."""
    command = [sys.executable, "-m", "bench.quantize", "--official", str(folder), "--modes", mode]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    path = folder / f"{mode}.tflite"
    if done.returncode or not path.is_file():
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    return path.read_bytes()


def answers(data: bytes, samples: np.ndarray) -> list[np.ndarray]:
    """The outputs of each sample in LiteRT."""
    interpreter = Interpreter(model_content=data, num_threads=1)
    ((_, _),) = interpreter.get_signature_list().items()
    interpreter.allocate_tensors()
    (place,) = (d["index"] for d in interpreter.get_input_details())
    found = []
    for row in samples:
        interpreter.set_tensor(place, row[None])
        interpreter.invoke()
        outputs = (interpreter.get_tensor(d["index"]) for d in interpreter.get_output_details())
        found.append(np.concatenate([np.ravel(v) for v in outputs]))
    return found


def snr_db(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Of all samples together."""
    a, b = (np.stack(list(x)).astype(np.float64) for x in (found, wanted))
    noise = float(np.square(a - b).sum())
    return float(10 * np.log10(float(np.square(b).sum()) / noise)) if noise else float("inf")


def latencies(ours: bytes, theirs: bytes, sample: np.ndarray, rounds: int) -> tuple[float, float]:
    """The least milliseconds of both: what else runs on the machine makes all others longer."""
    interpreters = [Interpreter(model_content=data, num_threads=1) for data in (ours, theirs)]
    for interpreter in interpreters:
        interpreter.allocate_tensors()
        interpreter.set_tensor(interpreter.get_input_details()[0]["index"], sample[None])
        interpreter.invoke()
    started = time.perf_counter()
    interpreters[1].invoke()
    count = max(1, int(_TURN_MS / (1e3 * (time.perf_counter() - started))))
    least = [float("inf")] * 2
    for turn in range(rounds):
        for i in (0, 1)[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            for _ in range(count):
                interpreters[i].invoke()
            least[i] = min(least[i], 1e3 * (time.perf_counter() - started) / count)
    return least[0], least[1]


@dataclass(frozen=True)
class Case:
    """A model with the samples that calibrate it, those that are compared, and its answers to them in floats."""

    model: Any
    calibration: np.ndarray
    compared: np.ndarray
    wanted: Sequence[np.ndarray]

    @classmethod
    def of(cls, name: str, seed: int = 0) -> Case:
        """That of a model by name; weights and samples of a seed."""
        import keras

        keras.utils.set_random_seed(seed)
        model = fixed(MODELS[name]())
        (x,) = model.inputs
        calibration, compared = drawn(x, _CALIBRATE, 2 * seed + 1), drawn(x, _COMPARE, 2 * seed + 2)
        wanted = [np.concatenate([np.ravel(v) for v in _flat(model(row[None]))]) for row in compared]
        return cls(model, calibration, compared, wanted)

    def save(self, folder: Path) -> None:
        """What the official converter reads."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.model.export(folder / "saved", verbose=False)
        np.save(folder / "samples.npy", self.calibration)

    def official(self, folder: Path, mode: str) -> tuple[bytes, float] | str:
        """The official converter's file and its SNR; the reason where there is none.   folder: as `save` left it"""
        theirs = official_apart(folder, mode) if mode in OFFICIAL else "has no such mode"
        try:
            return theirs if isinstance(theirs, str) else (theirs, self.snr_db(theirs))
        except (RuntimeError, ValueError) as error:  # LiteRT refuses some official files
            return f"LiteRT: {' '.join(str(error).split())}"[:200]

    def ours(self, mode: str | Recipe, *, calibrated: bool) -> bytes:
        """Our file in a mode."""
        return converted(self.model, mode, self.calibration if calibrated else None)

    def snr_db(self, data: bytes) -> float:
        """The SNR of a file."""
        return snr_db(answers(data, self.compared), self.wanted)


def rows(name: str, modes: Sequence[str], rounds: int) -> list[dict[str, Any]]:
    """A row for each mode of one model."""
    case = Case.of(name)
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        case.save(folder)
        for mode in modes:
            ours = case.ours(mode, calibrated=mode in _NEED_DATA)
            theirs = case.official(folder, mode)
            row: dict[str, Any] = {"model": name, "mode": mode, "bytes": len(ours), "snr_db": case.snr_db(ours)}
            if mode in _PLAIN:
                row["plain_snr_db"] = case.snr_db(case.ours(Recipe((_PLAIN[mode],)), calibrated=True))
            if mode in _TAKE_DATA:
                row["calibrated_snr_db"] = case.snr_db(case.ours(mode, calibrated=True))
            if isinstance(theirs, str):
                row["official_error"] = theirs
            else:
                data, noise = theirs
                row |= {"official_bytes": len(data), "official_snr_db": noise}
                row["ms"], row["official_ms"] = latencies(ours, data, case.compared[0], rounds)
            found.append(row)
            print(line(row), flush=True)
    return found


def rows_of_seeds(name: str, modes: Sequence[str], seeds: int) -> list[dict[str, Any]]:
    """A row for each mode of one model, with the SNR of each seed; the official file's is None where there is none."""
    table: dict[str, dict[str, Any]] = {
        mode: {"model": name, "mode": mode, "snr_db": [], "official_snr_db": []} for mode in modes
    }
    for seed in range(seeds):
        case = Case.of(name, seed)
        with tempfile.TemporaryDirectory() as temporary:
            case.save(Path(temporary))
            for mode, row in table.items():
                theirs = case.official(Path(temporary), mode)
                row["snr_db"].append(case.snr_db(case.ours(mode, calibrated=mode in _NEED_DATA)))
                row["official_snr_db"].append(None if isinstance(theirs, str) else theirs[1])
    for row in table.values():
        print(line_of_seeds(row), flush=True)
    return list(table.values())


def converted(model: Any, mode: str | Recipe, calibration: np.ndarray | None) -> bytes:
    """Our file in a mode."""
    return jfuse.convert(model, quantize=mode, calibration=calibration, verify=False).to_bytes()


def _flat(outputs: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in (outputs if isinstance(outputs, list | tuple) else [outputs])]


def line(row: Mapping[str, Any]) -> str:
    """One row as text."""
    head = f"{row['model']:<13} {row['mode']:<12} {row['bytes']:>9,} B {row['snr_db']:>6.1f} dB"
    if "calibrated_snr_db" in row:
        head += f" ({row['calibrated_snr_db']:.1f} with data)"
    if "plain_snr_db" in row:
        head += f" ({row['plain_snr_db']:.1f} plainly)"
    if "official_error" in row:
        return f"{head}   official: {row['official_error']}"
    size = row["bytes"] / row["official_bytes"]
    return (
        f"{head}   official {row['official_bytes']:>9,} B ({size:.2f}) {row['official_snr_db']:>6.1f} dB"
        f"   {row['ms']:.3f} ms, {row['ms'] / row['official_ms']:.2f} of the official"
    )


def line_of_seeds(row: Mapping[str, Any]) -> str:
    """One row as text: the mean of the seeds, the least and the greatest."""
    pairs = zip(row["snr_db"], row["official_snr_db"], strict=True)
    above = [ours - theirs for ours, theirs in pairs if theirs is not None]
    head = f"{row['model']:<13} {row['mode']:<12} {_spread(row['snr_db'])} dB"
    return f"{head}, {_spread(above, '+')} dB above the official" if above else f"{head}   no official file"


def _spread(values: Sequence[float], sign: str = "") -> str:
    mean = sum(values) / len(values)
    return f"{mean:{sign}.1f} ({min(values):{sign}.1f} to {max(values):{sign}.1f})"


def write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Put the rows into the JSON; rows of other models and modes stay as they are."""
    kept = json.loads(path.read_text())["rows"] if path.is_file() else []
    table = {(row["model"], row["mode"]): row for row in (*kept, *found)}
    order = [key for key in ((name, mode) for name in MODELS for mode in MODES) if key in table]
    machine = f"{platform.machine()}, {cores()} cores"
    path.write_text(json.dumps({"machine": machine, "rows": [table[key] for key in order]}, indent=1) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[])
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--official", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.official is not None:
        (mode,) = options.modes
        (options.official / f"{mode}.tflite").write_bytes(official(options.official, mode))
        return
    names = [n for n in MODELS if not options.k or any(k in n for k in options.k)]
    for name in names:
        if options.seeds:
            found = rows_of_seeds(name, options.modes, options.seeds)
        else:
            found = rows(name, options.modes, options.rounds)
        if options.json is not None:
            write(options.json, found)


if __name__ == "__main__":
    main()
