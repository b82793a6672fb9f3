"""Sums of the rows of tables, and places in ordered ones."""

from __future__ import annotations

from typing import Any

import numpy as np

from jfuse.errors import LowerError
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.from_torch.promotion import as_type, promoted
from jfuse.lowering.from_torch.shapes import lower_cat, lower_slice_, lower_unsqueeze
from jfuse.lowering.rule_tools.place import sources
from jfuse.lowering.rule_tools.query import dtype, rank, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted
from jfuse.lowering.rules import lowers_torch

_SUM, _MEAN = 0, 1


@lowers_torch("aten.embedding_bag", "aten._embedding_bag", "aten._embedding_bag_forward_only")
def lower_embedding_bag(
    table: Array,
    ids: Array,
    offsets: Array,
    scale_grad_by_freq: bool = False,
    mode: int = _SUM,
    sparse: bool = False,
    per_sample_weights: Array | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = -1,
) -> Any:
    """Sums or means of the rows of each bag: a product of which row is in which bag with the rows.

    table: f[n, d]; ids: i[m]; offsets: i[bags], where each bag begins -> f[bags, d], and nothing else that is read
    """
    if mode not in (_SUM, _MEAN):
        raise LowerError("bags of which the largest element counts", remedy='mode="sum" or "mean"')
    if include_last_offset:
        offsets = lower_slice_(offsets, 0, 0, offsets.shape[0] - 1)
    place = counted(ids.shape[0], ids, *sources())
    begins = as_type(offsets, DType.i32)
    begun = as_type(ops.less_equal(lower_unsqueeze(begins, 1), place), dtype(table))  # [bags, m]
    following = lower_cat([lower_slice_(begun, 0, 1), ops.mul(lower_slice_(begun, 0, 0, 1), scalar(0, table))], 0)
    shares = ops.sub(begun, following)
    if padding_idx is not None and padding_idx >= 0:
        shares = ops.mul(shares, as_type(ops.not_equal(ids, np.asarray(padding_idx, dtype(ids).numpy)), dtype(table)))
    counts = ops.sum_(shares, np.array([1], np.int32), keep_dims=True) if mode == _MEAN else None
    if per_sample_weights is not None:
        shares = ops.mul(shares, per_sample_weights)
    found = ops.batch_matmul(shares, ops.gather(table, as_type(ids, DType.i32), axis=0))
    found = found if counts is None else ops.div(found, ops.maximum(counts, scalar(1, table)))
    return found, None, None, None


@lowers_torch("aten.bucketize")
def lower_bucketize(x: Any, boundaries: Array, *, right: bool = False, out_int32: bool = False) -> Array:
    """How many boundaries lie below each element; with `right` those at the element as well."""
    element, bounds = promoted(x, boundaries)
    is_below = ops.greater_equal if right else ops.greater
    below = is_below(lower_unsqueeze(element, rank(element)), bounds)
    axis = np.array([rank(element)], np.int32)
    count = ops.sum_(as_type(below, DType.i32), axis, keep_dims=False)
    return count if out_int32 else as_type(count, DType.i64)
