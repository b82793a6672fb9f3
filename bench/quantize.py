"""Quantized files: jfuse against the official converter, in the same modes, on the same models and samples, in one run.

    python -m bench.quantize [--json bench/results/quantize.json] [-k SUBSTRING ...] [--modes int8 ...] [--rounds 20]
    python -m bench.quantize --set applications [--edge PYTHON] [--keep FOLDER] [--json ...quantize_applications.json]
    python -m bench.quantize --set trained [--edge PYTHON] [--compare 2000] [--json bench/results/quantize_trained.json]
    python -m bench.quantize --seeds 3 [--json bench/results/quantize_seeds.json] [-k ...] [--modes ...]

Models are awake Keras models with a batch of 1: small ones, the Keras applications of the tests, or networks that are
trained here on generated data. 64 drawn inputs calibrate, 32 or 16 others are compared (128 and 256 of trained ones).
Of a classifier's 256 answers a few unsure ones make most of the noise: two files that are alike differ by a decibel
there, and by 0.2 dB in 2,000 (--compare 2000; a row says how many).
SNR is that of all outputs in LiteRT with its default delegates, against TensorFlow in floats: 10 log10 of the power of
the answers over that of the errors. Latency is the least of many rounds in turns, one thread. The official converter
reads a SavedModel in a process of its own, as some conversions end theirs; the modes that it lacks have no figures of
it. --edge names a Python with ai-edge-quantizer, which quantizes our float
file on the same samples. --keep keeps the files of both in a folder for the next run. Small models are also measured
with data where the mode needs none, and plainly: integers with the ranges of the calibration and biases as they are,
weights of 4 bits with the largest as the last step. Where the file is in integers, XLA and LiteRT answer three samples,
which must be equal in every bit, unless some operators stay float; what host callbacks compute, as it has no integer
body, is named in the row.

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
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter

import jfuse
from bench.quantize_models import MODES, OFFICIAL, SETS, ModelSet
from jfuse import QuantizeRule, Recipe
from jfuse.ir.types import DType
from jfuse.running.cores import cores

_NEED_DATA = ("int8", "int16x8", "int4_gptq")
_IN_INTEGERS = {"int8": 8, "int16x8": 16}
_PLAIN = {
    **{
        mode: QuantizeRule("integer", activation_bits=bits, range_algorithm="minmax", min_elements=0)
        for mode, bits in _IN_INTEGERS.items()
    },
    "int4_weights": QuantizeRule("weight_only", weight_bits=4),
}
_TAKE_DATA = ("dynamic", "int8_weights", "int4_weights", "int2_weights")
EDGE_RECIPES = {
    "dynamic": "dynamic_wi8_afp32",
    "int8": "static_wi8_ai8",
    "int16x8": "static_wi8_ai16",
    "int8_weights": "weight_only_wi8_afp32",
    "int4_weights": "weight_only_wi4_afp32",
}
"""The recipes of ai-edge-quantizer that make what our modes make."""
_EXACT = 3  # samples that XLA and LiteRT answer
_MOST_S = 6.0  # of the timing of one row, beyond three rounds
_TURN_MS = 2.0  # long enough for the clock, short enough to be interrupted seldom
_BITS16 = "EXPERIMENTAL_TFLITE_BUILTINS_ACTIVATIONS_INT16_WEIGHTS_INT8"


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
    return _made_apart(command, folder / f"{mode}.tflite")


def edge_apart(python: str, folder: Path, mode: str) -> bytes | str:
    """The file that ai-edge-quantizer makes of our float one, with an interpreter that has it; the reason otherwise."""
    out = folder / f"edge_{mode}.tflite"
    script = Path(__file__).with_name("quantize_edge.py")
    given = [folder / "float.tflite", folder / "samples.npy", EDGE_RECIPES[mode], out]
    return _made_apart([python, str(script), *map(str, given)], out)


def _made_apart(command: Sequence[str], path: Path) -> bytes | str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=900)
    except subprocess.TimeoutExpired:
        return "takes longer than 900 s"
    if done.returncode or not path.is_file():
        return (done.stderr.strip().splitlines() or [f"exit code {done.returncode}"])[-1][:200]
    return path.read_bytes()


def answers(data: bytes, samples: np.ndarray, *, as_real: bool = True) -> list[np.ndarray]:
    """The outputs of each sample in LiteRT.

    as_real: integers that stand for floats are made of the samples, and read as floats; else all is as the file has it.
    """
    interpreter = Interpreter(model_content=data, num_threads=1)
    ((_, _),) = interpreter.get_signature_list().items()
    interpreter.allocate_tensors()
    (given,) = interpreter.get_input_details()
    found = []
    for row in samples:
        interpreter.set_tensor(given["index"], _steps(row[None], given) if as_real else row[None])
        interpreter.invoke()
        outputs = ((interpreter.get_tensor(d["index"]), d) for d in interpreter.get_output_details())
        found.append(np.concatenate([np.ravel(_numbers(v, d) if as_real else v) for v, d in outputs]))
    return found


def _steps(array: np.ndarray, detail: Mapping[str, Any]) -> np.ndarray:
    """An input in the type that a file takes."""
    scale, zero = detail["quantization"]
    if not scale:
        return array
    ends = np.iinfo(detail["dtype"])
    steps: np.ndarray = np.clip(np.rint(array / scale) + zero, ends.min, ends.max).astype(detail["dtype"])
    return steps


def _numbers(array: np.ndarray, detail: Mapping[str, Any]) -> np.ndarray:
    scale, zero = detail["quantization"]
    return (array.astype(np.float32) - zero) * np.float32(scale) if scale else array


def snr_db(found: Sequence[np.ndarray], wanted: Sequence[np.ndarray]) -> float:
    """Of all samples together."""
    a, b = (np.stack(list(x)).astype(np.float64) for x in (found, wanted))
    noise = float(np.square(a - b).sum())
    return float(10 * np.log10(float(np.square(b).sum()) / noise)) if noise else float("inf")


def latencies(ours: bytes, theirs: bytes, sample: np.ndarray, rounds: int) -> tuple[float, float]:
    """The least milliseconds of two files."""
    found = least_ms([ours, theirs], sample, rounds)
    return found[0], found[1]


def least_ms(files: Sequence[bytes], sample: np.ndarray, rounds: int) -> list[float]:
    """The least milliseconds of each file: what else runs on the machine makes all others longer."""
    interpreters = [Interpreter(model_content=data, num_threads=1) for data in files]
    for interpreter in interpreters:
        interpreter.allocate_tensors()
        (given,) = interpreter.get_input_details()
        interpreter.set_tensor(given["index"], _steps(sample[None], given))
        interpreter.invoke()
    started = time.perf_counter()
    interpreters[-1].invoke()
    count = max(1, int(_TURN_MS / (1e3 * (time.perf_counter() - started))))
    least = [float("inf")] * len(files)
    until = time.perf_counter() + _MOST_S
    for turn in range(rounds):
        if turn > 2 and time.perf_counter() > until:
            break
        for i in range(len(files))[:: 1 if turn % 2 else -1]:
            started = time.perf_counter()
            for _ in range(count):
                interpreters[i].invoke()
            least[i] = min(least[i], 1e3 * (time.perf_counter() - started) / count)
    return least


def exactness(data: bytes, samples: np.ndarray) -> dict[str, Any]:
    """How many numbers of XLA's answers are not LiteRT's in every bit, what host callbacks compute, what is in floats.

    Floats between integers, as those of an RSQRT that has no kernel of 16 bits, may differ by a last bit, and then what
    is quantized of them by a step.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.tflite"
        path.write_bytes(data)
        loaded = jfuse.load(path)
    (name,) = loaded.signature().input_names
    found = [np.concatenate([np.ravel(v) for v in loaded.run({name: row[None]}).values()]) for row in samples]
    wrong = sum(int(np.sum(a != b)) for a, b in zip(found, answers(data, samples), strict=True))
    floats = Counter(
        eqn.op.name
        for eqn in loaded.signature().graph.eqns
        if eqn.op.scales is None and any(v.type.dtype is DType.f32 for v in eqn.outputs)
    )
    return {"unequal": wrong, "hosted": [*loaded.runner().notes()], "floats": dict(floats)}


