"""Mutated .tflite files: loaded, printed, saved, and executed on XLA and in LiteRT. Nothing may end or hold the caller.

    python -m bench.fuzz --minutes 30 --out bench/results/fuzz.json

Files are mutated in their tables (indices, types, shapes, options, operators, signatures, quantization), some in their
bytes. A file that ends in a way not seen before is mutated further. The work is done in child processes: one that dies
is a crash of the caller, and the next one goes on behind the file that it was at.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import flatbuffers
import jax
import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.errors import JfuseError
from jfuse.ir.graph import Program
from jfuse.ir.text import format_program
from jfuse.limits import Limits
from jfuse.model import Model
from jfuse.proof.inputs import draws, size_choices
from jfuse.running.interpreter import LiteRt
from jfuse.running.named_file import with_signature
from jfuse.running.worker import LiteRtFailed
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.read.test_sparse import in_blocks, product
from tests.tflite.read.test_whole import integer_dense, integer_lstm

LIMITS = Limits(seconds=2.0, memory_bytes=2**30, constant_bytes=2**28)
HANG_S = 20.0  # for one file, whatever is done with it; each call on XLA and in LiteRT may take two
_EVERY = 400  # files between two reports of a child, which then also frees what jax has compiled
_MOST_KEPT = 2000
_REFUSED = "not loaded: "
_NUMBERS = (-1, 0, 1, 2, 3, 7, 255, 65536, 2**31 - 1, -(2**31))

SEEDS: tuple[Callable[[], Program], ...] = (
    programs.dense,
    programs.loop,
    programs.branches,
    programs.lstm,
    integer_dense,
    lambda: integer_lstm(3),
    lambda: product(in_blocks()[0]),
)


class Mutator:
    """Draws mutations of files."""

    def __init__(self, rng: np.random.Generator) -> None:
        self._rng = rng

    def mutated(self, data: bytes) -> bytes:
        """Another file."""
        if self._rng.random() < 0.2:
            return self._bytes(data)
        builder = flatbuffers.Builder(len(data) + 2**12)
        try:
            model = schema.ModelT.InitFromPackedBuf(data, 0)
            for _ in range(int(self._rng.integers(1, 4))):
                self._table(model)
            builder.Finish(model.Pack(builder), b"TFL3")
        except Exception:  # the generated module checks nothing that it reads, and writes no numbers out of range
            return self._bytes(data)
        return bytes(builder.Output())

    def _bytes(self, data: bytes) -> bytes:
        copy = bytearray(data)
        for _ in range(int(self._rng.integers(1, 6))):
            place = int(self._rng.integers(len(copy)))
            copy[place] = int(self._rng.integers(256))
        return bytes(copy)

    def _table(self, model: Any) -> None:
        """Change one thing of one table."""
        tables = [*_tables(model)]
        table = tables[int(self._rng.integers(len(tables)))]
        names = [n for n, v in vars(table).items() if v is not None and not isinstance(v, str | bytes)]
        if not names:
            return
        name = names[int(self._rng.integers(len(names)))]
        value = getattr(table, name)
        if isinstance(value, bool):
            setattr(table, name, not value)
        elif isinstance(value, int):
            setattr(table, name, self._number(value))
        elif isinstance(value, float):
            setattr(table, name, float(self._rng.choice([0.0, -1.0, np.inf, np.nan, 1e30])))
        elif isinstance(value, np.ndarray | list) and len(value):
            setattr(table, name, self._vector(value))

    def _number(self, value: int) -> int:
        return value + int(self._rng.choice([-1, 1])) if self._rng.random() < 0.5 else int(self._rng.choice(_NUMBERS))

    def _vector(self, value: Any) -> Any:
        """One element changed, dropped, repeated or moved."""
        items = list(value)
        place, other = (int(i) for i in self._rng.integers(len(items), size=2))
        kind = int(self._rng.integers(4))
        if kind == 0:
            del items[place]
        elif kind == 1:
            items.insert(other, items[place])
        elif kind == 2:
            items[place], items[other] = items[other], items[place]
        elif isinstance(items[place], int | np.integer):
            items[place] = self._number(int(items[place]))
        if isinstance(value, np.ndarray):
            with np.errstate(all="ignore"):
                return np.array([int(i) if value.dtype.kind in "iu" else i for i in items]).astype(value.dtype)
        return items


def _tables(found: Any) -> Iterator[Any]:
    """A table and all that hang on it."""
    yield found
    for value in vars(found).values():
        if hasattr(value, "InitFromObj"):
            yield from _tables(value)
        elif isinstance(value, list):
            for item in value:
                if hasattr(item, "InitFromObj"):
                    yield from _tables(item)


@dataclass
class Child:
    """The work of one process, from one file on."""

    seed: int
    start: int
    execute: float
    counts: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    ways: set[str] = field(default_factory=set)

    def run(self, until: float, most: int) -> None:
        """Files until the time is over."""
        kept = [to_bytes(make()) for make in SEEDS]
        for number in range(self.start, most):
            rng = np.random.default_rng([self.seed, number])
            data = Mutator(rng).mutated(kept[int(rng.integers(len(kept)))])
            _say({"at": number, "file": data.hex() if len(data) < 65536 else ""})
            started = time.monotonic()
            way = self._file(data, rng)
            if time.monotonic() - started > HANG_S:
                self.bad.append(f"hang at {number}")
            if way not in self.ways and len(kept) < _MOST_KEPT:
                self.ways.add(way)
                if not way.startswith(_REFUSED):
                    kept.append(data)
            if (number + 1 - self.start) % _EVERY == 0:
                self._report(number)
                jax.clear_caches()
            if time.monotonic() > until:
                break
        self._report(most)

    def _report(self, number: int) -> None:
        _say({"counts": self.counts, "bad": self.bad, "ways": len(self.ways)})
        self.counts, self.bad = Counter(), []

    def _file(self, data: bytes, rng: np.random.Generator) -> str:
        """What became of a file, in words without its numbers."""
        try:
            program = load_tflite(data, limits=LIMITS)
            format_program(program)
            to_bytes(program)
        except JfuseError as error:
            self.counts["load: refused"] += 1
            return _REFUSED + _plain(error)
        except Exception as error:
            self.bad.append(f"load: {type(error).__name__}: {error}"[:300])
            return _REFUSED + _plain(error)
        self.counts["load: loaded"] += 1
        if rng.random() >= self.execute:
            return "loaded"
        self.counts["executed"] += 1
        inputs = self._drawn(program)
        if inputs is None:
            return "loaded"
        return f"{self._xla(program, *inputs)}; {self._litert(program, data, *inputs)}"

    def _drawn(self, program: Program) -> tuple[str, dict[str, np.ndarray]] | None:
        signature = program.signatures[0]
        try:
            (drawn,) = draws(signature, size_choices(signature.graph, {})[0], 0, 1)
        except JfuseError:
            self.counts["inputs: refused"] += 1
            return None
        except Exception as error:
            self.bad.append(f"inputs: {type(error).__name__}: {error}"[:300])
            return None
        return signature.key, dict(drawn)

    def _xla(self, program: Program, key: str, inputs: dict[str, np.ndarray]) -> str:
        try:
            Model(program, limits=LIMITS).stream(quick=True).run(inputs, key)
        except JfuseError as error:
            self.counts["xla: refused"] += 1
            return _plain(error)
        except Exception as error:
            self.bad.append(f"xla: {type(error).__name__}: {error}"[:300])
            return _plain(error)
        self.counts["xla: answered"] += 1
        return "answered"

    def _litert(self, program: Program, data: bytes, key: str, inputs: dict[str, np.ndarray]) -> str:
        try:
            LiteRt(with_signature(data, program), limits=LIMITS).run(key, inputs)
        except LiteRtFailed as error:
            self.counts[f"litert: {error.cause}"] += 1
            return error.cause
        except JfuseError as error:
            self.counts["litert: refused"] += 1
            return _plain(error)
        except Exception as error:
            self.bad.append(f"litert: {type(error).__name__}: {error}"[:300])
            return _plain(error)
        self.counts["litert: answered"] += 1
        return "answered"


def _plain(error: Exception) -> str:
    found = getattr(error, "found", None)
    return re.sub(r"[\d.]+", "0", f"{type(error).__name__}: {getattr(error, 'message', error)} {found}")[:160]


def _say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Start children until the time is over, and write what they found."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=10**9)
    parser.add_argument("--execute", type=float, default=0.15, help="the share of the files that load")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    until = time.monotonic() + 60 * options.minutes
    if options.child is not None:
        Child(options.seed, options.child, options.execute).run(until, options.files)
        return
    found = _watched(options, until)
    print(json.dumps(found, indent=2)[:5000])
    if options.out is not None:
        options.out.write_text(json.dumps(found, indent=2) + "\n")


def _watched(options: argparse.Namespace, until: float) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    bad: list[str] = []
    crashes: list[dict[str, Any]] = []
    started, at, ways = time.monotonic(), -1, 0
    while time.monotonic() < until and at + 1 < options.files:
        left = (until - time.monotonic()) / 60
        arguments = ["--child", at + 1, "--minutes", left, "--files", options.files, "--execute", options.execute]
        command = [sys.executable, "-m", "bench.fuzz", *map(str, arguments), "--seed", str(options.seed)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=None, text=True)
        assert child.stdout is not None
        last = ""
        for line in child.stdout:
            told = json.loads(line)
            if "at" in told:
                at, last = told["at"], told["file"]
            else:
                counts.update(told["counts"])
                bad += told["bad"]
                ways = max(ways, told["ways"])
        if child.wait():
            crashes.append({"file": at, "status": child.returncode, "bytes": last[:20000]})
    return {
        "files": at + 1,
        "seconds": round(time.monotonic() - started),
        "cores": os.cpu_count(),
        "crashes of the caller": crashes,
        "hangs and foreign exceptions": bad,
        "ways to end": ways,
        **dict(sorted(counts.items())),
    }


if __name__ == "__main__":
    main()
