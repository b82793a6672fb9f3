"""Merges chains of TRANSPOSE, and removes a TRANSPOSE that moves no element."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import reshaped
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rules import need


@peephole(lambda x: ops.transpose(x, ...))
def identity_transpose(match: Match, x: Atom) -> Any:
    """TRANSPOSE(x) to the order that the axes have = x."""
    axes = permutation(match.eqn)
    need(axes == tuple(range(len(axes))), "identity")
    return x


@peephole(lambda x: ops.transpose(ops.transpose(x, ...).named("first").shared(), ...))
def transpose_chain(match: Match, x: Atom, first: Eqn) -> Any:
    """TRANSPOSE(TRANSPOSE(x, p), q) = TRANSPOSE(x, p[q]); the identity vanishes."""
    inner = permutation(first)
    composed = tuple(inner[a] for a in permutation(match.eqn))
    return x if composed == tuple(range(len(composed))) else ops.transpose(x, np.array(composed, np.int32))


@peephole(lambda x: ops.transpose(x, ...))
def transpose_of_ones(match: Match, x: Atom) -> Any:
    """A TRANSPOSE that keeps the order of all dimensions but those of size 1 is a RESHAPE."""
    moved = [a for a in permutation(match.eqn) if same(x.type.shape[a], 1) is not True]
    need(moved == sorted(moved), "order_kept")
    return given(reshaped(x, match.result.type), "constant_shape")


def permutation(eqn: Eqn) -> tuple[int, ...]:
    """The axes of the operand of a TRANSPOSE in the order of its result; refuses one that data decides."""
    return given(known_permutation(eqn), "constant_order")


def known_permutation(eqn: Eqn) -> tuple[int, ...] | None:
    """The axes of the operand of a TRANSPOSE in the order of its result; None where data decides, and for other ops."""
    perm = static_value(eqn.inputs[1]) if eqn.op is ops.transpose and eqn.inputs[1] is not None else None
    return None if perm is None else tuple(map(int, axes_from_front(perm, eqn.outputs[0].type.rank)))
