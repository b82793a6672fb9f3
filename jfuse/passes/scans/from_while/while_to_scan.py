"""While loops that step once through sequences become `scan`. What does not fit a scan's frame stays a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.base.errors import LowerError, NotFused
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.evaluate import evaluate
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import trace_graph
from jfuse.ir.walk import live_eqns, producers, rename_dims, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan, while_
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.lowering.rules import need
from jfuse.passes.context import Context
from jfuse.passes.rewrite import Rewriting
from jfuse.passes.scans.from_while.early_exit import is_idle_beyond
from jfuse.passes.scans.from_while.frame import WhileFrame, need_sizes
from jfuse.passes.scans.from_while.row_access import RowRead, Write, rows, with_rows_for_ranges
from jfuse.passes.scans.from_while.schedule import Scheduled, scheduled
from jfuse.passes.scans.from_while.step_index import Counting, Index, counters_of, limits_of
from jfuse.records.conversion import Refusal


def while_to_scan(graph: Graph, ctx: Context) -> Graph:
    """Turn every while whose frame is that of a scan into one, in bodies as well. Results stay exactly the same.

    A list that grows in a loop has a size that only data decide. As a result of a scan it has the number of steps,
    which all types then show.
    """
    return _converted(graph, ctx, refines=True)[0]


def _converted(graph: Graph, ctx: Context, *, refines: bool) -> tuple[Graph, Mapping[str, Dim]]:
    """The graph with scans, and the sizes that are known now by name.   refines: whether there may be any

    In bodies of loops and branches there are none: others have results of the same type.
    """
    marked = {body for eqn in graph.eqns if eqn.op is composite for body in eqn.bodies}
    sizes: dict[str, Dim] = {}

    def inside(body: Graph) -> Graph:
        body, known = _converted(body, ctx, refines=refines and body in marked)
        sizes.update(known)
        return body

    # Bodies first, so that loops in them are scans already when the loop around them is read.
    graph = with_bodies(graph, inside)
    rewriting = Rewriting(graph, refines=refines)

    def as_scan(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not while_:
            return None
        try:
            results = _Emission.of(eqn, rewriting).results()
            rewriting.need_fitting(eqn, results)
        except NotFused as refusal:
            ctx.report.refused.append(Refusal.of(refusal, "loop", "while_to_scan", eqn.source))
            return None
        return results

    graph = rewriting.run(as_scan)
    sizes |= rewriting.sizes
    return rename_dims(graph, sizes), sizes


def _with_rows(eqn: Eqn) -> Eqn:
    """A while whose steps read rows where they read ranges of one row; raises NotFused where no counter ends it."""
    cond, body = eqn.bodies
    counters = counters_of(eqn)
    try:
        length = limits_of(eqn, counters).length
    except NotFused:
        need_sizes(eqn)
        raise
    return replace(eqn, bodies=(cond, with_rows_for_ranges(body, Counting(body, counters, length), length)))


@dataclass(frozen=True)
class _Emission:
    """A while with its frame, about to be recorded as a scan.

    reverse: the scan goes from the last row to the first, as every read and write does.
    """

    frame: WhileFrame
    eqn: Eqn
    reverse: bool

    @classmethod
    def of(cls, eqn: Eqn, rewriting: Rewriting) -> _Emission:
        """The emission of a while; raises NotFused where it is no scan."""
        eqn = _with_rows(eqn)
        frame = WhileFrame.of(eqn, {out for out in eqn.outputs if rewriting.readers(out)})
        if frame.limits.open_:
            need(
                is_idle_beyond(frame, eqn, rewriting.producer),
                "trip_count_unknown",
                want="a number of steps that follows from shapes, or steps that change nothing beyond a limit",
            )
        scales = {index.scale for index in (*(r.index for r in frame.reads), *(w.index for w in frame.writes))}
        return cls(frame, eqn, scales == {-1})

    def results(self) -> Sequence[Any]:
        """Record the scan in the active trace; the values for all results of the while."""
        frame, inputs = self.frame, self.eqn.inputs
        body = frame.body
        counted = {body.inputs[i]: self._counted(i) for i in frame.counted}
        known = {body.inputs[i]: inputs[i] for i in frame.consts}
        carried = [body.outputs[i] for i in frame.carries]
        read = {r.step: self._rows_read(r) for r in frame.reads}
        schedule = scheduled(body, [*carried, *(w.row for w in frame.writes)], counted, read, known, frame.length)
        consts = [i for i in frame.consts if body.inputs[i] in schedule.needed]
        step = self._step(schedule, consts, carried)
        operands = [*(inputs[i] for i in (*consts, *frame.carries))]
        operands += schedule.sequences.values()
        counts = {"consts": len(consts), "carries": len(carried)}
        results = scan(operands, (step,), **counts, length=frame.length, reverse=self.reverse)
        return self._values(results)

    def _step(self, schedule: Scheduled, consts: Sequence[int], carried: Sequence[Atom]) -> Graph:
        frame, body = self.frame, schedule.body
        inputs = [body.inputs[i] for i in (*consts, *frame.carries)]
        inputs += schedule.sequences
        return _step_graph(body, inputs, carried, [w.row for w in frame.writes])

    def _values(self, results: Sequence[Any]) -> list[Any]:
        frame = self.frame
        values: list[Any] = list(self.eqn.inputs)  # what the loop only passes on
        for i, index in frame.counters.items():
            # Where the length is open nobody reads the counter's result.
            last = index.at(frame.length) if is_known(frame.length) and is_known(index.offset) else 0
            values[i] = _in_row(np.asarray(last, frame.body.inputs[i].type.dtype.numpy), frame.body.inputs[i])
        for i, value in zip(frame.carries, results, strict=False):
            values[i] = value
        for write, stacked in zip(frame.writes, results[len(frame.carries) :], strict=True):
            values[write.position] = self._rows_written(write, stacked)
        for i, copy in frame.copies.items():
            source = values[copy.position]
            values[i] = source if copy.maker is None else _made_again(copy.maker, source)
        return values

    def _is_turned(self, index: Index) -> bool:
        return (index.scale == -1) is not self.reverse

    def _rows_read(self, read: RowRead) -> Any:
        """The rows of a sequence in the scan's order, time first."""
        sequence = self.eqn.inputs[read.position]
        assert sequence is not None, "carried values are all there"
        size = sequence.type.shape[read.axis]
        bounds = rows(read.index, self.frame.length, size)
        assert bounds is not None, "proven by the frame"
        steps = _time_first(sequence, read.axis)
        steps = steps if same(bounds[1] - bounds[0], size) is True else _cut(steps, *bounds)
        return ops.reverse_v2(steps, [0]) if self._is_turned(read.index) else steps

    def _rows_written(self, write: Write, stacked: Any) -> Any:
        """The list after the loop: what the steps wrote, and around it what was there before."""
        if self._is_turned(write.index):
            stacked = ops.reverse_v2(stacked, [0])
        before = self.eqn.inputs[write.position]
        assert before is not None, "carried values are all there"
        if write.appends:
            return stacked if same(before.type.shape[0], 0) is True else ops.concatenation(before, stacked, axis=0)
        size = before.type.shape[0]
        bounds = rows(write.index, self.frame.length, size)
        assert bounds is not None, "proven by the frame"
        around = [(0, bounds[0]), (bounds[1], size)]
        first, last = ([_cut(before, *part)] if same(*part) is not True else [] for part in around)
        return ops.concatenation(*first, stacked, *last, axis=0) if first or last else stacked

    def _counted(self, position: int) -> Any:
        """The values of a counter at all steps, in the scan's order."""
        var = self.frame.body.inputs[position]
        return _in_row(self._numbers(position), var)

    def _numbers(self, position: int) -> Any:
        index, length = self.frame.counters[position], self.frame.length
        if self.reverse:
            index = Index(-index.scale, index.at(length - 1))
        dtype = self.frame.body.inputs[position].type.dtype
        if is_known(length) and is_known(index.offset):
            return (index.offset + index.scale * np.arange(length)).astype(dtype.numpy)
        sources = [a for a in self.eqn.inputs if isinstance(a, Var)]
        try:
            start, limit = (size_tensor(end, sources) for end in (index.offset, index.at(length)))
        except LowerError as error:
            raise NotFused("trip_count_unknown", want="a number of steps that some shape has", got=length) from error
        values = ops.range_(start, limit, np.asarray(index.scale, np.int32))
        is_wanted = dtype is values.type.dtype
        return values if is_wanted else ops.cast(values, out_data_type=dtype)


