"""Names of the values of a program that are the same in each run, for files of statistics."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from jfuse.ir.graph import Graph, Program, Var
from jfuse.ir.states import distinct
from jfuse.ir.text import format_graph
from jfuse.ir.walk import all_eqns, producers


def value_keys(program: Program) -> dict[Var, str]:
    """The key of each value: the graph's signature, the places of equations and bodies on the way, and its own."""
    keys: dict[Var, str] = {}
    for signature in distinct(program):
        for var, key in _keys(signature.graph, signature.key):
            keys.setdefault(var, key)
    return keys


def _keys(graph: Graph, path: str) -> Iterator[tuple[Var, str]]:
    for i, var in enumerate(graph.inputs):
        yield var, f"{path}/input:{i}"
    for number, eqn in enumerate(graph.eqns):
        for i, var in enumerate(eqn.outputs):
            yield var, f"{path}/{number}:{i}"
        for i, body in enumerate(eqn.bodies):
            yield from _keys(body, f"{path}/{number}.{i}")


def value_source(program: Program, var: Var) -> str:
    """Where a value comes from, in the words of the user's model."""
    for signature in distinct(program):
        if var in signature.graph.inputs:
            return f"input {dict(zip(signature.graph.inputs, signature.input_names, strict=False)).get(var, 'state')!r}"
        eqn = producers(all_eqns(signature.graph)).get(var)
        if eqn is not None:
            return str(eqn.source) or eqn.op.name
    return "a value carried by a loop"


def program_digest(program: Program) -> str:
    """Sixteen hex digits that depend on operators, types and weights: keys mean the same where they agree."""
    digest = hashlib.blake2b(digest_size=8)
    for signature in distinct(program):
        digest.update(f"{signature.key}\n{format_graph(signature.graph, sources=False, known=False)}\n".encode())
    return digest.hexdigest()
