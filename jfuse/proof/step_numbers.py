"""Uses of step numbers in loops of open length: what begins at step 1000 shows in no sample of a few steps.

A step number may say where data is read or written, and be compared with sizes, lengths, 0 and 1. Whatever else reads
it, by integer arithmetic, a table, or as a float, may change what a later step computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from enum import IntEnum

import numpy as np

from jfuse.ir.dims import is_known, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Op, Var
from jfuse.ir.types import DType
from jfuse.ir.walk import all_eqns, live_eqns
from jfuse.kernels import ops
from jfuse.kernels.control import scan, while_
from jfuse.proof.index_ranges import entries_of

_WIDE = frozenset({DType.i32, DType.i64, DType.u32, DType.u64, DType.f32, DType.f64})
"""Types in which step numbers keep their order: no array has 2^31 steps."""
_COUNTING: frozenset[Op] = frozenset({ops.add, ops.sub, ops.minimum, ops.maximum, ops.neg, ops.floor_mod})
_LARGEST = 1  # of the constants that step numbers meet: 0 and 1 are steps that samples have


class _Kind(IntEnum):
    """The origin of a value. FIXED: constants. STEP: a step number or a size, counted on; COMPUTED: more of one."""

    FIXED = 0
    DATA = 1
    STEP = 2
    COMPUTED = 3


def step_number_uses(graph: Graph) -> Iterator[Eqn]:
    """The equations through which step numbers, or the number of steps, change results by their value.

    None where floats of known sizes alone go in: samples run all the steps that such a graph ever runs.
    """
    is_open = any(symbols_of(d) for v in graph.inputs for d in v.type.shape)
    if (is_open or any(v.type.dtype.is_integer for v in graph.inputs)) and any(map(_is_open_loop, all_eqns(graph))):
        yield from _Walk(graph, dict.fromkeys(graph.inputs, _Kind.DATA)).uses()


def _is_open_loop(eqn: Eqn) -> bool:
    return eqn.op is while_ or (eqn.op is scan and not is_known(eqn.params["length"]))


class _Walk:
    """The kinds of a graph's values, found in the order of its equations."""

    def __init__(self, graph: Graph, kinds: Mapping[Var, _Kind]) -> None:
        self._graph = graph
        self._kinds = dict(kinds)

    def of(self, atom: Atom | None) -> _Kind:
        """The kind of a value."""
        return self._kinds.get(atom, _Kind.FIXED) if isinstance(atom, Var) else _Kind.FIXED

    def uses(self) -> Iterator[Eqn]:
        """The equations that read a step number by its value, in order."""
        for eqn in live_eqns(self._graph, self._graph.outputs):
            if eqn.bodies:
                yield from self._around(eqn)
                continue
            kind, is_use = self._kind(eqn)
            if is_use:
                yield eqn
            self._kinds.update(dict.fromkeys(eqn.outputs, kind))

    def _kind(self, eqn: Eqn) -> tuple[_Kind, bool]:
        """The kind of an equation's results, and whether it uses a step number."""
        if eqn.op in (ops.shape, ops.range_):
            return max(_Kind.STEP, *map(self.of, eqn.inputs)), False
        read = [a for i, a in enumerate(eqn.inputs) if not eqn.op.operand_at(i).shape_only]
        kinds = [self.of(a) for a in read]
        most = max(kinds, default=_Kind.FIXED)
        if most < _Kind.STEP:
            return most, False
        if eqn.op.compares:  # the samples have masks both ways, of all steps that they have
            return _Kind.DATA, most is _Kind.COMPUTED or not _meets_small(eqn)
        moved = _moved(eqn)
        if moved and max(of := [self.of(a) for a in moved]) < _Kind.STEP:  # the others say where, or how often
            return max(of), most is _Kind.COMPUTED or (eqn.op.moves == "takes" and any(map(_is_table, moved)))
        is_float = any(o.type.dtype.is_float for o in eqn.outputs)
        if is_float and _Kind.DATA in kinds:
            return _Kind.DATA, True
        return (most if _counts(eqn) else _Kind.COMPUTED), False

    def _around(self, eqn: Eqn) -> Iterator[Eqn]:
        """An equation with bodies; the carries of an open loop that no data changes are step numbers."""
        step = eqn.bodies[-1]
        operands = eqn.inputs[len(eqn.inputs) - len(step.inputs) :]
        first = eqn.params.get("consts", 0)
        carried = range(len(operands)) if eqn.op is while_ else range(first, first + eqn.params.get("carries", 0))
        kinds = list(map(self.of, operands))
        if _is_open_loop(eqn):
            kinds = [k if i not in carried or k is _Kind.DATA else max(k, _Kind.STEP) for i, k in enumerate(kinds)]
        while True:  # until no more carries are made of data, or computed
            inner = _Walk(step, dict(zip(step.inputs, kinds, strict=True)))
            uses = list(inner.uses())
            results = [inner.of(a) for a in step.outputs]
            changed = [_joined(k, results[i - first]) if i in carried else k for i, k in enumerate(kinds)]
            if changed == kinds:
                break
            kinds = changed
        yield from uses
        for body in eqn.bodies[:-1]:
            before = _Walk(body, dict(zip(body.inputs, kinds, strict=True)))
            yield from before.uses()
            if eqn.op is not while_:
                results = [max(pair) for pair in zip(results, map(before.of, body.outputs), strict=True)]
        self._kinds.update(zip(eqn.outputs, results, strict=True))


def _joined(before: _Kind, after: _Kind) -> _Kind:
    """The kind of a carry: data as soon as data gets in."""
    return _Kind.DATA if _Kind.DATA in (before, after) else max(before, after)


def _moved(eqn: Eqn) -> Sequence[Atom | None]:
    """The operands whose elements an equation moves to places, or so often as, others say; none of other ops."""
    if eqn.op is ops.fill:
        return eqn.inputs[1:]
    if eqn.op in (ops.dynamic_update_slice, ops.scatter_nd):
        return eqn.inputs[:2] if eqn.op is ops.dynamic_update_slice else eqn.inputs[1:2]
    return entries_of(eqn) if eqn.op.moves in ("takes", "repeats", "renames", "splits", "permutes") else ()


def _is_table(atom: Atom | None) -> bool:
    """Whether a constant has other values at other places."""
    return isinstance(atom, Const) and bool((atom.array != atom.array.reshape(-1)[:1]).any())


def _meets_small(eqn: Eqn) -> bool:
    """Whether the constants among the operands are 0, 1 and -1."""
    constants = (a.array for a in eqn.inputs if isinstance(a, Const))
    return all(bool((np.abs(c.astype(np.float64)) <= _LARGEST).all()) for c in constants)


def _counts(eqn: Eqn) -> bool:
    """Whether a result goes with the step numbers one by one: the same, the next, or counted from the end."""
    if eqn.op is ops.cast:
        return eqn.outputs[0].type.dtype in _WIDE
    return eqn.op.moves is not None or (eqn.op in _COUNTING and _meets_small(eqn))
