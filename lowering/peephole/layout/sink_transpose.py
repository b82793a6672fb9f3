"""TRANSPOSE moves behind ops that can work in another layout, where it meets its inverse or has less to move.

Keras and tf.while_loop step along axis 0, so a recurrence over [b, t, i] stands between two transposes. The fused ops
take either layout, but compute [b, t, i] one sequence after the other: with more than one sequence that is up to 2.6
times slower than two transposes (LiteRT 2.3.0, batch 32, 16 units), with one it is the same thing.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels.array import array, slicing
from jfuse.kernels.core.layout import axes_from_front, from_front
from jfuse.kernels.core.op import static_value
from jfuse.kernels.fused import bidirectional, lstm, rnn
from jfuse.kernels.math import elementwise
from jfuse.lowering.peephole.layout.transpose import permutation
from jfuse.lowering.peephole.registry import View, peephole, sole_producer
from jfuse.lowering.rule_tools.producer import again
from jfuse.lowering.rule_tools.query import keeps_type

SWAP = (1, 0, 2)  # time-major and batch-major


@peephole(
    bidirectional.bidirectional_sequence_lstm,
    bidirectional.bidirectional_sequence_rnn,
    lstm.unidirectional_sequence_lstm,
    rnn.unidirectional_sequence_rnn,
)
def recurrence_of_transpose(eqn: Eqn, view: View) -> Any:
    """A time-major recurrence over TRANSPOSE(x) of one sequence is the batch-major one over x."""
    x, *others = eqn.inputs
    found = transposed(x, view)
    if not eqn.params["time_major"] or found is None or found[1] != SWAP or not same(found[0].type.shape[0], 1):
        return None
    if any(a is not None and a.type.rank == 3 for a in others):
        return None  # an auxiliary sequence
    results = eqn.op.run([found[0], *others], {**eqn.params, "time_major": False}, ())
    return tuple(array.transpose(r, np.array(SWAP, np.int32)) if r.ndim == 3 else r for r in results)


@peephole(array.reverse_v2)
def reverse_of_transpose(eqn: Eqn, view: View) -> Any:
    """REVERSE_V2(TRANSPOSE(x, p), a) = TRANSPOSE(REVERSE_V2(x, p[a]), p)."""
    x, axes = eqn.inputs
    found = transposed(x, view)
    if found is None or axes is None:
        return None
    source, perm = found
    reversed_axes = [perm[a] for a in axes_from_front(static_value(axes), len(perm))]
    return array.transpose(array.reverse_v2(source, np.array(reversed_axes, np.int32)), np.array(perm, np.int32))


@peephole(slicing.strided_slice)
def slice_of_transpose(eqn: Eqn, view: View) -> Any:
    """STRIDED_SLICE(TRANSPOSE(x, p)) slices x along the permuted axes; what is left of p follows, often nothing."""
    x, begin, end, strides = eqn.inputs
    found = transposed(x, view)
    plain = not eqn.params["ellipsis_mask"] and not eqn.params["new_axis_mask"] and not eqn.params["offset"]
    if found is None or not plain or begin is None or end is None or strides is None:
        return None
    source, perm = found
    missing = len(perm) - len(static_value(begin))  # axes that are not spelled are kept whole
    bounds = [(*static_value(b), *[d] * missing) for b, d in ((begin, 0), (end, 0), (strides, 1))]
    kept_whole = (1 << len(perm)) - (1 << len(perm) - missing)
    shrunk = eqn.params["shrink_axis_mask"]
    kept = [axis for i, axis in enumerate(perm) if not shrunk >> i & 1]
    if kept != sorted(kept) and view.readers(x) != 1:  # type: ignore[arg-type]
        return None
    place = [perm.index(axis) for axis in range(len(perm))]
    bits = {"begin_mask": kept_whole, "end_mask": kept_whole, "shrink_axis_mask": 0}
    masks = {name: _permuted_mask(eqn.params[name] | more, place) for name, more in bits.items()}
    sliced = slicing.strided_slice(source, *(np.array([b[i] for i in place], np.int32) for b in bounds), **masks)
    left = np.argsort(np.argsort(kept))
    return sliced if kept == sorted(kept) else array.transpose(sliced, left.astype(np.int32))


@peephole(
    array.concatenation, elementwise.add, elementwise.sub, elementwise.mul, elementwise.maximum, elementwise.minimum
)
def joined_transposes(eqn: Eqn, view: View) -> Any:
    """CONCATENATION and ADD of several TRANSPOSE by one permutation are one TRANSPOSE: of both directions' results."""
    before = [sole_producer(view, x) for x in eqn.inputs]
    made = [b for b in before if b is not None and b.op is array.transpose]
    perms = {permutation(b) for b in made}
    if len(made) < 2 or len(made) != len(eqn.inputs) or len(perms) != 1:
        return None
    (perm,) = perms
    if eqn.op is array.concatenation:
        options = {"axis": perm[from_front(eqn.params["axis"], len(perm))]}
    elif all(keeps_type(b.outputs[0].type, eqn.outputs[0].type) for b in made):
        options = {}
    else:
        return None  # sizes that are broadcast stand elsewhere before
    return array.transpose(again(eqn, inputs=tuple(b.inputs[0] for b in made), **options), np.array(perm, np.int32))


def _permuted_mask(mask: int, place: Sequence[int]) -> int:
    return sum((mask >> i & 1) << axis for axis, i in enumerate(place))


def transposed(x: Atom | None, view: View) -> tuple[Atom, tuple[int, ...]] | None:
    """The operand and the permutation of the TRANSPOSE that makes x, also where it is spelled as a RESHAPE."""
    before = view.producer(x)
    source = None if before is None else before.inputs[0]
    if before is None or source is None:
        return None
    if before.op is array.transpose:
        return source, permutation(before)
    old, new = source.type.shape, before.outputs[0].type.shape
    one_sequence = before.op is array.reshape and len(old) == len(new) == 3 and same(old[0], 1) and same(new[1], 1)
    return (source, SWAP) if one_sequence and same(old[1], new[0]) and same(old[2], new[2]) else None
