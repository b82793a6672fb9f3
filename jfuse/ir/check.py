"""The checker: re-derives every type of a graph and tells which equation is wrong."""

from __future__ import annotations

from jfuse.errors import JfuseError, TypeMismatch
from jfuse.ir.dims import same
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.types import TensorType


def check_graph(graph: Graph, *, types: bool = True) -> None:
    """Raise TypeMismatch where a Var is read before it is bound, bound twice, or has another type than its op gives.

    types: False checks the bindings only, which costs next to nothing.
    """
    bound: set[Var] = set()
    for var in graph.inputs:
        _bind(var, bound, f"input of {graph.name}")
    for eqn in graph.eqns:
        for atom in eqn.inputs:
            _read(atom, bound, eqn)
        for body in eqn.bodies:
            check_graph(body, types=types)
        if types:
            _check_types(eqn)
        for var in eqn.outputs:
            _bind(var, bound, _place(eqn))
    for atom in graph.outputs:
        _read(atom, bound, None, graph.name)


def agrees(found: TensorType, derived: TensorType) -> bool:
    """Whether two types may be of one tensor: same dtype and rank, and no dimension that is known to differ."""
    return (
        found.dtype is derived.dtype
        and found.rank == derived.rank
        and all(same(a, b) is not False for a, b in zip(found.shape, derived.shape, strict=True))
    )


def _check_types(eqn: Eqn) -> None:
    try:
        derived = eqn.op.infer(eqn.inputs, eqn.params, eqn.bodies)
    except JfuseError as error:
        error.where = error.where or _place(eqn)
        raise
    if len(derived) != len(eqn.outputs):
        raise TypeMismatch(f"{eqn.op.name} has {len(eqn.outputs)} results", where=_place(eqn), expected=len(derived))
    for out, want in zip(eqn.outputs, derived, strict=True):
        if not agrees(out.type, want):
            raise TypeMismatch(
                f"{eqn.op.name} has a result of another type", where=_place(eqn), expected=str(want), found=str(out.type)
            )


def _bind(var: Var, bound: set[Var], where: str) -> None:
    if var in bound:
        raise TypeMismatch("a variable is bound twice", where=where, found=repr(var))
    bound.add(var)


def _read(atom: Atom | None, bound: set[Var], eqn: Eqn | None, name: str = "") -> None:
    if atom is None or isinstance(atom, Const) or atom in bound:
        return
    where = _place(eqn) if eqn is not None else f"results of {name}"
    raise TypeMismatch("a variable is read before it is bound", where=where, found=repr(atom))


def _place(eqn: Eqn) -> str:
    return str(eqn.source) or eqn.op.name
