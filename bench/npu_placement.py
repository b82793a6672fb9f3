"""Where `jfuse check` sees operators on an Ethos-U, against Arm's compiler: the rows of the tests, one file each.

    python -m bench.npu_placement [-k SUBSTRING ...] [--most 16]

Each row of the tests that a recipe makes one operator of integers of is compiled for Ethos-U55 and Ethos-U85, in int8
and in int16x8, at most so many of a builtin. Printed is where the two differ: an operator that the compiler leaves to
the CPU and the table does not, or the other way round. A file that the compiler fails for counts as one for the CPU.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "0")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import jfuse
from bench.runtimes.micro_integers import in_a_process
from bench.runtimes.row_files import row_files
from jfuse.ir.graph import Eqn, Program
from jfuse.ir.walk import all_eqns
from jfuse.running.ethos import CONFIGURATIONS
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.schema import custom_code
from jfuse.tflite.targets.catalog import target_named
from jfuse.tflite.targets.file_operators import operators_of

TARGETS = ("ethos-u55", "ethos-u85")


def on_npu(data: bytes, target: str) -> bool | None:
    """Whether the compiler places all of a file on the NPU; None where it fails."""
    import ethosu.vela.vela as vela

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.tflite"
        path.write_bytes(data)
        options = ["--accelerator-config", CONFIGURATIONS[target], "--output-dir", folder]

        def compiled() -> bool:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            vela.main([str(path), *options])
            return True

        in_a_process(compiled)
        made = path.with_name("model_vela.tflite")
        return operators_of(made.read_bytes()).keys() == {custom_code("ethos-u")} if made.is_file() else None


def operators(parts: Sequence[str]) -> Iterator[tuple[Eqn, str, bytes]]:
    """Single operators in integers, with the recipe and their file.   parts: of the names of their builtins"""
    for program, _, inputs in row_files():
        eqns = program.signatures[0].graph.eqns
        if len(eqns) != 1 or not any(part in str(eqns[0].op.builtin).lower() for part in parts):
            continue
        for recipe in ("int8", "int16x8"):
            made = _in_integers(program, dict(zip(program.signatures[0].input_names, inputs, strict=False)), recipe)
            if made is not None:
                yield made[0], recipe, made[1]


def _in_integers(program: Program, inputs: dict[str, object], recipe: str) -> tuple[Eqn, bytes] | None:
    wide = "int16" if recipe == "int16x8" else recipe
    try:
        how = jfuse.Recipe.named(recipe, inputs=wide, outputs=wide)
        lite = jfuse.lower(jfuse.Model(program), quantize=how, calibration=[inputs])
    except jfuse.JfuseError:
        return None
    data = lite.to_bytes()
    eqns = list(all_eqns(load_tflite(data).signatures[0].graph))
    tensors = [a for a in (*eqns[0].inputs, *eqns[0].outputs) if a is not None] if len(eqns) == 1 else []
    return (eqns[0], data) if any(a.type.quantization is not None for a in tensors) else None


def main() -> None:
    """Print what differs."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("-k", nargs="*", default=[""])
    parser.add_argument("--most", type=int, default=16)
    options = parser.parse_args()
    counts, seen, differ = Counter[tuple[str, str]](), set[str](), 0
    for eqn, recipe, data in operators(options.k):
        key = (
            f"{recipe} {eqn.op.builtin} {dict(eqn.params)} {[None if a is None else a.type.shape for a in eqn.inputs]}"
        )
        kind = str(eqn.op.builtin), recipe
        if key in seen or counts[kind] >= options.most:
            continue
        seen.add(key)
        counts[kind] += 1
        for name in TARGETS:
            reason, placed = target_named(name).why_on_cpu(eqn), on_npu(data, name)
            if (reason is None) != bool(placed):
                differ += 1
                said = {True: "on the NPU", False: "on the CPU", None: "refused"}[placed]
                print(f"{name} {key}: {said}; the table: {reason or 'on the NPU'}", flush=True)
    print(f"{counts.total()} operators, of {len(counts)} kinds, on {len(TARGETS)} targets: {differ} differ")
    sys.exit(differ > 0)


if __name__ == "__main__":
    main()
