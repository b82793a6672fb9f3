"""Runs whole programs in LiteRT that keep variables or tables as resources: their equations cannot run alone."""

from __future__ import annotations

from jfuse.base.limits import DEFAULT_LIMITS, Limits
from jfuse.ir.graph import Graph, Program
from jfuse.ir.walk import all_eqns
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.write.file import to_bytes
from jfuse.tflite.write.named_file import with_signature

WHY = "it keeps variables or tables as resources"


def works_on_resources(graph: Graph) -> bool:
    """Whether the graph makes, reads or changes a resource: a variable in a loop, or a table's size."""
    return any(eqn.effects for eqn in all_eqns(graph))


def runs_whole(program: Program) -> bool:
    """Whether a signature works on resources. The others run in LiteRT as well, as they may share them."""
    return any(map(works_on_resources, program.graphs()))


def whole(program: Program, limits: Limits | None = None) -> LiteRt:
    """The program in an interpreter, which holds the resources from call to call; without delegates."""
    return LiteRt(with_signature(to_bytes(program), program), delegates=False, limits=limits or DEFAULT_LIMITS)
