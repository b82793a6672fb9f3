"""Recurrent models in every quantized mode: jfuse against the official converter and the runtimes, in one run.

    python -m bench.quantize_recurrent [--json bench/results/quantize_recurrent.json] [-k SUBSTRING ...] [--modes ...]
    python -m bench.quantize_recurrent --alone [-k ...] [--modes ...] [--seed 1]

Models have a batch of 1 and random weights and biases. 64 drawn inputs calibrate, 32 others are compared, one after the
other in one interpreter. A row has the SNR of the outputs in LiteRT (of "… for tflite-micro" in tflite-micro) against
TensorFlow in floats; whether five calls with one input answer alike, where the model has no state; whether XLA answers
what LiteRT does, and what tflite-micro does, in every bit, or how near (dB); what stays float, and the file's bytes.

Both converters read one SavedModel, of Keras 2 where there is a choice, as the official converter makes no integers of
LSTMs of Keras 3. Many of its files go on from the call before: their SNR is that of first calls, in interpreters of
their own. Latency is the least of many rounds in turns, one thread.
"""

from __future__ import annotations

import argparse
import json
import platform
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import jfuse
from bench.quantize import answers, latencies, official, snr_db
from bench.quantize_models import OFFICIAL
from bench.recurrent import Official
from jfuse.base.errors import JfuseError
from jfuse.running.cores import cores
from jfuse.running.micro import MicroInterpreter, has_micro
from tests.models.recurrences.recurrent_keras import Layers, Wire, bidirectional, layer, masked
from tests.models.recurrences.recurrent_lstm_variants import Variant
from tests.models.recurrences.recurrent_rows import masked_steps
from tests.models.recurrences.recurrent_shells import Cell, Random, Shell
from tests.models.recurrences.recurrent_steps import svdf
from tests.models.recurrences.recurrent_unknown import gru_before, highway
from tests.models.recurrences.recurrent_written import simple_cell

_CALIBRATE, _COMPARE, _CALLS = 64, 32, 8


@dataclass(frozen=True)
class Mode:
    """A mode. recipe, target: as jfuse.convert has them. official: what the official converter calls it, if it does."""

    recipe: Any
    target: Any = "litert"
    official: str = ""

    @property
    def integers(self) -> bool:
        """Whether activations are integers, which need data, and whose bits are the same everywhere."""
        return self.recipe in ("int8", "int16x8", "micro")


MODES: Mapping[str, Mode] = {
    **{name: Mode(name, official=name) for name in OFFICIAL},
    "int8_weights": Mode("int8_weights"),
    "micro": Mode("micro", "tflite-micro"),
    "int16x8 for tflite-micro": Mode("int16x8", "tflite-micro"),
}
Draw = Callable[[np.random.Generator, tuple[int, ...]], np.ndarray]


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal numbers: f32[shape]."""
    return rng.standard_normal(shape).astype(np.float32)


def padded(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Normal rows that end in zeros, each somewhere else: f32[n,t,i]."""
    x = normal(rng, shape)
    x *= masked_steps("right", shape[1], shape[0], int(rng.integers(2**31)))[..., None]
    return x