@dataclass(frozen=True)
class Case:
    """A model with the samples that calibrate it, those that are compared, and its answers to them in floats."""

    model: Any
    calibration: np.ndarray
    compared: np.ndarray
    wanted: Sequence[np.ndarray]

    @classmethod
    def of(cls, name: str, seed: int = 0, of: ModelSet = SETS["small"]) -> Case:
        """That of a model of a set by name; weights and samples of a seed."""
        source = of.models[name]
        model = source.build(seed)
        calibration = source.draw(model, of.calibrate, 2 * seed + 1)
        compared = source.draw(model, of.compare, 2 * seed + 2)
        wanted = [np.concatenate([np.ravel(v) for v in _flat(model(row[None]))]) for row in compared]
        return cls(model, calibration, compared, wanted)

    def save(self, folder: Path) -> None:
        """Save the inputs of the other quantizers: a SavedModel, the samples, our float file."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.model.export(folder / "saved", verbose=False)
        np.save(folder / "samples.npy", self.calibration)
        self.floats.save(folder / "float.tflite")

    def official(self, folder: Path, mode: str) -> tuple[bytes, float] | str:
        """The official converter's file and its SNR; the reason where there is none.   folder: as `save` left it"""
        return self._measured(official_apart(folder, mode) if mode in OFFICIAL else "has no such mode")

    def edge(self, python: str, folder: Path, mode: str) -> tuple[bytes, float] | str:
        """The same of ai-edge-quantizer.   python: an interpreter that has it"""
        return self._measured(edge_apart(python, folder, mode) if mode in EDGE_RECIPES else "has no such recipe")

    def _measured(self, theirs: bytes | str) -> tuple[bytes, float] | str:
        try:
            return theirs if isinstance(theirs, str) else (theirs, self.snr_db(theirs))
        except (RuntimeError, ValueError) as error:  # LiteRT refuses some of their files
            return f"LiteRT: {' '.join(str(error).split())}"[:200]

    @cached_property
    def source(self) -> jfuse.Model:
        """The model as jfuse reads it, which is what it quantizes: as the official converter, not its float file."""
        return jfuse.load(self.model)

    @cached_property
    def floats(self) -> jfuse.Model:
        """Our float file."""
        return jfuse.convert(self.model, verify=False)

    def ours(self, mode: Any, *, calibrated: bool) -> bytes:
        """Our file in a mode."""
        data = self.calibration if calibrated else None
        return jfuse.quantize(self.source, mode, data, verify=False).to_bytes()

    def snr_db(self, data: bytes) -> float:
        """The SNR of a file."""
        return snr_db(answers(data, self.compared), self.wanted)


