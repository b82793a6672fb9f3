"""Merges chains of TRANSPOSE, and removes a TRANSPOSE that moves no element."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.ir.dims import Shape, same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.reshape import constant_shape, rename, reshaped
from jfuse.lowering.peephole.registry import Match, given, peephole
from jfuse.lowering.rule_tools.query import keeps_type
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


@peephole(lambda x: ops.transpose(ops.reshape(ops.transpose(x, ...).named("first").shared(), ...).named("merged"), ...))
def transposes_around_merged_axes(match: Match, x: Atom, first: Eqn, merged: Eqn) -> Any:
    """TRANSPOSE(RESHAPE(TRANSPOSE(x, p)), q), whose RESHAPE joins axes that lie beside each other in x: one of the two.

    So pixels become a sequence: height and width of channels first are joined, and channels go last again.
    """
    order, shape = permutation(first), merged.outputs[0].type.shape
    groups = given(_joined(first.outputs[0].type.shape, shape), "axes_joined")
    sources = [[order[axis] for axis in group] for group in groups]
    need(all(s == list(range(s[0], s[0] + len(s))) for s in sources), "side_by_side")
    places = sorted(range(len(groups)), key=lambda group: sources[group][0])
    wanted = given(constant_shape(tuple(shape[group] for group in places)), "constant_shape")
    left = tuple(places.index(group) for group in permutation(match.eqn))
    rows = ops.reshape(x, wanted)
    return rows if left == tuple(range(len(left))) else ops.transpose(rows, np.array(left, np.int32))


@peephole(
    lambda x: rename(
        ops.transpose(ops.reshape(ops.transpose(x, ...).named("turned"), ...).named("parted"), ...).named("shuffled"),
        ...,
    )
)
def shuffle_of_transpose(match: Match, x: Atom, turned: Eqn, parted: Eqn, shuffled: Eqn) -> Any:
    """A shuffle within axes of TRANSPOSE(x, p) = TRANSPOSE(the shuffle within axes of x, p).

    A shuffle parts axes, reorders the parts of each and joins them again: of channels in groups.
    """
    order, parts = permutation(turned), parted.outputs[0].type.shape
    need(keeps_type(turned.outputs[0].type, match.result.type), "joined_again")
    groups = given(_joined(parts, match.result.type.shape), "axes_parted")
    moves = iter(permutation(shuffled))
    shuffles = [[next(moves) for _ in group] for group in groups]
    need(all(sorted(after) == group for group, after in zip(groups, shuffles, strict=True)), "within_axes")
    places = [order.index(axis) for axis in range(len(order))]
    before = [part for axis in places for part in groups[axis]]
    after = [before.index(part) for axis in places for part in shuffles[axis]]
    split = given(constant_shape(tuple(parts[part] for part in before)), "constant_parts")
    whole = given(constant_shape(x.type.shape), "constant_shape")
    moved = ops.transpose(ops.reshape(x, split), np.array(after, np.int32))
    return ops.transpose(ops.reshape(moved, whole), np.array(order, np.int32))


def _joined(shape: Shape, joined: Shape) -> list[list[int]] | None:
    """For each axis of a RESHAPE's result the axes of its operand that it joins; None where it does something else."""
    groups: list[list[int]] = []
    axis = 0
    for size in joined:
        group, count = [axis], shape[axis] if axis < len(shape) else 0
        while same(count, size) is not True and group[-1] + 1 < len(shape):
            group.append(group[-1] + 1)
            count = count * shape[group[-1]]
        if same(count, size) is not True:
            return None
        groups.append(group)
        axis = group[-1] + 1
    return groups if axis == len(shape) else None


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
