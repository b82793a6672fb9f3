"""Mutated models of others: loaded, printed, saved, and executed. Nothing may end or hold the caller.

    python -m bench.fuzz --minutes 30 --seed 7 --out bench/results/fuzz.json
    python -m bench.fuzz --folders --minutes 10 --seed 7 --out bench/results/fuzz_folders.json

Files (.tflite) are those of `bench/fuzzing/fuzzed_files.py`, SavedModels those of `bench/fuzzing/fuzzed_folders.py`.
What ends in a way not seen before is mutated further. The work is done in child processes: one that dies is a crash of
the caller, and the next one goes on behind the file that it was at. One that stays at a file for too long prints where
each of its threads is, and ends. A seed draws files of its own; what a run finds is added to what the file of `--out`
has from others.

With `--guided` libFuzzer chooses which files are mutated further, by the branches of the reader that a file reaches. It
needs atheris (`pip install atheris`), which is no part of the project's environment.
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import jax
import numpy as np

from bench.fuzzing.findings import Findings

HANG_S = 120.0  # for one file, whatever is done with it, on a busy machine; each call on XLA and in LiteRT may take two
STUCK_S = 300.0  # for one file; then the child ends itself
_EVERY = 400  # files between two reports of a child, which then also frees what jax has compiled
_MOST_KEPT = 1000


class Fuzzed(Protocol):
    """A kind of source: what mutations begin with, how they are made, and how what they make is tried."""

    def firsts(self) -> list[bytes]:
        """Seeds of the mutation."""

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        """Another one."""

    def is_worth_more(self, way: str) -> bool:
        """Whether what ends in this way is mutated further."""

    def tried(self, data: bytes, rng: np.random.Generator, findings: Findings) -> tuple[bool, str]:
        """Whether it loads, and what became of it."""


@dataclass
class Child:
    """The work of one process, from one file on."""

    fuzzed: Fuzzed
    seed: int
    start: int
    findings: Findings = field(default_factory=Findings)
    ways: set[str] = field(default_factory=set)

    def run(self, until: float, most: int) -> None:
        """Files until the time is over."""
        kept = self.fuzzed.firsts()
        for number in range(self.start, most):
            rng = np.random.default_rng([self.seed, number])
            data = self.fuzzed.mutated(kept[int(rng.integers(len(kept)))], rng)
            if self.take(number, data, rng) and len(kept) < _MOST_KEPT:
                kept.append(data)
            if time.monotonic() > until:
                break
        self.report()

    def take(self, number: int, data: bytes, rng: np.random.Generator) -> bool:
        """Try a file, and say whether it is to be mutated further."""
        _say({"at": number, "file": data.hex() if len(data) < 65536 else ""})
        faulthandler.dump_traceback_later(STUCK_S, exit=True)  # by a thread that needs no lock of Python's
        started = time.monotonic()
        self.findings.data = data
        loads, way = self.fuzzed.tried(data, rng, self.findings)
        if time.monotonic() - started > HANG_S:
            self.findings.note("a file that took longer than it may")
        is_new = way not in self.ways
        self.ways.add(way)
        if (number + 1 - self.start) % _EVERY == 0:
            self.report()
            jax.clear_caches()
        return is_new and loads and self.fuzzed.is_worth_more(way)

    def report(self) -> None:
        """Tell the parent what was found since the last report."""
        found = [of.told() for of in self.findings.bad.values()]
        _say({"counts": self.findings.counts, "bad": found, "ways": len(self.ways)})
        self.findings = Findings()


def _say(what: Any) -> None:
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def fuzzed_of(options: argparse.Namespace) -> Fuzzed:
    """The kind of source that is asked for."""
    if options.folders:
        from bench.fuzzing.fuzzed_folders import Folders

        return Folders(options.execute)
    from bench.fuzzing.fuzzed_files import Files

    return Files(options.execute)


def main() -> None:
    """Start children until the time is over, and write what they found."""
    options = arguments()
    until = time.monotonic() + 60 * options.minutes
    if options.child is not None:
        Child(fuzzed_of(options), options.seed, options.child).run(until, options.files)
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
    parser.add_argument("--folders", action="store_true", help="SavedModels in place of .tflite files")
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
    bad: dict[str, dict[str, Any]] = {}
    crashes: list[dict[str, Any]] = []
    started, at, ways = time.monotonic(), -1, 0
    while time.monotonic() < until and at + 1 < options.files:
        left = (until - time.monotonic()) / 60
        words = ["--child", at + 1, "--minutes", left, "--files", options.files, "--execute", options.execute]
        module = "bench.fuzzing.guided" if options.guided else "bench.fuzz"
        command = [sys.executable, "-m", module, *map(str, words), "--seed", str(options.seed)]
        command += ["--folders"] * options.folders
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=None, text=True)
        assert child.stdout is not None
        last = ""
        for line in child.stdout:
            told = json.loads(line)
            if "at" in told:
                at, last = told["at"], told["file"]
            else:
                counts.update(told["counts"])
                for found in told["bad"]:
                    before = bad.setdefault(found["what"], {**found, "times": 0})
                    before["times"] += found["times"]
                ways = max(ways, told["ways"])
        if child.wait():
            crashes.append({"file": at, "status": child.returncode, "bytes": last[:20000]})
    return {
        "seeds": [options.seed],
        "files": at + 1,
        "seconds": round(time.monotonic() - started),
        "cores": os.cpu_count(),
        "crashes of the caller": crashes,
        "hangs and foreign exceptions": [*bad.values()],
        "ways to end": ways,
        **dict(sorted(counts.items())),
    }


if __name__ == "__main__":
    main()