@dataclass(frozen=True)
class Others:
    """The other quantizers, and where their files are kept from one run to the next.

    edge: the Python that has ai-edge-quantizer; keep: a folder; either may be None.
    """

    edge: str | None = None
    keep: Path | None = None

    def of(self, case: Case, key: str, mode: str, fresh: Callable[[], Path]) -> dict[str, tuple[bytes, float] | str]:
        """Quantize with each of them in one mode.   fresh: makes the folder with their inputs"""
        found = {"official": self._kept(case, f"{key}_{mode}_official", lambda: case.official(fresh(), mode))}
        python = self.edge
        if python is not None:
            found["edge"] = self._kept(case, f"{key}_{mode}_edge", lambda: case.edge(python, fresh(), mode))
        return found

    def _kept(self, case: Case, name: str, make: Callable[[], tuple[bytes, float] | str]) -> tuple[bytes, float] | str:
        if self.keep is None:
            return make()
        path, why = self.keep / f"{name}.tflite", self.keep / f"{name}.txt"
        if path.is_file():
            data = path.read_bytes()
            return data, case.snr_db(data)
        if not why.is_file():
            made = make()
            if not isinstance(made, str):
                path.write_bytes(made[0])
                return made
            why.write_text(made)
        return why.read_text()


def rows(name: str, modes: Sequence[str], rounds: int, of: ModelSet, others: Others) -> list[dict[str, Any]]:
    """A row for each mode of one model."""
    case = Case.of(name, of=of)
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        fresh = cache(lambda: _saved(case, Path(temporary)))
        for mode in modes:
            ours = case.ours(mode, calibrated=mode in _NEED_DATA)
            row: dict[str, Any] = {"model": name, "mode": mode, "bytes": len(ours), "snr_db": case.snr_db(ours)}
            row["compared"] = len(case.compared)
            if mode in _PLAIN and of.is_varied:
                row["plain_snr_db"] = case.snr_db(case.ours(Recipe((_PLAIN[mode],)), calibrated=True))
            if mode in _TAKE_DATA and of.is_varied:
                row["calibrated_snr_db"] = case.snr_db(case.ours(mode, calibrated=True))
            if mode in _IN_INTEGERS:
                row |= exactness(ours, case.compared[:_EXACT])
            theirs = others.of(case, name, mode, fresh)
            files = {who: made[0] for who, made in theirs.items() if not isinstance(made, str)}
            for who, made in theirs.items():
                if isinstance(made, str):
                    row[f"{who}_error"] = made
                else:
                    row |= {f"{who}_bytes": len(made[0]), f"{who}_snr_db": made[1]}
            if files:
                row["ms"], *times = least_ms([ours, *files.values()], case.compared[0], rounds)
                row |= {f"{who}_ms": ms for who, ms in zip(files, times, strict=True)}
            found.append(row)
            print(line(row), flush=True)
    return found


