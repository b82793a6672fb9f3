"""Equations on quantized integers as ops that know the scales of their operands, which arrays do not carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import jfuse.kernels.integer.bodies  # noqa: F401 (registers them)
from jfuse.ir.graph import Atom, Eqn, Graph, Op, Params
from jfuse.ir.types import TensorType
from jfuse.kernels.core.integer_types import IntegerTypes, Rounding


@dataclass(frozen=True)
class OnIntegers(Op):
    """An op that computes with its integer body."""

    op: Op
    types: IntegerTypes

    @property
    def name(self) -> str:
        """The name of the op that computes, unchanged."""
        return self.op.name

    def infer(self, inputs: Sequence[Atom | None], params: Params, bodies: Sequence[Graph]) -> tuple[TensorType, ...]:
        """The quantized types that the equation states for its results."""
        return self.types.outputs

    def run(self, inputs: Sequence[Any], params: Params, bodies: Sequence[Graph]) -> tuple[Any, ...]:
        """The quantized results, computed of integers by the op's integer body."""
        return self.op.run_integers(self.types, inputs, params)


def has_integer_body(eqn: Eqn, rounding: Rounding | None) -> bool:
    """Whether the equation's op has an integer body for its types and options, in a rounding."""
    return eqn.op.takes_integers(eqn, rounding)


def on_integers(eqn: Eqn, rounding: Rounding | None) -> Eqn:
    """The equation with the scales in its op."""
    return replace(eqn, op=OnIntegers(eqn.op, IntegerTypes.of(eqn, rounding)))
