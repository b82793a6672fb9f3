"""TensorFlow ops that no rule spells: they keep TensorFlow's type and stop the conversion if they survive fusing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jfuse.errors import LowerError
from jfuse.ir.graph import Atom, Graph, Params
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
        """Raises LowerError: outside of TensorFlow nothing computes this op."""
        raise LowerError(f"{self.name} has no TFLite spelling", found=self.reason or None)
