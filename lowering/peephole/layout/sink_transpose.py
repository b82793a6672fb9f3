"""TRANSPOSE moves behind ops that can work in another layout, where it meets its inverse or has less to move.

Keras and tf.while_loop step along axis 0, so a recurrence over [b, t, i] stands between two transposes. The fused ops
take either layout, but compute [b, t, i] one sequence after the other: with more than one sequence that is up to 2.6
times slower than two transposes (LiteRT 2.3.0, batch 32, 16 units), with one it is the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels import ops
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import static_value
from jfuse.lowering.peephole.layout.slicing import PLAIN_SLICE
from jfuse.lowering.peephole.layout.transpose import known_permutation, permutation
from jfuse.lowering.peephole.pattern import form, one_of
from jfuse.lowering.peephole.registry import Match, given, peephole, peephole_walk
from jfuse.lowering.peephole.view import GraphView, sole_producer
from jfuse.lowering.rule_tools.again import again
from jfuse.lowering.rule_tools.query import keeps_type
from jfuse.lowering.rules import need

SWAP = (1, 0, 2)  # time-major and batch-major


@dataclass(frozen=True)
class TransposedOperand:
    """The operand and the permutation of a TRANSPOSE."""

    x: Atom
    perm: tuple[int, ...]

    @classmethod
    def of(cls, eqn: Eqn | None) -> TransposedOperand | None:
        """The TRANSPOSE that an equation is, also where it is spelled as a RESHAPE."""
        x = None if eqn is None else eqn.inputs[0]
        if eqn is None or x is None:
            return None
        if eqn.op is ops.transpose:
            order = known_permutation(eqn)
            return None if order is None else cls(x, order)
        old, new = x.type.shape, eqn.outputs[0].type.shape
        one_sequence = eqn.op is ops.reshape and len(old) == len(new) == 3 and same(old[0], 1) and same(new[1], 1)
        return cls(x, SWAP) if one_sequence and same(old[1], new[0]) and same(old[2], new[2]) else None


turned = form(TransposedOperand.of, ops.transpose, ops.reshape).named("turned").shared()
recurrence = one_of(
    ops.bidirectional_sequence_lstm,
    ops.bidirectional_sequence_rnn,
    ops.unidirectional_sequence_lstm,
    ops.unidirectional_sequence_rnn,
)


@peephole(lambda: recurrence(turned, ..., time_major=True, fused_activation_function=...))
def recurrence_of_transpose(match: Match, turned: TransposedOperand) -> Any:
    """A time-major recurrence over TRANSPOSE(x) of one sequence is the batch-major one over x."""
    eqn, others = match.eqn, match.eqn.inputs[1:]
    need(turned.perm == SWAP, "batch_and_time")
    need(same(turned.x.type.shape[0], 1), "one_sequence")
    need(not any(a is not None and a.type.rank == 3 for a in others), "no_auxiliary_sequence")
    results = eqn.op.run([turned.x, *others], {**eqn.params, "time_major": False}, ())
    return tuple(ops.transpose(r, np.array(SWAP, np.int32)) if r.ndim == 3 else r for r in results)


@peephole(lambda axes: ops.reverse_v2(turned, axes))
def reverse_of_transpose(match: Match, turned: TransposedOperand, axes: Atom) -> Any:
    """REVERSE_V2(TRANSPOSE(x, p), a) = TRANSPOSE(REVERSE_V2(x, p[a]), p)."""
    perm = turned.perm
    reversed_axes = [perm[a] for a in axes_from_front(given(static_value(axes), "constant_axes"), len(perm))]
    return ops.transpose(ops.reverse_v2(turned.x, np.array(reversed_axes, np.int32)), np.array(perm, np.int32))


@peephole(lambda begin, end, strides: ops.strided_slice(turned, begin, end, strides, **PLAIN_SLICE))
def slice_of_transpose(match: Match, turned: TransposedOperand, begin: Atom, end: Atom, strides: Atom) -> Any:
    """STRIDED_SLICE(TRANSPOSE(x, p)) slices x along the permuted axes; what is left of p follows, often nothing."""
    perm, params = turned.perm, match.eqn.params
    known = [given(static_value(bound), "constant_bounds") for bound in (begin, end, strides)]
    missing = len(perm) - len(known[0])  # axes that are not spelled are kept whole
    bounds = [(*bound, *[default] * missing) for bound, default in zip(known, (0, 0, 1), strict=True)]
    kept_whole = (1 << len(perm)) - (1 << len(perm) - missing)
    shrunk = params["shrink_axis_mask"]
    axes_left = [axis for i, axis in enumerate(perm) if not shrunk >> i & 1]
    need(axes_left == sorted(axes_left) or match.view.readers(match.eqn.inputs[0]) == 1, "order_kept")  # type: ignore[arg-type]
    place = [perm.index(axis) for axis in range(len(perm))]
    bits = {"begin_mask": kept_whole, "end_mask": kept_whole, "shrink_axis_mask": 0}
    masks = {name: _permuted_mask(params[name] | more, place) for name, more in bits.items()}
    sliced = ops.strided_slice(turned.x, *(np.array([b[i] for i in place], np.int32) for b in bounds), **masks)
    left = np.argsort(np.argsort(axes_left))
    return sliced if axes_left == sorted(axes_left) else ops.transpose(sliced, left.astype(np.int32))


# Any number of operands is no pattern.
@peephole_walk(ops.concatenation, ops.add, ops.sub, ops.mul, ops.maximum, ops.minimum)
def joined_transposes(eqn: Eqn, view: GraphView) -> Any:
    """CONCATENATION and ADD of several TRANSPOSE by one permutation are one TRANSPOSE: of both directions' results."""
    before = [sole_producer(view, x) for x in eqn.inputs]
    made = [b for b in before if b is not None and b.op is ops.transpose]
    perms = {permutation(b) for b in made}
    if len(made) < 2 or len(made) != len(eqn.inputs):
        return None
    need(len(perms) == 1, "one_permutation")
    (perm,) = perms
    if eqn.op is ops.concatenation:
        options = {"axis": perm[from_front(eqn.params["axis"], len(perm))]}
    else:
        # Sizes that are broadcast stand elsewhere before.
        need(all(keeps_type(b.outputs[0].type, eqn.outputs[0].type) for b in made), "type_of_result")
        options = {}
    return ops.transpose(again(eqn, inputs=tuple(b.inputs[0] for b in made), **options), np.array(perm, np.int32))


def _permuted_mask(mask: int, place: Sequence[int]) -> int:
    return sum((mask >> i & 1) << axis for axis, i in enumerate(place))
