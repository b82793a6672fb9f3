"""Drops the debug metadata of a file that was read: the passes would make it stale."""

from __future__ import annotations

from dataclasses import replace

from jfuse.ir.graph import Eqn, Graph, Program, Signature
from jfuse.ir.walk import all_graphs
from jfuse.passes.context import Context
from jfuse.tflite.metadata import DEBUG_METADATA

_LEFT_OUT = "the file's debug metadata is left out: it tells of operators by their number, and others take their place"


def drop_debug_metadata(program: Program, ctx: Context) -> Program:
    """Promise that no equation or graph refers to debug metadata, and that there is none; noted where there was."""
    facts = program.facts
    named = any(name == DEBUG_METADATA for name, _ in facts.metadata)
    if not named and not any(map(_refers, program.entries())):
        return program
    ctx.report.notes.append(_LEFT_OUT)
    plain = {id(graph): _without(graph) for graph in program.entries()}

    def changed(signatures: tuple[Signature, ...]) -> tuple[Signature, ...]:
        return tuple(replace(s, graph=plain[id(s.graph)]) for s in signatures)

    metadata = tuple(entry for entry in facts.metadata if entry[0] != DEBUG_METADATA)
    facts = replace(facts, metadata=metadata, uncalled=changed(facts.uncalled))
    return replace(program, signatures=changed(program.signatures), facts=facts)


def _refers(graph: Graph) -> bool:
    return any(g.debug is not None or any(e.debug is not None for e in g.eqns) for g in all_graphs(graph))


def _without(graph: Graph) -> Graph:
    return replace(graph, eqns=tuple(map(_eqn_without, graph.eqns)), debug=None)


def _eqn_without(eqn: Eqn) -> Eqn:
    return replace(eqn, bodies=tuple(map(_without, eqn.bodies)), debug=None)