def _saved(case: Case, folder: Path) -> Path:
    case.save(folder)
    return folder


def rows_of_seeds(name: str, modes: Sequence[str], seeds: int, of: ModelSet, others: Others) -> list[dict[str, Any]]:
    """A row for each mode of one model, with the SNR of each seed; another file's is None where there is none."""
    table: dict[str, dict[str, Any]] = {mode: {"model": name, "mode": mode, "snr_db": []} for mode in modes}
    for seed in range(seeds):
        case = Case.of(name, seed, of)
        with tempfile.TemporaryDirectory() as temporary:
            fresh = cache(lambda case=case, folder=temporary: _saved(case, Path(folder)))
            for mode, row in table.items():
                row["snr_db"].append(case.snr_db(case.ours(mode, calibrated=mode in _NEED_DATA)))
                for who, made in others.of(case, f"{name}_{seed}" if seed else name, mode, fresh).items():
                    row.setdefault(f"{who}_snr_db", []).append(None if isinstance(made, str) else made[1])
    for row in table.values():
        print(line_of_seeds(row), flush=True)
    return list(table.values())


def _flat(outputs: Any) -> list[np.ndarray]:
    return [np.asarray(v) for v in (outputs if isinstance(outputs, list | tuple) else [outputs])]


NAMES = {"official": "the official", "edge": "ai-edge-quantizer"}


