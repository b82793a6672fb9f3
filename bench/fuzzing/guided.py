"""The children of `python -m bench.fuzz --guided`: libFuzzer keeps and mutates the files that reach new branches.

It sees the branches of jfuse's reader, writer and program. Mutations are those of `file_mutations.py`, or its own.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

import atheris  # of the caller's own environment
import numpy as np

with atheris.instrument_imports(include=["jfuse.tflite", "jfuse.ir", "jfuse.kernels"]):
    from bench.fuzz import Child, arguments
    from bench.fuzzing.fuzzed_files import Files

_LONGEST = 2**16  # bytes of a file
_OURS = 0.9  # of the mutations; the others are libFuzzer's


def main() -> None:
    """Files until the time is over."""
    options = arguments()
    until = time.monotonic() + 60 * options.minutes
    files = Files(options.execute)
    child = Child(files, options.seed, options.child)
    count = 0

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        rng = np.random.default_rng(seed)
        if len(data) < 8 or rng.random() >= _OURS:
            return bytes(atheris.Mutate(data, most))
        return files.mutated(data, rng)[:most]

    def take(data: bytes) -> None:
        nonlocal count
        number = child.start + count
        count += 1
        child.take(number, data, np.random.default_rng([options.seed, number]))
        if time.monotonic() > until or number + 1 >= options.files:
            child.report()
            os._exit(0)  # libFuzzer would end with an exit code of its own

    with tempfile.TemporaryDirectory() as corpus:
        for number, data in enumerate(files.firsts()):
            (Path(corpus) / str(number)).write_bytes(data)
        switches = [f"-max_len={_LONGEST}", f"-seed={options.seed + 1}", "-mutate_depth=1"]
        switches += ["-rss_limit_mb=0", "-timeout=100000"]  # the parent watches over both
        atheris.Setup([sys.argv[0], corpus, *switches], take, custom_mutator=mutated)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
