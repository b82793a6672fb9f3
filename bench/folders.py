"""Conversion of SavedModel folders: jfuse against the official converter, in one process and in turns.

    python -m bench.folders [--json bench/results/folders.json] [--rounds 3] [NAME ...]

A row has the seconds of the first conversion of a folder and the median of the later ones, and what share of them is
the reading of the folder, as jfuse's report has it. Both converters are warm: each has converted another model before.
Neither verifies. The seconds are of the process's two kinds: of the clock, and of the processor, which other processes
on the machine disturb less.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from jfuse.running.cores import cores


def _sequence(*layers: Any) -> Any:
    import keras

    return keras.Sequential(list(layers))


def _dense() -> Any:
    import keras

    return _sequence(keras.Input((4,)), keras.layers.Dense(3, activation="relu"))


def _lstm() -> Any:
    import keras

    return _sequence(keras.Input((20, 8)), keras.layers.LSTM(16), keras.layers.Dense(4, activation="softmax"))


def _gru() -> Any:
    import keras

    return _sequence(keras.Input((20, 8)), keras.layers.GRU(16, return_sequences=True), keras.layers.Dense(4))


def _mobilenet_v2() -> Any:
    import keras

    return keras.applications.MobileNetV2(weights=None)


def _resnet50() -> Any:
    import keras

    return keras.applications.ResNet50(weights=None)


MODELS: Mapping[str, Callable[[], Any]] = {
    "lstm": _lstm,
    "gru": _gru,
    "mobilenet_v2": _mobilenet_v2,
    "resnet50": _resnet50,
}


def exported(build: Callable[[], Any], folder: Path) -> Path:
    """The model as `model.export` writes it, with a batch of 1."""
    import tensorflow as tf

    model = build()
    spec = tf.TensorSpec((1, *model.input_shape[1:]), model.inputs[0].dtype, name="x")
    model.export(str(folder), input_signature=[spec], verbose=False)
    return folder


def ours(folder: Path) -> dict[str, float]:
    """jfuse's conversion, and in `import` the share of it that is reading and walking the folder."""
    import jfuse

    lite = jfuse.convert(folder, verify=False)
    lite.to_bytes()
    return dict(lite.report.seconds)


def official(folder: Path) -> dict[str, float]:
    """The official converter's."""
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(str(folder))
    converter.target_spec.supported_ops = [tf.lite.OpsSet.TFLITE_BUILTINS, tf.lite.OpsSet.SELECT_TF_OPS]
    converter.convert()
    return {}


def timed(convert: Callable[[Path], Mapping[str, float]], folder: Path) -> dict[str, float]:
    """Seconds of one conversion, and of its steps."""
    clock, processor = time.perf_counter(), time.process_time()
    steps = convert(folder)
    return {"clock": time.perf_counter() - clock, "processor": time.process_time() - processor, **steps}


def measure(name: str, rounds: int) -> dict[str, Any]:
    """A row: for each converter the first conversion and the medians of the later ones, and the ratios."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = exported(MODELS[name], Path(temporary, name))
        times: dict[str, list[dict[str, float]]] = {"jfuse": [], "official": []}
        for _ in range(rounds + 1):
            times["jfuse"].append(timed(ours, folder))
            times["official"].append(timed(official, folder))
    row: dict[str, Any] = {"model": name, "cores": cores()}
    for converter, (first, *later) in times.items():
        medians = {step: statistics.median(t.get(step, 0.0) for t in later) for step in later[0]}
        row[converter] = {"first": first, "later": medians}
    for kind in ("clock", "processor"):
        row[f"ratio_{kind}"] = row["official"]["later"][kind] / row["jfuse"]["later"][kind]
        row[f"first_ratio_{kind}"] = row["official"]["first"][kind] / row["jfuse"]["first"][kind]
    return row


def line(row: Mapping[str, Any]) -> str:
    """A row for a terminal."""
    mine, theirs = row["jfuse"], row["official"]
    first = f"first {mine['first']['clock']:6.2f} s against {theirs['first']['clock']:6.2f} s"
    later = f"later {mine['later']['clock']:6.2f} s against {theirs['later']['clock']:6.2f} s"
    return (
        f"{row['model']:<14} {first} ({row['first_ratio_clock']:.2f}x), {later} ({row['ratio_clock']:.2f}x; of the "
        f"processor {row['ratio_processor']:.2f}x), import {mine['later'].get('import', 0.0):.2f} s"
    )


def main() -> None:
    """Measure, print, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", default=list(MODELS), metavar="NAME")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        warm = exported(_dense, Path(temporary, "dense"))
        for convert in (ours, official):
            convert(warm)
    rows = []
    for name in arguments.names:
        rows.append(measure(name, arguments.rounds))
        print(line(rows[-1]), flush=True)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
