"""The LiteRT interpreter on exported bytes, in a process of its own: an independent reference."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.programs.device import Device
from jfuse.running.worker import LiteRtFailed, Refused


class LiteRt:
    """The LiteRT interpreter on one file. It lives as long as this object, so what a file keeps between calls is kept.

    delegates: False runs every operator on its builtin kernel, without XNNPACK. device: where; None for here.
    Raises VerifyFailed where LiteRT refuses the file or a call, LiteRtFailed (one of them) where it takes its process
    down, or more time or memory than `limits` has.
    """

    def __init__(
        self,
        model: bytes,
        *,
        delegates: bool = True,
        threads: int = 1,
        limits: Limits = DEFAULT_LIMITS,
        device: Device | None = None,
    ) -> None:
        self._calls: list[tuple[str, Mapping[str, np.ndarray]]] = []
        try:
            self._file = LoadedFile(model, delegates=delegates, threads=threads, limits=limits, device=device)
        except Refused as error:
            raise VerifyFailed("LiteRT does not load the file", found=str(error)) from error

    def signatures(self) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
        """The names of the inputs and of the outputs of each signature, by its key."""
        listed = self._file.ask("signatures")
        return {key: (tuple(names["inputs"]), tuple(names["outputs"])) for key, names in listed.items()}

    def run(self, key: str, inputs: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The outputs of one invoke by name; inputs may have another size on each call."""
        arrays = {name: np.asarray(value) for name, value in inputs.items()}
        try:
            outputs: dict[str, np.ndarray] = self._file.ask("call", key, arrays)
        except Refused as error:
            raise VerifyFailed(
                f"LiteRT does not run the signature {key!r}",
                found=str(error),
                remedy="report this model; for sizes or types that a kernel does not take, change them in the source",
            ) from error
        except LiteRtFailed as error:
            error.message += f", in a call of the signature {key!r}"
            error.calls = ((key, arrays),)
            raise
        return outputs
