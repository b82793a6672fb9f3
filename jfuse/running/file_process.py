"""One file in a runtime in a process of its own: a crash ends that process alone, and so do the limits."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from jfuse.errors import KernelFailed, VerifyFailed
from jfuse.limits import Limits
from jfuse.running.patience import Patience, ProcessWatch
from jfuse.running.worker import LiteRtFailed, Refused, Worker

_FILE = 1  # its number: each process has this one
_LAST_WORDS = 600  # characters of what it printed


class FileProcess:
    """The process of one file, which ends with `close` or with this one.

    runtime: as `Worker` has it; arguments: of its `Loaded`, after the file. name, target: of the runtime in messages,
    and of the target that has it. Raises VerifyFailed where the runtime refuses the file or a call, and LiteRtFailed
    where that ends its process or a call reaches one of the limits.
    """

    def __init__(self, runtime: str, name: str, target: str, data: bytes, limits: Limits, *arguments: Any) -> None:
        self._name, self._target = name, target
        self._limits = limits
        self._patience = Patience(limits.seconds)
        self._worker = Worker(runtime)
        self.has_ended = False
        self.ask("load", np.frombuffer(data, np.uint8), *arguments)

    def ask(self, method: str, *arguments: Any) -> Any:
        """What a method of the worker's `Loaded` gives; its arrays hold until the next request."""
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
        """What the process printed since the last request."""
        return self._worker.said()

    def close(self) -> None:
        """End the process."""
        self.has_ended = True
        self._worker.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()
