"""Attention by its products: softmax(q k' * scale + mask) v, for several heads or one.

A mask that chooses between scores and a number is no sum: where a hidden score is infinite, the sum is as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from jfuse.ir.graph import Atom, Const, Eqn, Var
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.passes.outline.region import Meaning, Surroundings

_HEADS_LAST = (0, 2, 1, 3)  # [batch, time, heads, features] from [batch, heads, time, features], and back
_FEATURES_BEFORE_TIME = (0, 2, 3, 1)
_NAME = "odml.scaled_dot_product_attention"


def attention(around: Surroundings) -> Iterator[Meaning]:
    """Find candidates for scaled dot product attention."""
    for eqn in around.graph.eqns:
        if eqn.op is ops.softmax and eqn.params["beta"] == 1:
            yield from _at(around, eqn)


def _at(around: Surroundings, softmax: Eqn) -> Iterator[Meaning]:
    readers = around.read.get(softmax.outputs[0], ())
    weighted = _weighted(readers[0], softmax.outputs[0]) if len(readers) == 1 else None
    if weighted is None:
        return
    scores, mask = _without_mask(around, softmax.inputs[0])
    scores, scale = _without_scale(around, scores)
    before = around.made.get(scores) if isinstance(scores, Var) else None
    if before is None or before.op is not ops.batch_matmul:
        return
    q, k = before.inputs
    if before.params["adj_x"]:
        return
    factors = (q, False), (k, not before.params["adj_y"]), (weighted.values, weighted.is_turned)
    parts = [_operand(around, atom, turned) for atom, turned in factors]
    operands = [f for f in parts if f is not None]
    if len(operands) < len(parts) or not _is_right(operands):
        return
    output, after = _result(around, weighted)
    spelled = partial(_spelled, operands=operands, mask=mask, after=after)
    function = partial(scaled_dot_product_attention, scale=scale)
    inputs = dict.fromkeys(a for a in (*(f.value for f in operands), mask) if isinstance(a, Var))
    spelled = partial(spelled, inputs=tuple(inputs))
    yield Meaning(_NAME, {"scale": scale}, function, tuple(inputs), output, spelled)


@dataclass(frozen=True)
class _WeightedSum:
    """The product of weights and values.   values: turned where features come before time; axes: as `_result` says"""

    product: Var
    values: Atom | None
    is_turned: bool
    axes: tuple[int, ...]


def _weighted(eqn: Eqn, weights: Var) -> _WeightedSum | None:
    """The product of weights and values, or of both transposed; None of anything else."""
    if eqn.op is not ops.batch_matmul:
        return None
    (x, y), (adj_x, adj_y), (out,) = eqn.inputs, (bool(eqn.params["adj_x"]), bool(eqn.params["adj_y"])), eqn.outputs
    if x is weights and not adj_x:
        return _WeightedSum(out, y, adj_y, _HEADS_LAST)
    if y is weights and adj_y and out.type.rank == len(_HEADS_LAST):
        return _WeightedSum(out, x, not adj_x, _FEATURES_BEFORE_TIME)
    return None


@dataclass(frozen=True)
class _Operand:
    """A tensor, and the permutation that makes it [batch, time, heads, features]; None where it is a head's alone."""

    value: Var
    axes: tuple[int, ...] | None

    @property
    def shape(self) -> tuple[int, ...]:
        """[batch, time, heads, features]."""
        sizes = tuple(map(int, self.value.type.shape))
        return (*sizes[:2], 1, sizes[2]) if self.axes is None else tuple(sizes[i] for i in self.axes)

    def given(self, x: Any) -> Any:
        """The operand of the function."""
        if self.axes is None:
            return ops.expand_dims(x, np.int32(2))
        return x if self.axes == (0, 1, 2, 3) else ops.transpose(x, np.array(self.axes, np.int32))


def _operand(around: Surroundings, atom: Atom | None, turned: bool) -> _Operand | None:
    """A factor of shape [batch, heads, time, features] or without heads.   turned: features come before time"""
    if not isinstance(atom, Var) or atom.type.dtype is not DType.f32 or not atom.type.is_static:
        return None
    if atom.type.rank == 3:
        return None if turned else _Operand(atom, None)
    if atom.type.rank != 4:
        return None
    axes = (0, 3, 1, 2) if turned else _HEADS_LAST
    made = around.made.get(atom)
    permutation = permuted_by(made)
    if made is None or permutation is None or not isinstance(made.inputs[0], Var):
        return _Operand(atom, axes)
    return _Operand(made.inputs[0], tuple(permutation[i] for i in axes))


def permuted_by(eqn: Eqn | None) -> tuple[int, ...] | None:
    """The permutation of a TRANSPOSE that is known; None of anything else."""
    if eqn is None or eqn.op is not ops.transpose or not isinstance(eqn.inputs[1], Const):
        return None
    return tuple(int(i) for i in eqn.inputs[1].array)


