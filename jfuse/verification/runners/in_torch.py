"""PyTorch as the reference: a module called eagerly."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from jfuse.base.errors import VerifyFailed
from jfuse.frontends.imported_functions import SourceFunction
from jfuse.verification.runners.joined import can_be_joined, run_joined
from jfuse.verification.runners.one_by_one import StatelessCalls, one_by_one
from jfuse.verification.subject import Arrays, Calls, Interface


@dataclass(frozen=True)
class InTorch:
    """A module of PyTorch, called eagerly."""

    function: SourceFunction
    interface: Interface
    name: str = "PyTorch"

    program = None

    @property
    def signatures(self) -> Mapping[str, Interface]:
        """Inputs and outputs of the module, by the key of its one signature."""
        return {self.function.key: self.interface}

    def start(self) -> Calls:
        """Start a row of calls without states."""
        return StatelessCalls(self._run)

    def _run(self, inputs: Arrays) -> dict[str, np.ndarray]:
        try:
            return self.function.call(*(inputs[name] for name in self.function.inputs))
        except Exception as error:  # the user's code
            raise VerifyFailed(
                f"the module of signature {self.function.key!r} fails",
                found=f"{type(error).__name__}: {' '.join(str(error).split())[:300]}",
                remedy="jfuse.Verify(inputs=…) with inputs that the module takes, or verify=False",
            ) from error

    def batch(self, inputs: Arrays, key: str, *, in_a_row: bool = False) -> dict[str, np.ndarray]:
        """First calls as one, where rows of an open first axis do not depend on each other; else one by one."""
        if can_be_joined(self.interface) and not in_a_row:
            outputs = run_joined(self._run, inputs)
            if outputs is not None:
                return outputs
        return one_by_one(self, inputs, key, in_a_row)

    def singly(self, key: str) -> str | None:
        """Why samples run one after the other."""
        return None if can_be_joined(self.interface) else "it has inputs of a fixed size"
