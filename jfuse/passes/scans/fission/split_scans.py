"""Emits a scan for each recurrence; everything without a state runs outside, on all steps at once."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from graphlib import TopologicalSorter
from typing import Any, TypeAlias

import numpy as np

from jfuse.base.errors import LowerError
from jfuse.ir.dims import Dim, is_known, same
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import as_atom, at_source, trace_graph
from jfuse.ir.types import DType
from jfuse.ir.walk import has_effects, live_eqns, with_new_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan
from jfuse.kernels.core.op import draws
from jfuse.lowering.recover.algebra.forms import is_affine
from jfuse.lowering.recover.algebra.repeats import without_repeats
from jfuse.lowering.rule_tools.shape_tensors import size_tensor
from jfuse.passes.context import Context
from jfuse.passes.rewrite import inline, rewrite
from jfuse.passes.scans.fission.fission import FissionPlan, FissionStep, Part
from jfuse.passes.scans.fission.products import joined
from jfuse.passes.scans.fission.vectorize import vectorized

_Place: TypeAlias = Part | Eqn | Var  # what makes a value: a scan, an equation outside, or the carry that is delayed


def split_scans(graph: Graph, ctx: Context) -> Graph:
    """Turn each scan of several recurrences into one scan for each; what no carry needs works on all steps at once.

    Affine computations stay with the recurrence that reads them, so that `recover` finds its weights; the body of an
    annotated composite is left to the composite's own rule. Results stay the same.
    """

    def inside(eqn: Eqn) -> Eqn:
        return eqn if eqn.op is composite else with_new_bodies(eqn, lambda body: split_scans(body, ctx))

    eqns = tuple(map(inside, graph.eqns))
    same = all(map(operator.is_, eqns, graph.eqns))
    inner = graph if same else replace(graph, eqns=eqns)
    # States become inputs after this (states/streams.py); what was computed from their initial values would not follow.
    delays = ctx.forms.mode not in ("keep", "io")
    return rewrite(inner, lambda eqn: _taken_apart(eqn, _is_affine_or_layout, late=False, delays=delays))


def hoisted(eqn: Eqn) -> Sequence[Any] | None:
    """Results of a scan with everything hoisted out of it that its carries do not need; None where nothing is hoisted.

    Everything else stands before and behind it, on all steps at once, recorded in the active trace like the scans that
    are left, each with one recurrence.
    """
    if eqn.op is not scan:
        return None
    fewer = eqn if any(map(has_effects, eqn.bodies)) else joined(eqn)
    results = _taken_apart(fewer, _is_layout, late=True)
    if results is None and fewer is not eqn:
        return fewer.op.run(fewer.inputs, fewer.params, fewer.bodies)
    return results


def _taken_apart(
    eqn: Eqn, stays: Callable[[Eqn, frozenset[int]], bool], *, late: bool, delays: bool = True
) -> Sequence[Any] | None:
    """delays: whether the old values of a carry may be read outside of its recurrence, as its values one step later."""
    if eqn.op is not scan or any(map(has_effects, eqn.bodies)) or draws(eqn) or eqn.params["length"] == 0:
        return None
    # A mask that is computed once for each state would be a sequence for each of them outside.
    eqn = replace(eqn, bodies=tuple(map(without_repeats, eqn.bodies)))
    plan = FissionPlan(FissionStep(eqn), stays, late=late)
    if plan.changes_nothing or (plan.delayed and not delays):
        return None
    sized = with_sizes_outside(eqn)
    return _Emission(plan if sized is eqn else FissionPlan(FissionStep(sized), stays, late=late)).results()


def _is_affine_or_layout(eqn: Eqn, places: frozenset[int]) -> bool:
    return _is_layout(eqn, places) or is_affine(eqn, sorted(places))


def _is_layout(eqn: Eqn, places: frozenset[int]) -> bool:
    """Whether an equation only moves elements, of whatever type."""
    op = eqn.op
    plain = eqn.params.get("fused_activation_function", "NONE") == "NONE"
    return op.linear == "joint" and op.on_shapes and not op.elementwise and plain


class _Emission:
    """Records what a plan says; `known` has for each value of the step all its steps, or the one that all share."""

    def __init__(self, plan: FissionPlan) -> None:
        self._plan = plan
        self._step = plan.step
        self._reverse: bool = plan.step.eqn.params["reverse"]
        self._known: dict[Var, Any] = {v: plan.step.operands[v] for v in (*plan.step.fixed, *plan.step.xs)}
        self._last: dict[Var, Any] = {v: self._known[v] for v in plan.step.fixed}
        self._delays: dict[Var, Any] = {}

    def results(self) -> list[Any]:
        """The results of the scan."""
        step = self._step
        sorter: TopologicalSorter[_Place] = TopologicalSorter()
        for place, values in self._needs():
            sorter.add(place, *(p for v in values if (p := self._place(v)) is not None))
        for place in sorter.static_order():
            self._record(place)
        finals = [self._last[var] if var in self._last else self._final(var) for var in step.all_carries]
        return [*finals, *map(self._rows, step.rows)]

    def _needs(self) -> Iterable[tuple[_Place, Iterable[Atom | None]]]:
        plan = self._plan
        for eqn in plan.outside:
            yield eqn, plan.operands(eqn)
        for part in plan.parts:
            yield part, (*part.given, *plan.shared)
        for var in plan.delayed:
            yield var, [self._step.next[var]]

    def _place(self, atom: Atom | None) -> _Place | None:
        if not isinstance(atom, Var) or atom in self._known:
            return None
        eqn = self._step.made_by.get(atom)
        if eqn is None:
            return atom if atom in self._plan.delayed else self._plan.part_of[atom]
        return eqn if eqn in self._plan.outside else self._plan.core[eqn]

    def _record(self, place: _Place) -> None:
        if isinstance(place, Var):
            self._known[place] = self._shifted(place)
            return
        if isinstance(place, Eqn):
            with at_source(place.source):
                self._known.update(zip(place.outputs, self._outside(place), strict=True))
            return
        results = self._scan(place)
        count = len(place.carries)
        self._last.update(zip(place.carries, results[:count], strict=True))
        self._known.update(zip(place.rows, results[count:], strict=True))

    def _outside(self, eqn: Eqn) -> Sequence[Any]:
        places = self._step.places(eqn)
        if not any(out in self._step.stepped for out in eqn.outputs):
            inputs = tuple(v for v in dict.fromkeys(eqn.inputs) if isinstance(v, Var))
            return inline(Graph("fixed", inputs, (eqn,), eqn.outputs), [as_atom(self._known[v]) for v in inputs])
        operands = [self._known[a] if a in self._known else a for a in eqn.inputs]
        results = vectorized(eqn, operands, places, self._step.steps)
        assert results is not None, "the plan has asked for this"
        return results

    def _scan(self, part: Part) -> Sequence[Any]:
        """The scan of a part; the last values of its carries, then the rows that are read outside."""
        step = self._step
        length = step.eqn.params["length"]
        xs = part.given if part.given or is_known(length) else step.xs[:1]  # which tell the open length
        outputs = (*(step.next[var] for var in part.carries), *part.rows)
        eqns, consts = self._inside((*part.carries, *xs), outputs)
        sizes = sizes_among(consts, (*part.carries, *xs))
        consts = tuple(v for v in consts if v not in sizes)
        inputs = (*consts, *part.carries, *xs)
        whole = Graph("step", (*sizes, *inputs), eqns, outputs)

        def compute(*args: Any) -> Sequence[Any]:
            return inline(whole, [*(size_tensor(dim, args) for dim in sizes.values()), *args])

        body = trace_graph(compute, [Var(v.type, value=v.value) for v in inputs], "step")
        starts = [step.operands[var] for var in part.carries]
        operands = [*(self._known[v] for v in consts), *starts, *(self._known[v] for v in xs)]
        counts = {"consts": len(consts), "carries": len(part.carries)}
        results: Sequence[Any] = scan(operands, (body,), **counts, length=length, reverse=self._reverse)
        return results

    def _inside(self, sources: Sequence[Var], outputs: Sequence[Atom]) -> tuple[tuple[Eqn, ...], tuple[Var, ...]]:
        """The equations that compute `outputs` from what is given, and what they read that all steps share."""
        needed: dict[Atom | None, None] = dict.fromkeys(outputs)
        ready = {*sources, *(v for v in self._known if v not in self._step.stepped)}
        inner: list[Eqn] = []
        for eqn in reversed(self._step.eqns):
            if any(out in needed and out not in ready for out in eqn.outputs):
                needed.update(dict.fromkeys(eqn.inputs))
                inner.append(eqn)
        consts = tuple(v for v in needed if isinstance(v, Var) and v in ready and v not in self._step.stepped)
        return tuple(reversed(inner)), consts

    def _rows(self, atom: Atom) -> Any:
        """A result of each step, stacked."""
        if isinstance(atom, Var) and atom in self._step.stepped:
            return self._known[atom]
        return self._step.steps.repeated(self._known[atom] if isinstance(atom, Var) else atom)

    def _delayed(self, var: Var) -> Any:
        """The values of a carry before all steps and after the last, in the order of the steps."""
        if var not in self._delays:
            first = ops.expand_dims(self._step.operands[var], 0)
            rows = self._rows(self._step.next[var])
            self._delays[var] = ops.concatenation(*((rows, first) if self._reverse else (first, rows)), axis=0)
        return self._delays[var]

    def _shifted(self, var: Var) -> Any:
        """The values that a carry has when each step begins."""
        return _sliced(self._delayed(var), begin=1 if self._reverse else None, end=None if self._reverse else -1)

    def _final(self, var: Var) -> Any:
        """The last value of a carry that is delayed only."""
        place = np.array([0 if self._reverse else -1], np.int32)
        return ops.strided_slice(self._delayed(var), place, place + 1, np.ones(1, np.int32), shrink_axis_mask=1)


def _sliced(x: Any, begin: int | None, end: int | None) -> Any:
    first, last = (np.array([0 if b is None else b], np.int32) for b in (begin, end))
    masks = {"begin_mask": int(begin is None), "end_mask": int(end is None)}
    return ops.strided_slice(x, first, last, np.ones(1, np.int32), **masks)


# Reads open sizes before the loop, so that a size taken from one state does not tie other recurrences to it.


def with_sizes_outside(eqn: Eqn) -> Eqn:
    """A scan whose step gets the sizes that it reads from shapes as constants of the loop; the same object without any.

    They are recorded in the active trace. A size that no operand of the scan has stays in the step.
    """
    (body,) = eqn.bodies
    sources = tuple(a for a in eqn.inputs if isinstance(a, Var))
    size_inputs: dict[Var, Atom] = {}
    for size in (out for e in live_eqns(body, body.outputs) for out in e.outputs):
        if (dim := _open_size(size)) is not None:
            try:
                size_inputs[size] = as_atom(size_tensor(dim, sources))
            except LowerError:
                continue
    if not size_inputs:
        return eqn
    step = replace(
        body, inputs=(*size_inputs, *body.inputs), eqns=tuple(e for e in body.eqns if e.outputs[0] not in size_inputs)
    )
    params = {**eqn.params, "consts": eqn.params["consts"] + len(size_inputs)}
    return replace(eqn, inputs=(*size_inputs.values(), *eqn.inputs), params=params, bodies=(step,))


def sizes_among(values: Sequence[Var], operands: Sequence[Var]) -> dict[Var, Dim]:
    """The values that are the size of an axis of what is given, with that size."""
    axes = [d for v in operands for d in v.type.shape]
    size_of = {v: dim for v in values if (dim := _open_size(v)) is not None}
    return {v: dim for v, dim in size_of.items() if any(same(d, dim) is True for d in axes)}


def _open_size(value: Var) -> Dim | None:
    """The open size that a scalar is known to be."""
    if value.type.dtype is not DType.i32 or value.type.rank or value.value is None:
        return None
    return None if is_known(dim := value.value.item()) else dim
