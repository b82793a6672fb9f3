"""Mutated .tflite files: loaded, printed, saved, and executed on XLA and in LiteRT. Nothing may end or hold the caller.

    python -m bench.fuzz --minutes 30 --seed 7 --out bench/results/fuzz.json

Files are mutated as `bench/mutations.py` does. A file that ends in a way not seen before is mutated further. The work
is done in child processes: one that dies is a crash of the caller, and the next one goes on behind the file that it was
at. One that stays at a file for too long prints where each of its threads is, and ends. A seed draws files of its own;
what a run finds is added to what the file of `--out` has from others.

With `--guided` libFuzzer chooses what is mutated further, by the branches of the reader that a file reaches. It needs
atheris (`pip install atheris`), which is no part of the project's environment.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import numpy as np

from bench.mutations import Mutator
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
HANG_S = 120.0  # for one file, whatever is done with it, on a busy machine; each call on XLA and in LiteRT may take two
STUCK_S = 300.0  # for one file; then the child ends itself
_EVERY = 400  # files between two reports of a child, which then also frees what jax has compiled
_MOST_KEPT = 1000
_REFUSED = "not loaded: "
_ENDED = ("crash", "time", "memory")  # of LiteRT's process: what such files are mutated to ends it again, slowly

SEEDS: tuple[Callable[[], Program], ...] = (
    programs.dense,
    programs.loop,
    programs.branches,
    programs.lstm,
    integer_dense,
    lambda: integer_lstm(3),
    lambda: product(in_blocks()[0]),
)


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
        mutator = Mutator()
        for number in range(self.start, most):
            rng = np.random.default_rng([self.seed, number])
            data = mutator.mutated(kept[int(rng.integers(len(kept)))], rng)
            is_new, way = self.take(number, data, rng)
            if is_new and len(kept) < _MOST_KEPT and not way.startswith(_REFUSED) and not way.endswith(_ENDED):
                kept.append(data)
            if time.monotonic() > until:
                break
        self.report()

    def take(self, number: int, data: bytes, rng: np.random.Generator) -> tuple[bool, str]:
        """What became of a file, and whether that is new."""
        _say({"at": number, "file": data.hex() if len(data) < 65536 else ""})
        faulthandler.dump_traceback_later(STUCK_S, exit=True)  # by a thread that needs no lock of Python's
        started = time.monotonic()
        way = self._file(data, rng)
        if time.monotonic() - started > HANG_S:
            self.bad.append(f"{time.monotonic() - started:.0f} s for {data[:4096].hex()}")
        is_new = way not in self.ways
        self.ways.add(way)
        if (number + 1 - self.start) % _EVERY == 0:
            self.report()
            jax.clear_caches()
        return is_new, way

    def report(self) -> None:
        """Tell the parent what was found since the last report."""
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
        except Exception as error:  # a foreign one: what the fuzzer looks for
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
        except Exception as error:  # a foreign one: what the fuzzer looks for
            self.bad.append(f"inputs: {type(error).__name__}: {error}"[:300])
            return None
        return signature.key, dict(drawn)

    def _xla(self, program: Program, key: str, inputs: dict[str, np.ndarray]) -> str:
        try:
            Model(program, limits=LIMITS).stream(quick=True).run(inputs, key)
        except JfuseError as error:
            self.counts["xla: refused"] += 1
            return _plain(error)
        except Exception as error:  # a foreign one: what the fuzzer looks for
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
        except Exception as error:  # a foreign one: what the fuzzer looks for
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
    options = arguments()
    until = time.monotonic() + 60 * options.minutes
    if options.child is not None:
        Child(options.seed, options.child, options.execute).run(until, options.files)
        return
    found = _watched(options, until)
    print(json.dumps(found, indent=2)[:5000])
    if options.out is not None:
        before = json.loads(options.out.read_text()) if options.out.exists() else {}
        options.out.write_text(json.dumps(_added(before, found), indent=2) + "\n")


def arguments() -> argparse.Namespace:
    """Of the parent and of its children."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--files", type=int, default=10**9)
    parser.add_argument("--execute", type=float, default=0.15, help="the share of the files that load")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--guided", action="store_true", help="mutate what reaches new branches (atheris)")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    return parser.parse_args()


def _added(before: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Both runs together: numbers and lists added up, of the ways to end and the cores the most."""
    if found["seeds"][0] in before.get("seeds", ()):
        raise SystemExit(f"the seed {found['seeds'][0]} drew the same files before")
    most = ("cores", "ways to end")
    return {
        key: max(before.get(key, 0), found.get(key, 0)) if key in most else _sum(before.get(key), found.get(key))
        for key in dict.fromkeys([*found, *before])
    }


def _sum(a: Any, b: Any) -> Any:
    return b if a is None else a if b is None else a + b


def _watched(options: argparse.Namespace, until: float) -> dict[str, Any]:
    counts: Counter[str] = Counter()
    bad: list[str] = []
    crashes: list[dict[str, Any]] = []
    started, at, ways = time.monotonic(), -1, 0
    while time.monotonic() < until and at + 1 < options.files:
        left = (until - time.monotonic()) / 60
        words = ["--child", at + 1, "--minutes", left, "--files", options.files, "--execute", options.execute]
        module = "bench.guided_fuzz" if options.guided else "bench.fuzz"
        command = [sys.executable, "-m", module, *map(str, words), "--seed", str(options.seed)]
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
        "seeds": [options.seed],
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
