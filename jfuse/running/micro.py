"""Files in tflite-micro's interpreter, which the wheel `tflite-micro` brings (`jfuse[micro]`), and their arenas."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert import schema_py_generated as schema

from jfuse.errors import JfuseError, VerifyFailed
from jfuse.ir.graph import Program

_WORKER = Path(__file__).with_name("micro_worker.py")
_ARENA = re.compile(r"Arena allocation total (\d+) bytes")
_LEAST_ARENA = 1 << 20
_CALL_LIMIT_S = 300.0  # of one call: a file may hold a loop without an end
_LAST_WORDS = 600  # bytes of what a process wrote before it died


def has_micro() -> bool:
    """Whether the interpreter, the package tflite-micro, is installed."""
    return find_spec("tflite_micro") is not None


class MicroInterpreter:
    """One file in a process of its own, which ends with `close` or with this one.

    Inputs and outputs go by the names of the file's only signature. Raises JfuseError where the interpreter is not
    installed, or the file has more signatures than one; VerifyFailed where the interpreter refuses the file.
    """

    def __init__(self, data: bytes) -> None:
        if not has_micro():
            raise JfuseError("tflite-micro's interpreter is not installed", remedy="pip install 'jfuse[micro]'")
        self.inputs, self.outputs = _names(data)
        self._folder = tempfile.TemporaryDirectory(prefix="jfuse-")
        path = Path(self._folder.name) / "model.tflite"
        path.write_bytes(data)
        self._said = tempfile.TemporaryFile()
        arena = max(_LEAST_ARENA, 10 * len(data))
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER), str(path), str(arena), str(len(self.outputs))],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._said,
        )
        try:
            self._receive()
        except BaseException:
            self.close()
            raise

    def run(self, inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of one call, after the calls before it."""
        found = self._ask("run", [np.ascontiguousarray(inputs[name]) for name in self.inputs])
        return dict(zip(self.outputs, found, strict=True))

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self._ask("reset")

    def arena_bytes(self) -> int:
        """The memory that the file takes besides itself, as the interpreter counts it on this machine."""
        self._ask("arena")
        found = _ARENA.search(self._words())
        if found is None:
            raise VerifyFailed("tflite-micro's interpreter does not tell its memory", found=self._words() or None)
        return int(found.group(1))

    def close(self) -> None:
        """End the process of the interpreter, and delete its files."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._said):
            if stream is not None:
                stream.close()
        self._folder.cleanup()

    def __enter__(self) -> MicroInterpreter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _ask(self, kind: str, arrays: Sequence[np.ndarray] | None = None) -> Any:
        assert self._process.stdin is not None
        try:
            pickle.dump((kind, arrays), self._process.stdin)
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failed("the process ended") from error
        return self._receive()

    def _receive(self) -> Any:
        assert self._process.stdout is not None
        late = threading.Timer(_CALL_LIMIT_S, self._process.kill)
        late.start()
        try:
            result, reason = pickle.load(self._process.stdout)
        except (EOFError, pickle.UnpicklingError) as error:
            slow = f" after {_CALL_LIMIT_S:g} s" if not late.is_alive() else ""
            raise self._failed(f"the process ended{slow}") from error
        finally:
            late.cancel()
        if reason is not None:
            raise self._failed(reason)
        return result

    def _failed(self, reason: str) -> VerifyFailed:
        said = " ".join(self._words()[-_LAST_WORDS:].split())
        return VerifyFailed(
            "tflite-micro's interpreter does not run the file",
            found=f"{reason}: {said}" if said else reason,
            remedy="jfuse check FILE --target tflite-micro says which operators it lacks",
        )

    def _words(self) -> str:
        self._said.seek(0)
        return self._said.read().decode(errors="replace")


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
