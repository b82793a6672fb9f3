"""Files in tflite-micro's interpreter, which the wheel `tflite-micro` brings (`jfuse[micro]`), and their arenas."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import JfuseError, VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Program
from jfuse.running.file_process import FileProcess
from jfuse.running.worker import LiteRtFailed

_ARENA = re.compile(r"Arena allocation total (\d+) bytes")
_POINTERS = re.compile(
    r"'(?:TfLiteEvalTensor data|Persistent TfLiteTensor (?:quantization )?data|NodeAndRegistration struct)' used (\d+)"
)
"""Structs of pointers, and of little else: on 32 bits they are half as large."""
_LEAST_ARENA = 1 << 20
_ALIGNED = 16
"""Bytes to which the interpreter aligns what it places, and to which an arena is rounded up."""


def has_micro() -> bool:
    """Whether the interpreter is installed."""
    return find_spec("tflite_micro") is not None


class MicroInterpreter(FileProcess):
    """One file in a process of its own, which ends with `close` or with this one.

    Inputs and outputs go by the names of the file's first signature. Raises JfuseError where the interpreter is not
    installed, or signatures of the file are of several subgraphs; else as `FileProcess` does.
    """

    def __init__(self, data: bytes, limits: Limits = DEFAULT_LIMITS) -> None:
        if not has_micro():
            raise JfuseError("tflite-micro's interpreter is not installed", remedy="pip install 'jfuse[micro]'")
        self.inputs, self.outputs = _names(data)
        arena = max(_LEAST_ARENA, 10 * len(data))
        name = "tflite-micro's interpreter"
        super().__init__("micro", name, "tflite-micro", data, limits, arena, len(self.outputs))

    def run(self, inputs: dict[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one call, after the calls before it.   key: of the only signature"""
        outputs = self.ask("call", [np.asarray(inputs[name], order="C") for name in self.inputs])
        return {name: np.array(array) for name, array in zip(self.outputs, outputs, strict=True)}

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self.ask("reset")

    def allocated(self) -> tuple[int, int]:
        """The bytes that stay allocated on this machine, and those of structs of pointers among them."""
        self.ask("tell_arena")
        said = self.said()
        match = _ARENA.search(said)
        if match is None:
            raise VerifyFailed("tflite-micro's interpreter does not report its memory", found=said or None)
        return int(match.group(1)), sum(map(int, _POINTERS.findall(said)))

    def runs_in(self, arena: int, inputs: Mapping[str, np.ndarray]) -> bool:
        """Whether an interpreter in an arena of so many bytes runs the file; this one goes on where it can."""
        return bool(self.ask("runs_in", arena, [np.asarray(inputs[name], order="C") for name in self.inputs]))


@dataclass(frozen=True)
class Arena:
    """The memory in bytes that a file needs besides itself in tflite-micro.

    needed: on this machine, of 64 bits: the least in which it runs, rounded up to 16. on_32_bits: an estimate.
    """

    needed: int
    on_32_bits: int


def measured_arena(program: Program, data: bytes) -> tuple[Arena | None, str]:
    """The memory that a file needs besides itself in tflite-micro; None, and why, without.

    program: what the file says.
    """
    if not has_micro():
        return None, "not measured: tflite-micro's interpreter is not installed (jfuse[micro])"
    if len(program.graphs()) != 1:
        return None, "not measured: tflite-micro runs files with one signature"
    signature = program.signatures[0]
    types = {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
    if not all(t.is_static for t in types.values()):
        return None, "not measured: sizes are open"
    inputs = {n: np.zeros([int(d) for d in t.shape], t.dtype.numpy) for n, t in types.items()}
    try:
        with MicroInterpreter(data) as interpreter:
            interpreter.run(inputs)
            allocated, pointers = interpreter.allocated()
        needed = _least_arena(data, inputs, allocated)
    except JfuseError as error:
        return None, f"not measured: {error.message}: {error.found}"
    return Arena(needed, _rounded_up(needed - pointers // 2)), ""


def _least_arena(data: bytes, inputs: Mapping[str, np.ndarray], allocated: int) -> int:
    """The least arena in which a file runs, a multiple of 16 bytes; `allocated` of them stay in use.

    AllocateTensors needs more for a moment, while it plans, than what stays. Bisection: no arena of `low` units of 16
    bytes runs the file, one of `high` does.
    """
    interpreter = MicroInterpreter(data)

    def runs_in(units: int) -> bool:
        nonlocal interpreter
        try:
            return interpreter.runs_in(units * _ALIGNED, inputs)
        except LiteRtFailed as error:
            if error.cause != "crash":
                raise
            interpreter = MicroInterpreter(data)
            return False

    try:
        high = _rounded_up(allocated) // _ALIGNED
        low = high - 1
        step = max(high // 8, 8)
        while not runs_in(high):
            low, high, step = high, high + step, 2 * step
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if runs_in(middle) else (middle, high)
    finally:
        interpreter.close()
    return high * _ALIGNED


def _rounded_up(count: int) -> int:
    return -(-count // _ALIGNED) * _ALIGNED


def _names(data: bytes) -> tuple[list[str], list[str]]:
    """The names of the inputs and outputs in the order of the first subgraph, which is all that is run."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    signatures, graph = list(model.signatureDefs or []), model.subgraphs[0]
    if len({s.subgraphIndex for s in signatures}) != 1:
        raise JfuseError(
            "tflite-micro runs files with one signature",
            found=f"{len(signatures)} signatures",
            remedy="convert one of them: inputs=jfuse.Inputs(signatures=[…])",
        )
    inputs, outputs = (
        {m.tensorIndex: m.name.decode() for m in of} for of in (signatures[0].inputs, signatures[0].outputs)
    )
    return [inputs[i] for i in graph.inputs], [outputs[i] for i in graph.outputs]