def _in_row(numbers: Any, counter: Var) -> Any:
    """Numbers as a counter has them: by themselves, or as the first of a vector whose others are 0."""
    if not counter.type.rank:
        return numbers
    ends = [(0, 0)] * numbers.ndim + [(0, int(counter.type.shape[0]) - 1)]
    return ops.pad(ops.expand_dims(numbers, -1), np.array(ends, np.int32))


def _made_again(maker: Eqn, operand: Any) -> Any:
    constants = [None if a is None else a.array for a in maker.inputs[1:] if not isinstance(a, Var)]
    return maker.op.run([operand, *constants], maker.params, ())[0]


def _cut(sequence: Atom, first: Any, end: Any) -> Any:
    """Rows from `first` to before `end`."""
    begin, stop, one = (np.asarray([v], np.int32) for v in (first, end, 1))
    return ops.strided_slice(sequence, begin, stop, one)


def _step_graph(body: Graph, inputs: Sequence[Var], carried: Sequence[Atom], rows: Sequence[Var]) -> Graph:
    made = producers(body)
    contents = [_row_content(row, made) for row in rows]
    flat = {i for i, content in enumerate(contents) if content is None}  # these have to lose their first axis by an op
    ys = [content or row for content, row in zip(contents, rows, strict=True)]
    whole = Graph("step", tuple(inputs), live_eqns(body, [*carried, *ys]), (*carried, *ys))

    def step(*args: Any) -> Sequence[Any]:
        results = evaluate(whole, args)
        first = len(carried)
        return [_without_first_axis(r) if i in flat else r for i, r in enumerate(results, -first)]

    return trace_graph(step, [Var(v.type, value=v.value) for v in inputs], name="step")


def _row_content(row: Var, made: dict[Var, Eqn]) -> Var | None:
    """Return the value that a row [1, …] was made from by adding the first axis; None where it was not."""
    maker = made.get(row)
    if maker is None or maker.op.moves != "renames" or not isinstance(maker.inputs[0], Var):
        return None
    content = maker.inputs[0]
    has_content_shape = content.type.rank == row.type.rank - 1 and all(
        map(same, content.type.shape, row.type.shape[1:])
    )
    return content if has_content_shape else None


def _without_first_axis(row: Any) -> Any:
    shape = row.shape[1:]
    return ops.squeeze(row, squeeze_dims=(0,)) if len(shape) else ops.reshape(row, ())


def _time_first(x: Atom, axis: int) -> Any:
    return x if axis == 0 else ops.transpose(x, (axis, *(i for i in range(x.type.rank) if i != axis)))
