"""Files in tflite-micro's interpreter, which the wheel `tflite-micro` brings (`jfuse[micro]`), and their arenas."""

from __future__ import annotations

import re
from importlib.util import find_spec

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.errors import JfuseError, VerifyFailed
from jfuse.ir.graph import Program
from jfuse.limits import DEFAULT_LIMITS, Limits
from jfuse.running.file_process import FileProcess

_ARENA = re.compile(r"Arena allocation total (\d+) bytes")
_LEAST_ARENA = 1 << 20


def has_micro() -> bool:
    """Whether the interpreter is installed."""
    return find_spec("tflite_micro") is not None


class MicroInterpreter(FileProcess):
    """One file in a process of its own, which ends with `close` or with this one.

    Inputs and outputs go by the names of the file's only signature. Raises JfuseError where the interpreter is not
    installed, or the file has more signatures than one; else as `FileProcess` does.
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
        found = self.ask("call", [np.asarray(inputs[name], order="C") for name in self.inputs])
        return {name: np.array(array) for name, array in zip(self.outputs, found, strict=True)}

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self.ask("reset")

    def arena_bytes(self) -> int:
        """The memory that the file takes besides itself, as the interpreter counts it on this machine."""
        self.ask("tell_arena")
        said = self.said()
        found = _ARENA.search(said)
        if found is None:
            raise VerifyFailed("tflite-micro's interpreter does not tell its memory", found=said or None)
        return int(found.group(1))


def measured_arena(program: Program, data: bytes) -> tuple[int | None, str]:
    """The memory in bytes that a file takes besides itself in tflite-micro, after one call; None, and why, without.

    program: what the file says.
    """
    if not has_micro():
        return None, "not measured: tflite-micro's interpreter is not installed (jfuse[micro])"
    if len(program.signatures) != 1:
        return None, "not measured: tflite-micro runs files with one signature"
    (signature,) = program.signatures
    types = {n: v.type for n, v in zip(signature.input_names, signature.graph.inputs, strict=False)}
    if not all(t.is_static for t in types.values()):
        return None, "not measured: sizes are open"
    inputs = {n: np.zeros([int(d) for d in t.shape], t.dtype.numpy) for n, t in types.items()}
    try:
        with MicroInterpreter(data) as interpreter:
            interpreter.run(inputs)
            return interpreter.arena_bytes(), ""
    except JfuseError as error:
        return None, f"not measured: {error.message}: {error.found}"


def _names(data: bytes) -> tuple[list[str], list[str]]:
    """The names of the inputs and outputs in the order of the first subgraph, which is all that is run."""
    model = schema.ModelT.InitFromPackedBuf(data, 0)
    if len(model.signatureDefs or ()) != 1:
        raise JfuseError(
            "tflite-micro runs files with one signature",
            found=f"{len(model.signatureDefs or ())} signatures",
            remedy="convert one of them: signatures=[...] (--signature)",
        )
    (signature,), graph = model.signatureDefs, model.subgraphs[0]
    inputs, outputs = ({m.tensorIndex: m.name.decode() for m in of} for of in (signature.inputs, signature.outputs))
    return [inputs[i] for i in graph.inputs], [outputs[i] for i in graph.outputs]
