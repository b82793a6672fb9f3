"""Ops of jfuse's own graphs: rounding to the steps of a type, and back to real numbers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from jfuse.ir.graph import Atom, Graph, Op, Params
from jfuse.ir.types import TensorType
from jfuse.quantization.real_numbers import as_integers, as_real, real_type


@dataclass(frozen=True)
class Computed(Op):
    """An op that no file has.   types: of its results; compute: of its operands"""

    name: str = field()
    types: tuple[TensorType, ...]
    compute: Callable[..., Any]

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The types."""
        return self.types

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The results."""
        return (self.compute(*inputs),)


def storing(stored: TensorType) -> Computed:
    """Real numbers -> those in a type."""
    return Computed("computed.stored", (stored,), partial(as_integers, wanted=stored))


def telling(stored: TensorType) -> Computed:
    """Quantized numbers -> real numbers."""
    return Computed("computed.real", (real_type(stored),), partial(as_real, quantization=stored.quantization))
