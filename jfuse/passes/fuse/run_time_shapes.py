"""Ops whose result shapes LiteRT decides at run time: no such op may stand before a fused recurrent op.

Tensors are planned at allocation up to the first op whose result's shape is open; the rest is planned during the
invoke, with the states' old sizes: wrong numbers, then a crash, once a state exceeds 64 bytes and the batch grows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from jfuse.base.errors import LowerError
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import recording
from jfuse.ir.types import DType
from jfuse.ir.walk import has_effects, producers
from jfuse.kernels import control, ops
from jfuse.kernels.core.op import depends_on_data
from jfuse.lowering.peephole.layout.reshape import constant_shape
from jfuse.lowering.rule_tools.broadcast_constants import broadcast_constants, constant_of, unbroadcast
from jfuse.lowering.rule_tools.sizes_at_allocation import known_at_allocation
from jfuse.opaque_ops.state_operands import has_open_state, state_operands, written_operands
from jfuse.passes.rewrite import inline

# Their kernels leave the result open wherever a -1 stands in the input's shape_signature, constant operands or not.
_OPEN_WITH_OPEN_INPUT = frozenset({"SLICE", "TOPK_V2"})

# Operands that decide no size, and without whose values the kernels leave the result open all the same.
_LOOKED_AT: Mapping[str | None, tuple[int, ...]] = {
    f"UNSORTED_SEGMENT_{name}": (1,) for name in ("SUM", "PROD", "MIN", "MAX")
}

_RESPELLED = frozenset({ops.pack, ops.expand_dims, ops.squeeze})  # of sizes, by `peephole/layout/sizes.py`


def with_run_time_shape(graph: Graph, *, simplified: bool = True) -> Iterator[Eqn]:
    """The equations of a graph that have one, as `has_run_time_shape` says."""
    made_by = producers(graph)
    return (e for e in graph.eqns if has_run_time_shape(e, made_by, simplified=simplified))


def has_run_time_shape(eqn: Eqn, made_by: Mapping[Var, Eqn], *, simplified: bool = True) -> bool:
    """Whether LiteRT knows the shape of the results only once the equation has run. True where in doubt.

    made_by: what binds each Var of its graph. simplified: False where shapes that can be constants may yet become ones.
    """
    if any(out.type.dtype is DType.string for out in eqn.outputs):
        return True  # strings live in memory of their own, however many there are
    if eqn.op is control.scan:
        # The loop that it becomes collects its results in a tensor made at run time.
        return not all(out.type.is_static for out in eqn.outputs)
    if eqn.bodies:
        inside = (inner for body in eqn.bodies for inner in with_run_time_shape(body, simplified=simplified))
        return depends_on_data(eqn) or next(inside, None) is not None
    if not eqn.op.is_kernel:
        return not all(out.type.is_static for out in eqn.outputs)
    if eqn.op.builtin in _OPEN_WITH_OPEN_INPUT:
        return not all(a.type.is_static for a in eqn.inputs if a is not None)
    if not simplified and eqn.op is ops.reshape and constant_shape(eqn.outputs[0].type.shape) is not None:
        return False
    measures = _LOOKED_AT.get(eqn.op.builtin, ())
    sizes = [a for i, a in enumerate(eqn.inputs) if eqn.op.operand_at(i).decides_size or i in measures]
    if eqn.op.sized_at_allocation:
        also = () if simplified else _RESPELLED
        sizes = [a for a in sizes if not known_at_allocation(a, made_by.get, also=also)]
    return any(isinstance(a, Var) for a in sizes) or not eqn.op.traceable


def table_lookup(graph: Graph) -> Eqn | None:
    """The first equation that looks up in a table: its handle is sized at run time, and is made before all else."""
    return next((eqn for eqn in graph.eqns if eqn.op is ops.hashtable_find), None)


def dynamic_before_fused(graph: Graph, fused: Eqn, *, simplified: bool = True) -> Eqn | None:
    """The first equation with a run-time shape that must run before `fused`, where `fused` has states of open size.

    Initial states that are a constant, broadcast, do not count: the state pass writes them in another way.
    """
    if not has_open_state(fused):
        return None
    made_by = producers(graph)
    known = broadcast_constants(graph)

    def operands(eqn: Eqn) -> Iterator[Atom | None]:
        states = written_operands(eqn)
        for i, atom in enumerate(eqn.inputs):
            if i not in states:
                yield atom
            elif atom is not None and constant_of(atom, known) is None:
                yield unbroadcast(atom, made_by)

    before = ancestors(graph, operands(fused), operands)
    return next((e for e in with_run_time_shape(graph, simplified=simplified) if e in before), None)


def dynamic_before_replacement(before: Sequence[Eqn], replacement: Graph, args: Sequence[Atom]) -> Eqn | None:
    """As `dynamic_before_fused`, for the fused ops of a graph that is to be put in place after the equations `before`.

    args: what its inputs are bound to there. The equations are taken as they are once simplified.
    """
    with recording() as trace:
        inline(replacement, args)
    graph = Graph(replacement.name, (), (*before, *trace.eqns), ())
    dynamic_eqns = (dynamic_before_fused(graph, eqn, simplified=False) for eqn in trace.eqns if written_operands(eqn))
    return next((eqn for eqn in dynamic_eqns if eqn is not None), None)


def fused_first(graph: Graph) -> Graph:
    """The graph with its fused recurrent ops, and what they need, before anything that has a run-time shape.

    Raises LowerError where that cannot be.
    """
    if not _needs_order(graph):
        return graph
    fused = [e for e in graph.eqns if has_open_state(e)]
    for eqn in fused:
        dynamic = dynamic_before_fused(graph, eqn)
        if dynamic is not None:
            raise _refused(eqn, dynamic)
    if has_effects(graph):  # what has effects stays where it is
        raise _refused(fused[-1], next(with_run_time_shape(graph)))
    # A final state is read right after the op that leaves it.
    states = {e.outputs[i] for e in fused for i in state_operands(e).values()}
    reads = [out for e in graph.eqns if states.intersection(e.inputs) for out in e.outputs]
    first = ancestors(graph, [*reads, *(out for e in fused for out in e.outputs)])
    return replace(graph, eqns=(*(e for e in graph.eqns if e in first), *(e for e in graph.eqns if e not in first)))


def ancestors(
    graph: Graph,
    atoms: Iterable[Atom | None],
    operands: Callable[[Eqn], Iterable[Atom | None]] = lambda eqn: eqn.inputs,
) -> set[Eqn]:
    """The equations that must run before all of `atoms` are there. `operands`: what an equation needs."""
    needed = {a for a in atoms if isinstance(a, Var)}
    behind: set[Eqn] = set()
    for eqn in reversed(graph.eqns):
        if needed.intersection(eqn.outputs):
            behind.add(eqn)
            needed.update(a for a in operands(eqn) if isinstance(a, Var))
    return behind


def _needs_order(graph: Graph) -> bool:
    last, made_by = max((n for n, e in enumerate(graph.eqns) if has_open_state(e)), default=-1), producers(graph)
    return any(has_run_time_shape(e, made_by) for e in graph.eqns[: last + 1])


def _refused(fused: Eqn, dynamic: Eqn) -> LowerError:
    return LowerError(
        f"{fused.op.name} with an open batch cannot follow {dynamic.op.name}, whose result LiteRT sizes at run time",
        where=str(fused.source) or None,
        expected="every size known at allocation before a fused op, so that its state can grow with the batch",
        found=f"{dynamic.op.name} at {dynamic.source}" if str(dynamic.source) else dynamic.op.name,
        remedy="fix the batch: give the source an input signature without open dimensions",
    )
