"""Common subexpression elimination in a loop body, so that equal values are one variable."""

from __future__ import annotations

from typing import Any

from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.walk import substitute, substitute_graph

_COMPARED = 1024  # constants of up to this many elements are compared by value, larger ones by identity


def without_repeats(body: Graph) -> Graph:
    """The body with every use of a repeated equation's results turned to those of the first one."""
    first: dict[Any, Eqn] = {}
    same: dict[Var, Atom] = {}
    for eqn in body.eqns:
        current = substitute(eqn, same)
        if current.bodies or current.effects:
            continue
        key = (current.op, tuple(map(_key, current.inputs)), repr(current.params))
        known = first.setdefault(key, current)
        same.update(zip(eqn.outputs, known.outputs, strict=True) if known is not current else ())
    return substitute_graph(body, same)


def _key(atom: Atom | None) -> Any:
    if not isinstance(atom, Const):
        return atom
    return (str(atom.type), atom.digest) if atom.array.size <= _COMPARED else id(atom.array)
