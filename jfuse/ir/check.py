"""The checker: re-derives every type of a graph, and names the first wrong equation."""

from __future__ import annotations

from collections.abc import Sequence

from jfuse.base.errors import JfuseError, TypeMismatch
from jfuse.ir.declared_types import derived_types, fits, is_stated
from jfuse.ir.dims import SymbolNames, same
from jfuse.ir.graph import Atom, Eqn, Graph, Var, body_of
from jfuse.ir.trace import recording
from jfuse.ir.types import TensorType
from jfuse.ir.walk import all_graphs


@body_of("Graph.check")
def check_graph(graph: Graph, *, types: bool = True) -> None:
    """Raise TypeMismatch where a Var is read before it is bound, bound twice, or has another type than its op gives.

    types: False checks the bindings only, which costs next to nothing.
    """
    for inner in reversed(list(all_graphs(graph))):
        _check_one(inner, types)


def _check_one(graph: Graph, types: bool) -> None:
    """As `check_graph`, without the bodies."""
    bound: set[Var] = set()
    for var in graph.inputs:
        if var in bound:
            raise _bound_twice(var, f"the inputs of {graph.name}")
        bound.add(var)
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            if isinstance(atom, Var) and atom not in bound:
                raise _unbound(atom, _place(eqn), eqn)
        if types:
            check_eqn(eqn)
        for var in eqn.outputs:
            if var in bound:
                raise _bound_twice(var, _place(eqn), eqn)
            bound.add(var)
    for atom in graph.outputs:
        if isinstance(atom, Var) and atom not in bound:
            raise _unbound(atom, f"the results of {graph.name}")


def check_eqn(eqn: Eqn) -> None:
    """Raise TypeMismatch where operands and parameters do not fit the op, or the result types are others."""
    if is_stated(eqn):
        _check_stated(eqn)
        return
    try:
        # Where result sizes depend on data, ops ask a trace for fresh symbols; these must not meet the graph's own.
        with recording(names=SymbolNames(prefix="_")):
            derived = eqn.op.infer(eqn.inputs, eqn.params, eqn.bodies)
    except JfuseError as error:
        error.where = error.where or _place(eqn)
        raise
    stated = [out.type for out in eqn.outputs]
    if len(derived) != len(stated):
        raise _wrong_types(f"{eqn.op.name} has {len(derived)} results, not {len(stated)}", eqn, derived)
    if not all(map(agrees, stated, derived)):
        raise _wrong_types(f"{eqn.op.name} has results of other types", eqn, derived)


def _check_stated(eqn: Eqn) -> None:
    """Raise TypeMismatch where results have other shapes than follow from the operands, as far as they do."""

    def infer(inputs: Sequence[Atom | None]) -> tuple[TensorType, ...]:
        return eqn.op.infer(inputs, eqn.params, eqn.bodies)

    with recording(names=SymbolNames(prefix="_")):
        derived = infer(eqn.inputs) if eqn.bodies else derived_types(infer, eqn.inputs)
    stated = [out.type for out in eqn.outputs]
    if derived is not None and (len(derived) != len(stated) or not all(map(fits, stated, derived))):
        raise _wrong_types(f"{eqn.op.name} has results of other types", eqn, derived)


def agrees(stated: TensorType, derived: TensorType) -> bool:
    """Whether two types may be of one tensor: same dtype and rank, and no dimension that is known to differ."""
    return (
        stated.dtype is derived.dtype
        and stated.rank == derived.rank
        and all(same(a, b) is not False for a, b in zip(stated.shape, derived.shape, strict=True))
    )


def _wrong_types(message: str, eqn: Eqn, derived: tuple[TensorType, ...]) -> TypeMismatch:
    return TypeMismatch(
        message,
        where=_place(eqn),
        expected=", ".join(map(str, derived)),
        found=", ".join(str(out.type) for out in eqn.outputs),
        context=str(eqn),
    )


def _bound_twice(var: Var, where: str, eqn: Eqn | None = None) -> TypeMismatch:
    return TypeMismatch("a variable is bound twice", where=where, found=repr(var), context=_text(eqn))


def _unbound(var: Var, where: str, eqn: Eqn | None = None) -> TypeMismatch:
    return TypeMismatch("a variable is read before it is bound", where=where, found=repr(var), context=_text(eqn))


def _place(eqn: Eqn) -> str:
    return str(eqn.source) or eqn.op.name


def _text(eqn: Eqn | None) -> str | None:
    return None if eqn is None else str(eqn)
