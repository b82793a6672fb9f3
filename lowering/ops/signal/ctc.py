"""Decoders of connectionist temporal classification: the best path, and beam search in a WHILE over the steps.

A beam is a sequence of labels with two log probabilities: that its last step was a blank, and that it was its last
label. In each step every beam goes on as it is, or grows by a label; beams that become the same sequence are added up.
With several beams, a second WHILE within the step finds those that TensorFlow forgets.
Of beams of equal probability those that stay come before those that grow; TensorFlow's order is that of a heap.
Source: tensorflow/core/util/ctc/ctc_beam_search.h.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import is_known
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.kernels.core.layout import agreed
from jfuse.kernels.core.op import Array
from jfuse.lowering.rule_tools.operands import as_i32
from jfuse.lowering.rule_tools.query import dtype, scalar, type_of
from jfuse.lowering.rule_tools.shape_tensors import counted, shape_tensor, size_tensor
from jfuse.lowering.rules import lowers

# Decoding of connectionist temporal classification: the most probable class of each step.


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


_NEVER = np.float32(-1e30)  # the logarithm of 0, finite so that sums of it are no NaN
_LEAST = np.float32(-1e29)
_NONE = np.int32(-1)


class _Beams(NamedTuple):
    """labels: i32[b,beams,steps], -1 behind the end; lengths: i32[b,beams]; the others f32[b,beams], best first."""

    labels: Array
    lengths: Array
    blank: Array
    label: Array
    total: Array


@lowers("CTCBeamSearchDecoder")
def lower_ctc_beam_search_decoder(
    inputs: Array, sequence_length: Array, *, beam_width: int, top_paths: int, merge_repeated: bool = True
) -> Any:
    """For each of the best paths a sparse matrix of its labels, and their log probabilities.

    inputs: f[t,b,classes], the last class is the blank; sequence_length: i32[b] -> i64[n,2] for each path,
    i64[n] for each, i64[2] for each, f32[b,paths]
    """
    agreed(inputs.shape[1], sequence_length.shape[0])
    steps, batch, classes = inputs.shape
    if not is_known(classes):
        raise LowerError("a beam search over an open number of classes has no TFLite spelling")
    # All beams of all sequences grow together, one step in each turn of the WHILE. A beam that does not exist has the
    # log probability _NEVER: the search starts with one empty beam.
    scores = ops.maximum(ops.log_softmax(inputs), _NEVER)
    first = np.full((1, beam_width), _NEVER, np.float32)
    first[0, 0] = 0
    rows = [inputs, sequence_length]
    shape = shape_tensor((batch, beam_width), rows)
    start = ops.broadcast_to(first, shape)
    begin = _Beams(
        ops.fill(shape_tensor((batch, beam_width, steps), rows), _NONE),
        ops.fill(shape, np.int32(0)),
        start,
        ops.fill(shape, _NEVER),
        start,
    )
    lengths = as_i32(sequence_length)
    carried = (np.int32(0), size_tensor(steps, [inputs]), scores, lengths, *begin)

    def goes_on(step: Array, end: Array, *_: Array) -> Array:
        return ops.less(step, end)

    def turned(step: Array, end: Array, scores: Array, lengths: Array, *beams: Array) -> tuple[Array, ...]:
        before = _Beams(*beams)
        after = _grown(before, ops.gather(scores, step, axis=0), int(classes))
        # Sequences that have ended keep their beams.
        runs = ops.expand_dims(ops.less(step, lengths), np.int32(1))
        selected = [ops.select_v2(runs, a, b) for a, b in zip(after[1:], before[1:], strict=True)]
        labels = ops.select_v2(ops.expand_dims(runs, np.int32(2)), after.labels, before.labels)
        return (ops.add(step, np.int32(1)), end, scores, lengths, labels, *selected)

    types = [type_of(v) for v in carried]
    cond, body = trace_graph(goes_on, types, name="cond"), trace_graph(turned, types, name="body")
    best_beams = _Beams(*ops.while_(carried, [cond, body])[4:])
    paths = [_path(best_beams, number, merge_repeated) for number in range(top_paths)]
    chances = ops.strided_slice(
        best_beams.total, np.zeros(2, np.int32), np.array([0, top_paths], np.int32), [1, 1], end_mask=1
    )
    return (*tuple(part for parts in zip(*paths, strict=True) for part in parts), chances)


def _grown(beams: _Beams, scores: Array, classes: int) -> _Beams:
    """The best beams one step later.   scores: f32[b,classes], log probabilities"""
    width, labels = int(beams.total.shape[1]), classes - 1
    is_there = ops.greater(beams.total, _LEAST)
    last = _last(beams)
    # Whether beam i is beam j and one more label: bool[b,i,j]. What stands in places without a beam does not count: it
    # may be the labels of a beam that is there, which would be found twice.
    both = ops.logical_and(ops.expand_dims(is_there, np.int32(1)), ops.expand_dims(is_there, np.int32(2)))
    from_beam = ops.logical_and(_is_one_longer(beams), both)
    same_label = ops.equal(ops.expand_dims(last, np.int32(2)), ops.expand_dims(last, np.int32(1)))
    before = ops.select_v2(
        same_label, ops.expand_dims(beams.blank, np.int32(1)), ops.expand_dims(beams.total, np.int32(1))
    )
    arrived = ops.reduce_max(ops.select_v2(from_beam, before, _NEVER), np.array([2], np.int32))
    said = ops.gather(scores, ops.maximum(last, np.int32(0)), axis=1, batch_dims=1)
    has_label = ops.greater(beams.lengths, np.int32(0))
    label = ops.select_v2(has_label, ops.add(_either(beams.label, arrived), said), _NEVER)
    silence = ops.strided_slice(scores, [0, labels], [0, classes], [1, 1], begin_mask=1, end_mask=1)
    blank = ops.add(beams.total, silence)
    total = _either(blank, label)

    is_next = ops.equal(ops.expand_dims(last, np.int32(2)), np.arange(labels, dtype=np.int32))  # [b,beams,labels]
    spoken = ops.strided_slice(scores, [0, 0], [0, labels], [1, 1], begin_mask=3, end_mask=1)
    longer = ops.select_v2(
        is_next, ops.expand_dims(beams.blank, np.int32(2)), ops.expand_dims(beams.total, np.int32(2))
    )
    longer = ops.add(longer, ops.expand_dims(spoken, np.int32(1)))
    known = ops.batch_matmul(_number(from_beam), _number(is_next), adj_x=True)  # beam i and a label are a beam already
    may_grow = ops.logical_and(ops.less(known, np.float32(0.5)), ops.expand_dims(is_there, np.int32(2)))
    longer = ops.reshape(ops.select_v2(may_grow, longer, _NEVER), np.array([-1, width * labels], np.int32))
    if width > 1:
        longer = _without_forgotten(longer, total, from_beam, last, labels)
    best, places = ops.topk_v2(ops.concatenation(total, longer, axis=1), np.int32(width))

    stays = ops.less(places, np.int32(width))
    grown = ops.maximum(ops.sub(places, np.int32(width)), np.int32(0))
    source = ops.select_v2(stays, places, ops.floor_div(grown, np.int32(labels)))
    added = ops.select_v2(stays, _NONE, ops.floor_mod(grown, np.int32(labels)))
    lengths, sequences, blanks, ends = (
        ops.gather(v, source, axis=1, batch_dims=1) for v in (beams.lengths, beams.labels, blank, label)
    )
    here = ops.equal(ops.expand_dims(lengths, np.int32(2)), counted(sequences.shape[2], sequences))
    sequences = ops.select_v2(here, ops.expand_dims(added, np.int32(2)), sequences)
    grows = ops.cast(ops.logical_not(stays), out_data_type=DType.i32)
    return _Beams(
        sequences, ops.add(lengths, grows), ops.select_v2(stays, blanks, _NEVER), ops.select_v2(stays, ends, best), best
    )


def _without_forgotten(longer: Array, total: Array, from_beam: Array, last: Array, labels: int) -> Array:
    """The scores of beams that grow, without those of beams that TensorFlow forgets.

    Its beams grow one after another, the best first, into a list of the best so far. A beam that has fallen out of the
    list when the one that it came from grows is set to nothing, and does not grow any more when its turn comes.
    longer: f32[b,beams*labels]; total: f32[b,beams]; from_beam: bool[b,i,j]; last: i32[b,beams]
    """
    width = int(total.shape[1])
    order = np.arange(width, dtype=np.int32)
    origin = ops.sum_(ops.mul(_number(from_beam), order.astype(np.float32)), np.array([2], np.int32))
    turn = ops.add(ops.mul(ops.cast(origin, out_data_type=DType.i32), np.int32(labels)), last)
    comes_later = ops.reduce_any(ops.logical_and(from_beam, order[:, None] > order), np.array([2], np.int32))
    before = ops.less(np.arange(width * labels, dtype=np.int32), ops.expand_dims(turn, np.int32(2)))
    score = ops.expand_dims(total, np.int32(2))
    better = _count(ops.greater(ops.expand_dims(total, np.int32(1)), score))
    none = ops.not_equal(comes_later, comes_later)

    def changes(goes_on: Array, *_: Array) -> Array:
        return goes_on

    def again(goes_on: Array, forgotten: Array, *values: Array) -> tuple[Array, ...]:
        longer, score, before, better, from_beam, comes_later = values
        growing = ops.expand_dims(_if_not(forgotten, longer, labels), np.int32(1))
        ranks = ops.add(better, _count(ops.logical_and(ops.greater(growing, score), before)))
        grows = ops.logical_not(ops.logical_and(from_beam, ops.expand_dims(forgotten, np.int32(1))))
        visited = ops.logical_and(comes_later, ops.reduce_all(grows, np.array([2], np.int32)))
        now = ops.logical_and(visited, ops.greater_equal(ranks, np.float32(width)))
        return (_any(ops.not_equal(now, forgotten)), now, *values)

    # Which are forgotten depends on what grows before: until nothing changes, once or twice as a rule.
    carried = (_any(comes_later), none, longer, score, before, better, from_beam, comes_later)
    types = [type_of(v) for v in carried]
    bodies = [trace_graph(changes, types, name="cond"), trace_graph(again, types, name="body")]
    return _if_not(ops.while_(carried, bodies)[1], longer, labels)


def _if_not(forgotten: Array, longer: Array, labels: int) -> Array:
    width = int(forgotten.shape[1])
    by_beam = ops.reshape(longer, np.array([-1, width, labels], np.int32))
    remembered = ops.select_v2(ops.expand_dims(forgotten, np.int32(2)), _NEVER, by_beam)
    return ops.reshape(remembered, np.array([-1, width * labels], np.int32))


def _count(x: Array) -> Array:
    return ops.sum_(_number(x), np.array([2], np.int32))


def _any(x: Array) -> Array:
    return ops.reduce_any(x, np.array([0, 1], np.int32))


def _last(beams: _Beams) -> Array:
    """The last label of each beam, -1 of an empty one.   -> i32[b,beams]"""
    place = ops.sub(beams.lengths, np.int32(1))
    here = ops.equal(ops.expand_dims(place, np.int32(2)), counted(beams.labels.shape[2], beams.labels))
    return ops.reduce_max(ops.select_v2(here, beams.labels, _NONE), np.array([2], np.int32))


def _is_one_longer(beams: _Beams) -> Array:
    """Whether beam i without its last label is beam j.   -> bool[b,i,j]"""
    place = ops.sub(beams.lengths, np.int32(1))
    here = ops.equal(ops.expand_dims(place, np.int32(2)), counted(beams.labels.shape[2], beams.labels))
    shorter = ops.select_v2(here, _NONE, beams.labels)
    alike = ops.equal(ops.expand_dims(shorter, np.int32(2)), ops.expand_dims(beams.labels, np.int32(1)))
    one_less = ops.equal(ops.expand_dims(place, np.int32(2)), ops.expand_dims(beams.lengths, np.int32(1)))
    return ops.logical_and(ops.reduce_all(alike, np.array([3], np.int32)), one_less)


def _either(x: Array, y: Array) -> Array:
    """The logarithm of the sum of two probabilities given by theirs."""
    apart = ops.exp(ops.neg(ops.abs_(ops.sub(x, y))))
    return ops.add(ops.maximum(x, y), ops.log(ops.add(apart, np.float32(1))))


def _number(x: Array) -> Array:
    return ops.cast(x, out_data_type=DType.f32)


def _path(beams: _Beams, number: int, merge_repeated: bool) -> tuple[Array, Array, Array]:
    """One beam of each row as a sparse matrix."""
    place = np.asarray(number, np.int32)
    labels, lengths = (ops.gather(v, place, axis=1) for v in (beams.labels, beams.lengths))
    is_kept = ops.less(counted(labels.shape[1], labels), ops.expand_dims(lengths, np.int32(1)))
    if merge_repeated:
        longer = ops.padv2(labels, np.array([[0, 0], [1, 0]], np.int32), _NONE)
        before = ops.strided_slice(longer, [0, 0], [0, -1], [1, 1], begin_mask=3, end_mask=1)
        is_kept = ops.logical_and(is_kept, ops.not_equal(labels, before))
    return sparse_rows(labels, is_kept)
