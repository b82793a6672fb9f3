"""Decoding of connectionist temporal classification: the most probable class of each step."""

from __future__ import annotations

import numpy as np

from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, scalar
from jfuse.lowering.rule_tools.shape_tensors import counted, size_tensor
from jfuse.lowering.rules import lowers


@lowers("CTCGreedyDecoder")
def lower_ctc_greedy_decoder(
    inputs: Array, sequence_length: Array, *, merge_repeated: bool = False, blank_index: int = -1
) -> tuple[Array, Array, Array, Array]:
    """ARG_MAX of the classes, and WHERE among them of those that are neither blank nor beyond the end nor repeated.

    inputs: f[t,b,classes]; sequence_length: i32[b] -> i64[n,2], i64[n], i64[2], f[b,1]: a sparse matrix, and the sum of
    the greatest logits, negated
    """
    steps, _, classes = inputs.shape
    best = ops.arg_max(inputs, np.int32(2), output_type=DType.i32)
    is_step = ops.less(ops.expand_dims(counted(steps, inputs), np.int32(1)), as_i32(sequence_length))
    from_end = blank_index < 0
    blank = ops.add(size_tensor(classes, [inputs]) if from_end else np.int32(0), np.int32(blank_index))
    is_kept = ops.logical_and(is_step, ops.not_equal(best, blank))
    if merge_repeated:
        is_kept = ops.logical_and(is_kept, ops.not_equal(best, _before(best)))
    by_rows = np.array([1, 0], np.int32)
    labels = sparse_rows(ops.transpose(best, by_rows), ops.transpose(is_kept, by_rows))
    scores = ops.select_v2(is_step, ops.reduce_max(inputs, np.array([2], np.int32)), scalar(0, inputs))
    total = ops.expand_dims(ops.neg(ops.sum_(scores, np.array([0], np.int32))), np.int32(1))
    return *labels, total


def sparse_rows(labels: Array, is_kept: Array) -> tuple[Array, Array, Array]:
    """A sparse matrix of the labels that are kept, those of a row side by side.

    labels: i32[b,t]; is_kept: bool[b,t] -> i64[n,2], i64[n], i64[2], a shape as wide as the longest row
    """
    places = ops.where(is_kept)
    ones = ops.cast(is_kept, out_data_type=DType.i32)
    order = ops.gather_nd(ops.cumsum(ones, np.int32(1), exclusive=True), places)
    line, _ = ops.split(np.int32(1), places, num_splits=2)
    indices = ops.concatenation(line, _i64(ops.expand_dims(order, np.int32(1))), axis=1)
    longest = ops.reduce_max(ops.sum_(ones, np.array([1], np.int32)), np.array([0], np.int32))
    shape = ops.pack(size_tensor(labels.shape[0], [labels]), longest)
    return indices, _i64(ops.gather_nd(labels, places)), _i64(shape)


def _before(best: Array) -> Array:
    """The class of the step before, -1 at the first one.   i32[t,b] -> i32[t,b]"""
    ends = np.array([[1, 0], [0, 0]], np.int32)
    longer = ops.padv2(best, ends, np.asarray(-1, np.int32))
    begin, end = np.zeros(2, np.int32), np.array([-1, 0], np.int32)
    return ops.strided_slice(longer, begin, end, np.ones(2, np.int32), begin_mask=3, end_mask=2)


def _i64(x: Array) -> Array:
    return x if dtype(x) is DType.i64 else ops.cast(x, out_data_type=DType.i64)