def _is_right(operands: Sequence[_Operand]) -> bool:
    """Whether q, k and v are of the same batch, heads and features, and XNNPACK answers rightly."""
    ranks = {o.value.type.rank for o in operands if o.axes is None}
    (batch, _, heads, features), *others = (o.shape for o in operands)
    if any((s[0], s[2], s[3]) != (batch, heads, features) for s in others) or len(ranks) not in (0, 1):
        return False
    # With one head and several samples XNNPACK gives wrong answers without a mask, and fails with one (LiteRT 2.3.0).
    return heads > 1 or batch == 1


def _result(around: Surroundings, weighted: _WeightedSum) -> tuple[Var, tuple[int, ...] | None]:
    """Return the value to replace, and its permutation of [batch, time, heads, features]; None without heads."""
    made = weighted.product
    if made.type.rank == 3:
        return made, None
    readers = around.read.get(made, ())
    permutation = permuted_by(readers[0]) if len(readers) == 1 and made not in around.graph.outputs else None
    if permutation is None:
        return made, weighted.axes
    return readers[0].outputs[0], tuple(weighted.axes[i] for i in permutation)


def _spelled(
    call: Any,
    *arguments: Any,
    inputs: Sequence[Var],
    operands: Sequence[_Operand],
    mask: Atom | None,
    after: tuple[int, ...] | None,
) -> Any:
    """Attention of q, k, v and a mask, where there is one."""
    values = dict(zip(inputs, arguments, strict=True))
    masks = [] if mask is None else [values[mask] if isinstance(mask, Var) else mask.array]
    result = call(*(o.given(values[o.value]) for o in operands), *(_of_rank_4(m, after is not None) for m in masks))
    if after is None:
        return ops.squeeze(result, squeeze_dims=(2,))
    return result if after == (0, 1, 2, 3) else ops.transpose(result, np.array(after, np.int32))


def _heads_last(x: Any) -> Any:
    return ops.transpose(x, np.array(_HEADS_LAST, np.int32))


def _of_rank_4(mask: Any, has_heads: bool) -> Any:
    """The mask with axes of size 1 for heads, and in front."""
    shape = list(mask.shape if isinstance(mask, np.ndarray) else mask.type.shape)
    if not has_heads and len(shape) == 3:
        shape.insert(1, 1)
    shape = [1] * (4 - len(shape)) + shape
    return ops.reshape(mask, np.array(shape, np.int32))


def _without_mask(around: Surroundings, scores: Atom | None) -> tuple[Atom | None, Atom | None]:
    """Scores before a mask is added to them, and the mask: a constant, or the operand that no product gives."""
    eqn = around.made.get(scores) if isinstance(scores, Var) else None
    if eqn is None or eqn.op is not ops.add or eqn.params["fused_activation_function"] != "NONE":
        return scores, None
    for x, mask in (eqn.inputs, eqn.inputs[::-1]):
        unscaled, _ = _without_scale(around, x)
        made = around.made.get(unscaled) if isinstance(unscaled, Var) else None
        if made is not None and made.op is ops.batch_matmul and x is not None and x.type == eqn.outputs[0].type:
            return x, mask
    return scores, None


def _without_scale(around: Surroundings, scores: Atom | None) -> tuple[Atom | None, float]:
    """Scores before they are multiplied with a number, and the number."""
    eqn = around.made.get(scores) if isinstance(scores, Var) else None
    if eqn is None or eqn.op not in (ops.mul, ops.div) or eqn.params["fused_activation_function"] != "NONE":
        return scores, 1.0
    x, factor = eqn.inputs
    if isinstance(x, Const) and eqn.op is ops.mul:
        x, factor = factor, x
    if not isinstance(factor, Const) or factor.array.size != 1:
        return scores, 1.0
    number = float(factor.array.reshape(()))
    return x, number if eqn.op is ops.mul else 1 / number


def scaled_dot_product_attention(q: Any, k: Any, v: Any, mask: Any = None, *, scale: float) -> Any:
    """softmax(q k' * scale + mask) v.

    q: f32[b,t,n,h]; k, v: f32[b,s,n,h]; mask: f32, broadcast to [b,n,t,s]. Returns f32[b,t,n,h].
    Source: tflite/delegates/xnnpack/xnnpack_delegate.cc, VisitScaledDotAttentionCompositeNode
    """
    rows, keys, values = (_heads_last(x) for x in (q, k, v))
    scores = ops.mul(ops.batch_matmul(rows, keys, adj_y=True), np.float32(scale))
    if mask is not None:
        scores = ops.add(scores, mask)
    return _heads_last(ops.batch_matmul(ops.softmax(scores), values))
