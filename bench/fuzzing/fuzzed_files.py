"""`python -m bench.fuzz`: .tflite files, mutated as `bench/fuzzing/file_mutations.py` does; and how one is tried."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from bench.fuzzing.file_mutations import Mutator
from bench.fuzzing.findings import Findings, plain
from jfuse.api.lower import lower
from jfuse.base.errors import JfuseError
from jfuse.base.limits import Limits
from jfuse.ir.graph import Program
from jfuse.ir.text import format_program
from jfuse.model import Model
from jfuse.proof.inputs import draws, size_choices
from jfuse.records.verification import Verification
from jfuse.reports.page import page_data
from jfuse.running.interpreter import LiteRt
from jfuse.running.worker import LiteRtFailed
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from jfuse.tflite.write.named_file import with_signature
from tests.tflite import programs
from tests.tflite.read.test_sparse import in_blocks, product
from tests.tflite.read.test_whole import integer_dense, integer_lstm

LIMITS = Limits(seconds=2.0, memory_bytes=2**30, constant_bytes=2**28)
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


class Files:
    """Loaded, printed and saved; some of them lowered, shown as a page, and executed on XLA and in LiteRT.

    execute: the share of those that load.
    """

    def __init__(self, execute: float) -> None:
        self._execute = execute
        self._mutator = Mutator()

    def firsts(self) -> list[bytes]:
        """The files that mutations begin with."""
        return [to_bytes(make()) for make in SEEDS]

    def mutated(self, data: bytes, rng: np.random.Generator) -> bytes:
        """Another file."""
        return self._mutator.mutated(data, rng)

    def is_worth_more(self, way: str) -> bool:
        """Whether a file that ends in this way is mutated further."""
        return not way.endswith(_ENDED)

    def tried(self, data: bytes, rng: np.random.Generator, findings: Findings) -> tuple[bool, str]:
        """Whether a file loads, and what became of it, in words without its numbers."""
        program: Program | None = None
        with findings.at("load") as load:
            program = load_tflite(data, limits=LIMITS)
            format_program(program)
            to_bytes(program)
        if load.refused or program is None:
            return False, load.way
        findings.counts["load: loaded"] += 1
        if rng.random() >= self._execute:
            return True, "loaded"
        findings.counts["executed"] += 1
        with findings.at("lower") as lowered:
            page_data(None, program, Verification("", ""))
            lower(Model(program, limits=LIMITS)).to_bytes()
        inputs = drawn(program, findings)
        if inputs is None:
            return True, f"loaded; {lowered.way}"
        return True, f"{lowered.way}; {on_xla(program, *inputs, findings)}; {_litert(program, data, *inputs, findings)}"


def drawn(program: Program, findings: Findings) -> tuple[str, dict[str, np.ndarray]] | None:
    """The key of the first signature and random inputs of it; None where there are none."""
    signature = program.signatures[0]
    with findings.at("inputs"):
        (found,) = draws(signature, size_choices(signature.graph, {})[0], 0, 1)
        return signature.key, dict(found)
    return None


def on_xla(program: Program, key: str, inputs: dict[str, np.ndarray], findings: Findings) -> str:
    """Call a program on XLA; return the outcome."""
    with findings.at("xla") as call:
        Model(program, limits=LIMITS).stream(quick=True).run(inputs, key)
        findings.counts["xla: answered"] += 1
    return call.way


def _litert(program: Program, data: bytes, key: str, inputs: dict[str, np.ndarray], findings: Findings) -> str:
    with findings.at("litert") as call:
        try:
            LiteRt(with_signature(data, program), limits=LIMITS).run(key, inputs)
            findings.counts["litert: answered"] += 1
        except LiteRtFailed as error:
            findings.counts[f"litert: {error.cause}"] += 1
            return error.cause
        except JfuseError as error:
            findings.counts["litert: refused"] += 1
            return plain(error)
    return call.way
