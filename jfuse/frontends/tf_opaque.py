"""TensorFlow ops that no rule spells: they keep TensorFlow's type and stop the conversion if they survive fusing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.graph import Atom, Const, Graph, Params, Var
from jfuse.ir.registry import register_family
from jfuse.ir.trace import active_trace
from jfuse.ir.types import TensorType


@dataclass(frozen=True, eq=False)
class TfOp:
    """One opaque node's op; `reason` says why its rule did not take it, where there is one."""

    tf_name: str
    types: tuple[TensorType, ...]
    reason: str = ""

    @property
    def name(self) -> str:
        """The printed name, `tf.Erf`."""
        return f"tf.{self.tf_name}"

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """TensorFlow's types."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """Recorded again on the Vars of a trace; raises LowerError on arrays, which only TensorFlow could compute."""
        if any(isinstance(i, Var) for i in inputs):
            trace = active_trace()
            atoms = [i if isinstance(i, Var | Const) or i is None else trace.constant(np.asarray(i)) for i in inputs]
            return trace.append(self, atoms, self.types, params)
        raise LowerError(f"{self.name} has no TFLite spelling", found=self.reason or None)


register_family("tf.", lambda name, types: TfOp(name.removeprefix("tf."), types))