def line(row: Mapping[str, Any]) -> str:
    """One row as text."""
    head = f"{row['model']:<16} {row['mode']:<12} {row['bytes']:>10,} B {row['snr_db']:>6.1f} dB"
    if "calibrated_snr_db" in row:
        head += f" ({row['calibrated_snr_db']:.1f} with data)"
    if "plain_snr_db" in row:
        head += f" ({row['plain_snr_db']:.1f} plainly)"
    if "unequal" in row:
        floats = [f"{name} ({count}) in floats" for name, count in row.get("floats", {}).items()]
        hosted = ", ".join([*row["hosted"], *floats])
        head += "   exact" if not row["unequal"] else f"   {row['unequal']} numbers differ from XLA's"
        head += f" ({hosted})" if hosted else ""
    return head + "".join(_beside(row, who) for who in NAMES)


def _beside(row: Mapping[str, Any], who: str) -> str:
    """How another quantizer's file compares."""
    if f"{who}_error" in row:
        return f"   {NAMES[who]}: {row[f'{who}_error']}"
    if f"{who}_bytes" not in row:
        return ""
    size, time_ratio = row["bytes"] / row[f"{who}_bytes"], row["ms"] / row[f"{who}_ms"]
    above = row["snr_db"] - row[f"{who}_snr_db"]
    return (
        f"   {NAMES[who]}: {size:.3f} of the bytes, {above:+.1f} dB, {time_ratio:.2f} of the {row[f'{who}_ms']:.3f} ms"
    )


def line_of_seeds(row: Mapping[str, Any]) -> str:
    """One row as text: the mean of the seeds, the least and the greatest."""
    head = f"{row['model']:<16} {row['mode']:<12} {_spread(row['snr_db'])} dB"
    for who in NAMES:
        pairs = zip(row["snr_db"], row.get(f"{who}_snr_db", [None] * len(row["snr_db"])), strict=True)
        above = [ours - theirs for ours, theirs in pairs if theirs is not None]
        head += f", {_spread(above, '+')} dB above {NAMES[who]}" if above else ""
    return head


def _spread(values: Sequence[float], sign: str = "") -> str:
    mean = sum(values) / len(values)
    return f"{mean:{sign}.1f} ({min(values):{sign}.1f} to {max(values):{sign}.1f})"


def write(path: Path, found: Sequence[Mapping[str, Any]]) -> None:
    """Put the rows into the JSON; rows of other models and modes stay as they are."""
    kept = json.loads(path.read_text())["rows"] if path.is_file() else []
    table = {(row["model"], row["mode"]): row for row in (*kept, *found)}
    names = dict.fromkeys(name for of in SETS.values() for name in of.models)  # some sets share names
    order = [key for key in ((name, mode) for name in names for mode in MODES) if key in table]
    machine = f"{platform.machine()}, {cores()} cores"
    path.write_text(json.dumps({"machine": machine, "rows": [table[key] for key in order]}, indent=1) + "\n")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--set", choices=SETS, default="small")
    parser.add_argument("-k", nargs="*", default=[])
    parser.add_argument("--modes", nargs="*", choices=MODES)
    parser.add_argument("--rounds", type=int, default=50)
    parser.add_argument("--seeds", type=int, default=0)
    parser.add_argument("--compare", type=int, help="how many inputs are compared")
    parser.add_argument("--edge", help="a Python that has ai-edge-quantizer")
    parser.add_argument("--keep", type=Path, help="where the files of the other quantizers are kept")
    parser.add_argument("--official", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.official is not None:
        (mode,) = options.modes
        (options.official / f"{mode}.tflite").write_bytes(official(options.official, mode))
        return
    of, others = SETS[options.set], Others(options.edge, options.keep)
    of = replace(of, compare=options.compare or of.compare)
    if options.keep is not None:
        options.keep.mkdir(parents=True, exist_ok=True)
    for name in (n for n in of.models if not options.k or any(k in n for k in options.k)):
        modes = options.modes or of.modes
        if options.seeds:
            found = rows_of_seeds(name, modes, options.seeds, of, others)
        else:
            found = rows(name, modes, options.rounds, of, others)
        if options.json is not None:
            write(options.json, found)


if __name__ == "__main__":
    main()
