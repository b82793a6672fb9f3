"""How long a command takes from the shell: jfuse's, and what it would cost to import the libraries alone.

    python -m bench.startup [--json bench/results/startup.json] [--rounds 5]

Each command is a process of its own, in turns; seconds are medians by the clock, after a first turn that nobody counts:
files are read from the disk then, and Python keeps their bytecode, as pip does for users. A small LSTM of Keras 3 is
the source: a folder of `model.export`, converted without verification, and the file that it becomes.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from jfuse.running.cores import cores

_SOURCE = """
import sys, keras
source = keras.Input((20, 8))
keras.Model(source, keras.layers.LSTM(16)(source)).export(sys.argv[1], verbose=False)
"""


def commands(folder: Path) -> dict[str, Sequence[str]]:
    """By name, as the table has them. `jfuse` is the module, as the script of the same name runs it."""
    python = [sys.executable, "-c"]
    jfuse = [sys.executable, "-c", "from jfuse.cli import main; main()"]
    saved, file = str(folder / "lstm"), str(folder / "lstm.tflite")
    return {
        "import tensorflow": [*python, "import tensorflow"],
        "import jax": [*python, "import jax"],
        "import jfuse": [*python, "import jfuse"],
        "import jfuse; jfuse.convert": [*python, "import jfuse; jfuse.convert"],
        "jfuse --version": [*jfuse, "--version"],
        "jfuse --help": [*jfuse, "--help"],
        "jfuse convert --no-such-option": [*jfuse, "convert", "--no-such-option"],
        "jfuse convert folder --no-verify": [*jfuse, "convert", saved, "-o", file, "--no-verify"],
        "jfuse convert folder": [*jfuse, "convert", saved, "-o", file],
        "jfuse inspect folder": [*jfuse, "inspect", saved],
        "jfuse inspect file": [*jfuse, "inspect", file],
    }


def with_bytecode(folder: Path) -> dict[str, str]:
    """The environment of a process that keeps bytecode, in a folder: a checkout may be set to keep none."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(folder / "bytecode")}


def seconds(command: Sequence[str], environment: Mapping[str, str]) -> float:
    """Of one run, which may end with any status: wrong options end with 2."""
    started = time.perf_counter()
    run = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=environment, check=False)
    took = time.perf_counter() - started
    if run.returncode not in (0, 2):
        raise SystemExit(f"{' '.join(command)}: status {run.returncode}\n{run.stderr.decode()}")
    return took


def measured(of: Mapping[str, Sequence[str]], rounds: int, environment: Mapping[str, str]) -> dict[str, float]:
    """The median seconds of each command."""
    turns = [{name: seconds(command, environment) for name, command in of.items()} for _ in range(rounds + 1)]
    return {name: statistics.median(turn[name] for turn in turns[1:]) for name in of}


def main() -> None:
    """Print the table; with --json write it as well."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
        subprocess.run([sys.executable, "-c", _SOURCE, str(folder / "lstm")], check=True, env=quiet)
        found = measured(commands(folder), arguments.rounds, with_bytecode(folder))
    for name, took in found.items():
        print(f"{name:<36}{took:>7.2f} s")
    if arguments.json:
        report = {"machine": f"{platform.machine()}, {cores()} cores", "seconds": found}
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
