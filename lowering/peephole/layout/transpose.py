"""Chains of TRANSPOSE are one; those that move no element are none."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels.array import array
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import reshaped
from jfuse.lowering.peephole.registry import View, peephole


@peephole(array.transpose)
def transpose_chain(eqn: Eqn, view: View) -> Any:
    """TRANSPOSE(TRANSPOSE(x, p), q) = TRANSPOSE(x, p[q]); the identity vanishes."""
    x, perm = eqn.inputs
    axes = permutation(eqn)
    if x is None or perm is None or axes == tuple(range(len(axes))):
        return x
    before = view.producer(x)
    if before is None or before.op is not array.transpose:
        return None
    first = permutation(before)
    composed = tuple(first[a] for a in axes)
    return (
        before.inputs[0]
        if composed == tuple(range(len(axes)))
        else array.transpose(before.inputs[0], _vector(composed))
    )


@peephole(array.transpose)
def transpose_of_ones(eqn: Eqn, view: View) -> Any:
    """A TRANSPOSE that keeps the order of all dimensions but those of size 1 is a RESHAPE."""
    x: Atom | None = eqn.inputs[0]
    if x is None:
        return None
    moved = [a for a in permutation(eqn) if same(x.type.shape[a], 1) is not True]
    return reshaped(x, eqn.outputs[0].type) if moved == sorted(moved) else None


def permutation(eqn: Eqn) -> tuple[int, ...]:
    """The axes of the operand of a TRANSPOSE in the order of its result."""
    perm = eqn.inputs[1]
    return tuple(map(int, axes_from_front(None if perm is None else static_value(perm), eqn.outputs[0].type.rank)))


def _vector(axes: tuple[int, ...]) -> np.ndarray:
    return np.array(axes, np.int32)
