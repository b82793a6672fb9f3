"""TRANSPOSE moves behind ops that can work in another layout, where it meets its inverse or has less to move.

Keras and tf.while_loop step along axis 0, so a recurrence over [b, t, i] stands between two transposes; the fused ops
take either layout.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Eqn
from jfuse.kernels import array, slicing
from jfuse.kernels.fused import lstm
from jfuse.kernels.layout import axes_from_front
from jfuse.kernels.op import static_value
from jfuse.lowering.merge.registry import View, merges

_SWAP = (1, 0, 2)  # time-major and batch-major


@merges(lstm.unidirectional_sequence_lstm)
def recurrence_of_transpose(eqn: Eqn, view: View) -> Any:
    """A time-major recurrence over TRANSPOSE(x) is the batch-major one over x, its sequence transposed."""
    x, *others = eqn.inputs
    found = _transposed(x, view)
    if not eqn.params["time_major"] or found is None or found[1] != _SWAP:
        return None
    y, *states = eqn.op.run([found[0], *others], {**eqn.params, "time_major": False}, ())
    return (array.transpose(y, np.array(_SWAP, np.int32)), *states)


@merges(array.reverse_v2)
def reverse_of_transpose(eqn: Eqn, view: View) -> Any:
    """REVERSE_V2(TRANSPOSE(x, p), a) = TRANSPOSE(REVERSE_V2(x, p[a]), p)."""
    x, axes = eqn.inputs
    found = _transposed(x, view)
    if found is None or axes is None:
        return None
    source, perm = found
    reversed_axes = [perm[a] for a in axes_from_front(static_value(axes), len(perm))]
    return array.transpose(array.reverse_v2(source, np.array(reversed_axes, np.int32)), np.array(perm, np.int32))


@merges(slicing.strided_slice)
def slice_of_transpose(eqn: Eqn, view: View) -> Any:
    """STRIDED_SLICE(TRANSPOSE(x, p)) slices x along the permuted axes; what is left of p follows, often nothing."""
    x, begin, end, strides = eqn.inputs
    found = _transposed(x, view)
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


def _permuted_mask(mask: int, place: Sequence[int]) -> int:
    return sum((mask >> i & 1) << axis for axis, i in enumerate(place))


def _transposed(x: Atom | None, view: View) -> tuple[Any, tuple[int, ...]] | None:
    """The operand and the permutation of the TRANSPOSE that makes x."""
    before = view.producer(x)
    if before is None or before.op is not array.transpose or before.inputs[1] is None:
        return None
    perm = axes_from_front(static_value(before.inputs[1]), before.outputs[0].type.rank)
    return before.inputs[0], tuple(int(a) for a in perm)
