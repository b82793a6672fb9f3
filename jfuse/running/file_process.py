"""One file in a runtime in a process of its own, such as CompiledModel: a crash or a limit ends that process alone."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from jfuse.base.errors import KernelFailed, VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Program
from jfuse.running.patience import Patience, ProcessWatch
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused, Worker

_FILE = 1  # its number: each process has this one
_LAST_WORDS = 600  # characters of what it printed


class FileProcess:
    """The process of one file, which ends with `close` or with this one.

    runtime, device: as `Worker` has them; arguments: of its `Loaded`, after the file. name, target: of the runtime in
    messages, and of the target that has it. Raises VerifyFailed where the runtime refuses the file or a call, and
    LiteRtFailed where that ends its process or a call reaches one of the limits.
    """

    def __init__(
        self,
        runtime: str,
        name: str,
        target: str,
        data: bytes,
        limits: Limits,
        *arguments: Any,
        device: Device | None = None,
    ) -> None:
        self._name, self._target = name, target
        self._limits = limits
        self._patience = Patience(limits.seconds)
        self._worker = Worker(runtime, device, limits)
        self.has_ended = False
        self.ask("load", np.frombuffer(data, np.uint8), *arguments)

    def ask(self, method: str, *arguments: Any) -> Any:
        """Call a method of the worker's `Loaded`; the arrays of its result are valid until the next request."""
        if self.has_ended:
            raise KernelFailed(f"{self._name}'s process has ended", remedy="begin again, with another interpreter")
        watch = ProcessWatch([self._worker], self._patience)
        try:
            self._worker.ask(watch, self._limits, _FILE, method, arguments, ())
            return self._worker.answer(self._limits)
        except Refused as error:
            said = " ".join(self._worker.said()[-_LAST_WORDS:].split())
            if method == "load":
                self.close()
            raise VerifyFailed(
                f"{self._name} does not run the file",
                found=f"{error}: {said}" if said else str(error),
                remedy=f"jfuse check FILE --target {self._target} says which operators it lacks",
            ) from error
        except BaseException as error:
            self.close()
            if isinstance(error, LiteRtFailed):
                error.message = error.message.replace(" on sample {sample}", "")
                error.sample = None
            raise

    def said(self) -> str:
        """The text that the process printed since the last request."""
        return self._worker.said()

    def close(self) -> None:
        """End the process."""
        self.has_ended = True
        self._worker.close()

    def __del__(self) -> None:
        if "_worker" in self.__dict__:
            self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class CompiledModelProcess(FileProcess):
    """One file in CompiledModel, in a process of its own.   program: what the file says; device: where it runs"""

    def __init__(
        self, data: bytes, program: Program, limits: Limits = DEFAULT_LIMITS, device: Device | None = None
    ) -> None:
        types = output_types(program)
        name = "CompiledModel" if device is None else "CompiledModel on the device"
        super().__init__("compiled_model", name, "compiled-model", data, limits, types, device=device)
        self._first = next(iter(types))

    def run(self, inputs: dict[str, np.ndarray], key: str | None = None) -> dict[str, np.ndarray]:
        """The outputs of one call by name, after the calls before it.   key: of the signature, None for the first"""
        arrays = {name: np.asarray(array, order="C") for name, array in inputs.items()}
        return {name: np.array(array) for name, array in self.ask("call", key or self._first, arrays).items()}

    def reset(self) -> None:
        """Clear what the file keeps from call to call."""
        self.ask("reset")


def output_types(program: Program) -> dict[str, dict[str, str]]:
    """The element types of each signature's outputs, by key and name, as NumPy calls them."""
    return {
        s.key: {n: str(a.dtype) for n, a in zip(s.output_names, s.graph.outputs, strict=False)}
        for s in program.signatures
    }