def log_mel(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Logarithms of energies in bands, falling to higher ones, louder in the middle: f32[n,t,bands]."""
    count, steps, bands = shape
    tilt = -4.0 * np.arange(bands) / bands + rng.normal(0, 0.5, (count, 1, bands))
    middle, width = rng.uniform(0.3, 0.7, (count, 1, 1)), rng.uniform(0.05, 0.2, (count, 1, 1))
    loud = 6.0 * np.exp(-(((np.arange(steps)[None, :, None] / steps - middle) / width) ** 2))
    return (np.log(rng.chisquare(4, shape) + 1e-3) + tilt + loud - 6.0).astype(np.float32)


@dataclass(frozen=True)
class Model:
    """One model. save: writes a SavedModel into a folder, with weights of a seed. shape: of "x" without the batch.

    The batch, None for an open one, is the third argument of `save`; models with states have one of 1.
    """

    save: Callable[[Path, int, int | None], Path]
    shape: tuple[int, ...]
    draw: Draw = normal
    stateful: bool = False
    options: Mapping[str, Any] = field(default_factory=dict)


def keras_model(
    wire: Wire, steps: int, *features: int, library: str = "tf_keras", draw: Draw = normal, **options: Any
) -> Model:
    """A Keras model. options: stateful; for jfuse.convert"""

    def save(folder: Path, seed: int, batch: int | None) -> Path:
        from tests.models.sources import exported, saved

        model = Layers(wire, batch=batch, steps=steps, features=features).build(library, seed)
        return (exported if library == "keras" else saved)(model, folder)

    stateful = options.pop("stateful", False)
    return Model(save, (steps, *features), draw, stateful, options)


def written(make: Callable[[Random], Cell], steps: int, features: int, units: int, form: str = "while") -> Model:
    """A loop by hand over a cell."""

    def save(folder: Path, seed: int, batch: int | None) -> Path:
        import tensorflow as tf

        module = tf.Module()
        shell = Shell(form, batch=batch, steps=steps, final=False)
        function = shell.function(make(Random(seed, features, units)), features)
        module.variables_of_cell = list(function.get_concrete_function().variables)
        tf.saved_model.save(module, str(folder), signatures={"serving_default": function})
        return folder

    return Model(save, (steps, features))


def one_step(make: Callable[[Random], Cell], features: int, units: int) -> Model:
    """One step of a cell in each call, its states in variables."""

    def save(folder: Path, seed: int, batch: int | None) -> Path:
        import tensorflow as tf

        module, cell = tf.Module(), make(Random(seed, features, units))
        module.states = [tf.Variable(tf.zeros([1, n]), name=f"s{i}") for i, n in enumerate(cell.widths)]

        def one(x: Any) -> Any:
            y, found = cell.step(x, tuple(module.states))
            for variable, value in zip(module.states, found, strict=True):
                variable.assign(value)
            return {"y": y}

        step = tf.function(one, input_signature=[tf.TensorSpec([1, features], tf.float32, name="x")])
        module.variables_of_cell = list(step.get_concrete_function().variables)
        tf.saved_model.save(module, str(folder), signatures={"serving_default": step})
        return folder

    return Model(save, (features,), stateful=True)


def keyword(k: Any, x: Any) -> Any:
    """An LSTM over the bands of a second of sound."""
    return k.layers.Dense(12)(k.layers.LSTM(64)(x))


def crnn(k: Any, x: Any) -> Any:
    """Convolutions, then an LSTM in both directions, then a label for each step."""
    for _ in range(2):
        x = k.layers.MaxPooling1D(2)(k.layers.Conv1D(32, 5, padding="same", activation="relu")(x))
    return k.layers.Dense(20)(k.layers.Bidirectional(k.layers.LSTM(32, return_sequences=True))(x))


def attended(k: Any, x: Any) -> Any:
    """An LSTM whose outputs attend to each other."""
    y = k.layers.LSTM(32, return_sequences=True)(x)
    return k.layers.Dense(8)(k.layers.GlobalAveragePooling1D()(k.layers.Attention()([y, y])))


def stacked(k: Any, x: Any) -> Any:
    """Two LSTMs and a dense layer."""
    x = k.layers.LSTM(24)(k.layers.LSTM(32, return_sequences=True)(x))
    return k.layers.Dense(8)(x)


def dilated(k: Any, x: Any) -> Any:
    """A temporal convolutional network: causal convolutions of growing dilation, with skips."""
    x = k.layers.Conv1D(32, 1)(x)
    for dilation in (1, 2, 4, 8):
        y = k.layers.Conv1D(32, 3, padding="causal", dilation_rate=dilation, activation="relu")(x)
        x = k.layers.Add()([x, k.layers.Conv1D(32, 1)(y)])
    return k.layers.Dense(8)(k.layers.GlobalAveragePooling1D()(x))


def time_major(k: Any, x: Any) -> Any:
    """A GRU that reads steps first."""
    import tensorflow as tf

    y = k.layers.GRU(32, time_major=True, return_sequences=True)(tf.transpose(x, [1, 0, 2]))
    return tf.transpose(y, [1, 0, 2])


def _lstm(units: int, **options: Any) -> Wire:
    return layer("LSTM", units, **options)


MODELS: Mapping[str, Model] = {
    "lstm_t10_u8": keras_model(_lstm(8), 10, 8),
    "lstm_t30_u32": keras_model(_lstm(32), 30, 16),
    "lstm_t100_u64": keras_model(_lstm(64), 100, 40),
    "lstm_t300_u32": keras_model(_lstm(32), 300, 16),
    "lstm_t20_u256": keras_model(_lstm(256), 20, 64),
    "lstm_sequences": keras_model(_lstm(32, return_sequences=True), 30, 16),
    "lstm_stacked": keras_model(stacked, 30, 16),
    "lstm_bidirectional": keras_model(bidirectional("LSTM", 32, return_sequences=True), 30, 16),
    "lstm_stateful": keras_model(_lstm(32, return_sequences=True, stateful=True), 10, 16, stateful=True),
    "lstm_masked": keras_model(masked("LSTM", 32), 30, 16, draw=padded),
    "lstm_masked_right": keras_model(masked("LSTM", 32), 30, 16, draw=padded, padding="right"),
    "lstm_keras3": keras_model(_lstm(32), 30, 16, library="keras"),
    "lstm_peephole": written(Variant(peephole=True).of, 30, 16, 32),
    "lstm_projection": written(Variant(projection=16).of, 30, 16, 32),
    "lstm_clip": written(Variant(cell_clip=1.0).of, 30, 16, 32),
    "lstm_coupled": written(Variant(order="fgo").of, 30, 16, 32),
    "lstm_layer_norm": written(Variant(bias=False, norm=1e-8).of, 30, 16, 32),
    "lstm_diagonal": written(Variant(diagonal=True).of, 30, 16, 32),
    "gru_t10_u8": keras_model(layer("GRU", 8), 10, 8),
    "gru_t30_u32": keras_model(layer("GRU", 32), 30, 16),
    "gru_t100_u64": keras_model(layer("GRU", 64), 100, 40),
    "gru_reset_before": keras_model(layer("GRU", 32, reset_after=False), 30, 16),
    "gru_time_major": keras_model(time_major, 30, 16),
    "gru_bidirectional": keras_model(bidirectional("GRU", 32), 30, 16),
    "gru_masked": keras_model(masked("GRU", 32), 30, 16, draw=padded),
    "gru_keras3": keras_model(layer("GRU", 32), 30, 16, library="keras"),
    "gru_written": written(gru_before, 30, 16, 32),
    "rnn_t30_u32": keras_model(layer("SimpleRNN", 32), 30, 16),
    "rnn_t100_u64": keras_model(layer("SimpleRNN", 64), 100, 40),
    "rnn_written": written(simple_cell(), 30, 16, 32),
    "highway": written(highway, 30, 16, 32),
    "conv_lstm": keras_model(layer("ConvLSTM2D", 8, kernel_size=3, padding="same"), 6, 10, 10, 3),
    "keyword_lstm": keras_model(keyword, 98, 40, draw=log_mel),
    "crnn": keras_model(crnn, 64, 40, draw=log_mel),
    "lstm_attention": keras_model(attended, 30, 16),
    "svdf": one_step(svdf(), 40, 32),
    "tcn": keras_model(dilated, 64, 16),
}


@dataclass(frozen=True)
class Case:
    """A model as a SavedModel, the inputs that calibrate it, those that are compared, and its answers to them."""

    model: Model
    folder: Path
    calibration: np.ndarray
    compared: np.ndarray
    wanted: Sequence[np.ndarray]

    @classmethod
    def of(cls, model: Model, folder: Path, seed: int = 0, batch: int | None = 1) -> Case:
        """Written into a folder, in which the official converter finds all that it needs."""
        import tensorflow as tf

        model.save(folder / "saved", seed, 1 if model.stateful else batch)
        calibration, compared = (
            model.draw(np.random.default_rng([seed, which]), (count, *model.shape))
            for which, count in enumerate((_CALIBRATE, _COMPARE))
        )
        np.save(folder / "samples.npy", calibration)
        signature = tf.saved_model.load(str(folder / "saved")).signatures["serving_default"]
        (given,) = signature.structured_input_signature[1]
        wanted = []
        for row in compared:
            found = signature(**{given: tf.constant(row[None])})
            wanted.append(np.concatenate([np.ravel(found[name]) for name in sorted(found)]))
        return cls(model, folder, calibration, compared, wanted)

    def ours(self, mode: Mode, **options: Any) -> jfuse.Model:
        """Our file in a mode.   options: for jfuse.convert, besides the model's"""
        calls = [[row[None]] for row in self.calibration]
        streams = [calls[i : i + _CALLS] for i in range(0, len(calls), _CALLS)]
        data: Any = streams if self.model.stateful else self.calibration[:, None]
        return jfuse.convert(
            self.folder / "saved",
            jfuse.Inputs(signatures=["serving_default"]),
            quantize=mode.recipe,
            target=mode.target,
            calibration=data if mode.integers else None,
            verify=False,
            **{**self.model.options, **options},
        )

    def official(self, mode: Mode, converter: Official) -> tuple[bytes, float] | str:
        """The official converter's file and the SNR of its first calls, in a row of a stateful model."""
        theirs = converter.run(official, self.folder, mode.official) if mode.official else "has no such mode"
        if isinstance(theirs, str):
            return theirs
        try:
            if self.model.stateful:
                return theirs, snr_db(answers(theirs, self.compared), self.wanted)
            return theirs, snr_db([answers(theirs, x[None])[0] for x in self.compared], self.wanted)
        except (RuntimeError, ValueError) as error:  # LiteRT refuses some official files
            return f"LiteRT: {' '.join(str(error).split())}"[:200]


def in_micro(data: bytes, samples: np.ndarray) -> list[np.ndarray]:
    """The outputs of each sample in tflite-micro, one after the other."""
    with MicroInterpreter(data) as interpreter:
        (given,) = interpreter.inputs
        calls = (interpreter.run({given: row[None]}) for row in samples)
        return [np.concatenate([np.ravel(call[name]) for name in sorted(call)]) for call in calls]


def on_xla(lite: jfuse.Model, samples: np.ndarray) -> list[np.ndarray]:
    """The same on XLA."""
    (given,), stream = lite.signature().input_names, lite.stream(quick=True)
    calls = (stream.run({given: row[None]}) for row in samples)
    return [np.concatenate([np.ravel(call[name]) for name in sorted(call)]) for call in calls]


def nearness(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float | str:
    """The word "equal" where that is so in every bit, else the SNR of one against the other."""
    return "equal" if all(map(np.array_equal, found, wanted)) else snr_db(found, wanted)


def of_ours(case: Case, mode: Mode, lite: jfuse.Model) -> dict[str, Any]:
    """Measure our file alone: size, noise, agreement of XLA."""
    data = lite.to_bytes()
    left = sorted({f"{q.op}: {q.reason}" for q in lite.report.quantized if q.reason}) if mode.integers else []
    row: dict[str, Any] = {"bytes": len(data), "left_float": left}
    loaded = jfuse.load(case.folder / "ours.tflite") if case.folder.joinpath("ours.tflite").write_bytes(data) else None
    assert loaded is not None
    same = np.repeat(case.compared[:1], 5, axis=0)
    micro_alone = mode.target == "tflite-micro" and mode.recipe == "int16x8"
    real = partial(as_real, lite)
    if not micro_alone:
        found = answers(data, given := as_given(lite, case.compared), as_real=False)
        row["snr_db"] = snr_db(real(found), case.wanted)
        row["xla"] = nearness(on_xla(loaded, given), found)
        if not case.model.stateful:
            row["alike"] = all_equal(answers(data, as_given(lite, same), as_real=False))
    if mode.target == "tflite-micro" and has_micro():
        found = in_micro(data, given := as_given(lite, case.compared))
        row["micro_snr_db"] = snr_db(real(found), case.wanted)
        row["xla_as_micro"] = as_micro(loaded, given, found)
        if not case.model.stateful:
            row["micro_alike"] = all_equal(in_micro(data, as_given(lite, same)))
    return row


def as_micro(loaded: jfuse.Model, given: np.ndarray, found: Sequence[np.ndarray]) -> float | str:
    """How near XLA is that rounds as tflite-micro does, or that an operator has no integer body for it."""
    try:
        return nearness(on_xla(loaded.rounded_as("tflm"), given), found)
    except JfuseError as error:
        return error.message


def all_equal(found: Sequence[np.ndarray]) -> bool:
    """Whether all answers are the first one."""
    return all(np.array_equal(answer, found[0]) for answer in found)


def as_given(lite: jfuse.Model, samples: np.ndarray) -> np.ndarray:
    """Inputs in the type that the file takes."""
    from jfuse.quantization.real_numbers.numbers import as_integers

    (var,) = lite.signature().graph.inputs[: len(lite.signature().input_names)]
    return samples if var.type.quantization is None else as_integers(samples, var.type)


def as_real(lite: jfuse.Model, found: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The numbers that a file's outputs stand for; all of one type."""
    from jfuse.quantization.real_numbers.numbers import as_real as real

    quantization = lite.signature().graph.outputs[0].type.quantization
    return list(found) if quantization is None else [real(answer, quantization) for answer in found]


def rows(name: str, modes: Sequence[str], rounds: int, seed: int, converter: Official | None) -> list[dict[str, Any]]:
    """A row for each mode of one model.   converter: None for jfuse alone"""
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        case = Case.of(MODELS[name], Path(temporary), seed)
        for mode in modes:
            row: dict[str, Any] = {"model": name, "mode": mode}
            try:
                lite = case.ours(MODES[mode])
            except jfuse.JfuseError as error:
                row["refused"] = " ".join(str(error).split())[:300]
            else:
                row |= of_ours(case, MODES[mode], lite)
                if converter is not None:
                    row |= beside_official(case, MODES[mode], lite.to_bytes(), rounds, converter)
            found.append(row)
            print(line(row), flush=True)
    return found


def beside_official(case: Case, mode: Mode, ours: bytes, rounds: int, converter: Official) -> dict[str, Any]:
    """Measure the official converter's file, if there is one, and both latencies."""
    theirs = case.official(mode, converter)
    if isinstance(theirs, str):
        return {"official_error": theirs}
    data, noise = theirs
    row: dict[str, Any] = {"official_bytes": len(data), "official_snr_db": noise}
    if not case.model.stateful:
        row["official_alike"] = all_equal(answers(data, np.repeat(case.compared[:1], 5, axis=0)))
    row["ms"], row["official_ms"] = latencies(ours, data, case.compared[0], rounds)
    return row


def line(row: Mapping[str, Any]) -> str:
    """One row as text."""
    head = f"{row['model']:<19} {row['mode']:<24}"
    if "refused" in row:
        return f"{head} refused: {row['refused']}"
    parts = [f"{row['bytes']:>9,} B"]
    parts += [f"{row['snr_db']:5.1f} dB"] if "snr_db" in row else []
    parts += [f"micro {row['micro_snr_db']:5.1f} dB"] if "micro_snr_db" in row else []
    for key in ("xla", "xla_as_micro"):
        if key in row:
            parts.append(f"{key} {row[key] if isinstance(row[key], str) else format(row[key], '.0f')}")
    parts += [f"NOT {key}" for key in ("alike", "micro_alike") if not row.get(key, True)]
    parts += [f"{len(row['left_float'])} float: {row['left_float'][0][:60]}"] if row["left_float"] else []
    if "official_error" in row:
        parts.append(f"official: {row['official_error'][:80]}")
    elif "official_bytes" in row:
        parts.append(f"official {row['official_snr_db']:.1f} dB, size {row['bytes'] / row['official_bytes']:.2f}")
        parts += ["official not alike"] if not row.get("official_alike", True) else []
        parts.append(f"time {row['ms'] / row['official_ms']:.2f} of {row['official_ms']:.3f} ms")
    return f"{head} {' | '.join(parts)}"


def write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Put the rows into the JSON; rows of other models and modes stay as they are."""
    kept = json.loads(path.read_text())["rows"] if path.is_file() else []
    table = {(row["model"], row["mode"]): row for row in (*kept, *found)}
    order = [key for key in ((name, mode) for name in MODELS for mode in MODES) if key in table]
    machine = f"{platform.machine()}, {cores()} cores"
    path.write_text(json.dumps({"machine": machine, "rows": [table[key] for key in order]}, indent=1) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("-k", nargs="*", default=[])
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--alone", action="store_true", help="without the official converter")
    options = parser.parse_args()
    converter = None if options.alone else Official()
    for name in MODELS:
        if options.k and not any(k in name for k in options.k):
            continue
        found = rows(name, options.modes, options.rounds, options.seed, converter)
        if options.json is not None:
            write(options.json, found)
    if converter is not None:
        converter.close()


if __name__ == "__main__":
    main()
