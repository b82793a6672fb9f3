"""Makes operators that are sized at run time depend on the graph's fused recurrent ops, so that they run after them.

XNNPACK gathers its operators, and operators that do not depend on them then run first, wherever they are in the file.
A FILL to the batch of an input, or a WHERE, thus ran before a fused op behind a convolution. Once the batch had grown,
the states of that op kept their old sizes: wrong numbers, then a crash (LiteRT 2.3.0, see `run_time_shapes`).
So sizes are read from results of the fused ops. The operand of an operator sized by data is reshaped to its own shape,
with such a size.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np

from jfuse.ir.dims import Dim, is_known, symbols_of
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import at_source, recording
from jfuse.ir.types import DType, TensorType
from jfuse.ir.walk import has_effects, substitute, substitute_graph, users
from jfuse.kernels import ops
from jfuse.opaque_ops.state_operands import has_open_state, state_operands
from jfuse.passes.fuse.run_time_shapes import ancestors, with_run_time_shape
from jfuse.passes.simplify.dce import eliminate_dead_code

Places = Mapping[str, Sequence[tuple[Var, int]]]
"""By the symbol of a dimension, tensors and their axes that have it: one for each fused op."""


def late_sizes(graph: Graph) -> Graph:
    """The graph with all that has a run-time shape after its fused ops with open states, by what it reads.

    Loops and branches are tied as a whole. Where no result of a fused op has an open size, the graph stays as it is.
    """
    if not any(map(has_open_state, graph.eqns)) or has_effects(graph) or not any(with_run_time_shape(graph)):
        return graph
    ends = _ends(graph)
    places = _places(ends)
    return _with_operands_tied(_with_sizes_taken(graph, ends, places), ends, places) if places else graph


def _ends(graph: Graph) -> list[Eqn]:
    """The fused ops that no other one depends on."""
    last_ops: list[Eqn] = []
    needed: set[Atom | None] = set()
    for eqn in reversed(graph.eqns):
        is_needed, is_fused = not needed.isdisjoint(eqn.outputs), has_open_state(eqn)
        if is_fused and not is_needed:
            last_ops.append(eqn)
        if is_fused or is_needed:
            needed.update(a for a in eqn.inputs if isinstance(a, Var))
    return last_ops[::-1]


def _places(ends: Iterable[Eqn]) -> Places:
    """Where the results of fused ops have open sizes; not their states, which are read right after them."""
    places_of: dict[str, list[tuple[Var, int]]] = {}
    for fused in ends:
        states = set(state_operands(fused).values())
        own = {
            str(dim): (out, axis)
            for i, out in enumerate(fused.outputs)
            for axis, dim in enumerate(out.type.shape if i not in states else ())
            if symbols_of(dim) == {str(dim)}
        }
        for name, place in own.items():
            places_of.setdefault(name, []).append(place)
    return places_of


def _split(graph: Graph, ends: Iterable[Eqn]) -> tuple[tuple[Eqn, ...], tuple[Eqn, ...]]:
    """The equations that fused ops need, they themselves among them, and the others."""
    needed = ancestors(graph, [out for eqn in ends for out in eqn.outputs])
    return tuple(e for e in graph.eqns if e in needed), tuple(e for e in graph.eqns if e not in needed)


def _with_sizes_taken(graph: Graph, ends: Sequence[Eqn], places: Places) -> Graph:
    """SHAPEs of what does not depend on the fused ops, and which these do not need, as sizes of what they give."""
    first, rest = _split(graph, ends)
    after = _computed_from(rest, ends)
    replacements: dict[Var, Atom] = {}
    readers, results = users(graph), set(graph.outputs)
    with recording() as trace:
        for shape in (eqn for eqn in rest if eqn.op is ops.shape and eqn.inputs[0] not in after):
            with at_source(shape.source):
                replacements |= _taken(shape, readers.get(shape.outputs[0], ()), shape.outputs[0] in results, places)
    if not replacements:
        return graph
    others = (eqn for eqn in rest if not replacements.keys() & set(eqn.outputs))
    return eliminate_dead_code(substitute_graph(replace(graph, eqns=(*first, *trace.eqns, *others)), replacements))


def _computed_from(eqns: Iterable[Eqn], ends: Iterable[Eqn]) -> set[Atom | None]:
    """The values that depend on fused ops."""
    dependent: set[Atom | None] = {out for eqn in ends for out in eqn.outputs}
    for eqn in eqns:
        if not dependent.isdisjoint(eqn.inputs):
            dependent.update(eqn.outputs)
    return dependent


def _taken(shape: Eqn, readers: Sequence[Eqn], is_result: bool, places: Places) -> dict[Var, Atom]:
    """For what a SHAPE gives, or for the one size that each of its readers takes, the same from the places.

    is_result: whether the graph returns what it gives.
    """
    (x,), (whole,) = shape.inputs, shape.outputs
    dims = x.type.shape if x is not None and x.type.ranked else ()
    if not dims or any(not is_known(d) and str(d) not in places for d in dims) or all(map(is_known, dims)):
        return {}
    singles = {eqn.outputs[0]: index for eqn in readers if (index := _one_element(eqn)) is not None}
    if len(singles) == len(readers) and not is_result:
        return {out: _as_atom(_size(dims[index], places, whole.type.dtype)) for out, index in singles.items()}
    return {whole: ops.pack(*(_size(d, places, whole.type.dtype) for d in dims))}


def _as_atom(value: Any) -> Atom:
    return value if isinstance(value, Var) else Const(value)


def _one_element(eqn: Eqn) -> int | None:
    """The place of the one number that STRIDED_SLICE takes from a vector."""
    if eqn.op is not ops.strided_slice or not all(isinstance(a, Const) for a in eqn.inputs[1:4]):
        return None
    begin, _, stride = (int(a.array[0]) for a in eqn.inputs[1:4] if isinstance(a, Const))
    masked = any(eqn.params[name] for name in ("begin_mask", "ellipsis_mask", "new_axis_mask"))
    return begin if eqn.params["shrink_axis_mask"] == 1 and not masked and stride == 1 and begin >= 0 else None


def _size(dim: Dim, places: Places, dtype: DType) -> Any:
    """A size as i32[] or i64[], of every fused op that tells: where several do, the largest of equal ones."""
    if is_known(dim):
        return np.asarray(int(dim), dtype.numpy)
    return reduce(ops.maximum, (_read(x, axis, dtype) for x, axis in places[str(dim)]))


def _read(x: Var, axis: int, dtype: DType) -> Any:
    begin = np.array([axis], np.int32)
    return ops.strided_slice(ops.shape(x, out_type=dtype), begin, begin + 1, np.ones(1, np.int32), shrink_axis_mask=1)


def _with_operands_tied(graph: Graph, ends: Sequence[Eqn], places: Places) -> Graph:
    """An operand of what else has a run-time shape, and does not depend on the fused ops, reshaped to its own shape."""
    first, rest = _split(graph, ends)
    after, late = _computed_from((), ends), set(with_run_time_shape(graph))
    tied: dict[Var, Var] = {}
    eqns: list[Eqn] = []
    for eqn in rest:
        if after.isdisjoint(eqn.inputs) and eqn in late:
            operand = next((a for a in eqn.inputs if isinstance(a, Var) and _can_be_tied(a)), None)
            if operand is not None:
                if operand not in tied:
                    ways, tied[operand] = _reshaped(operand, places, eqn)
                    eqns += ways
                eqn = substitute(eqn, {operand: tied[operand]})
                after.add(tied[operand])
        if not after.isdisjoint(eqn.inputs):
            after.update(eqn.outputs)
        eqns.append(eqn)
    return replace(graph, eqns=(*first, *eqns)) if tied else graph


def _can_be_tied(x: Var) -> bool:
    """Whether a tensor can be reshaped to its own shape."""
    return x.type.ranked and x.type.rank > 0 and x.type.dtype not in (DType.resource, DType.variant)


def _reshaped(x: Var, places: Places, reader: Eqn) -> tuple[tuple[Eqn, ...], Var]:
    """Reshape x to its own shape, with a size read from a fused op; return the equations and their result."""
    dims, result = x.type.shape, Var(x.type, x.name)
    is_stated = [is_known(d) or str(d) in places for d in dims]
    with recording() as trace, at_source(reader.source):
        sizes = [
            _size(d, places, DType.i32) if t else _read(x, i, DType.i32)
            for i, (d, t) in enumerate(zip(dims, is_stated, strict=True))
        ]
        if not any(str(d) in places for d in dims):
            some = reduce(ops.maximum, (_read(y, axis, DType.i32) for y, axis in next(iter(places.values()))))
            nothing = Var(TensorType((), DType.i32))  # by itself, MUL knows that it gives 0, and that is a constant
            inputs = (some, Const(np.zeros((), np.int32)))
            trace.record(Eqn(ops.mul, inputs, (nothing,), ops.mul.bind_options({}), reader.source))
            sizes[0] = ops.add(nothing, sizes[0])
        ops.reshape(x, ops.pack(*sizes))
    *before, last = trace.eqns
    return (*before, replace(last, outputs=(result,))), result
