"""Replaces `ys[-1]` by the scan's final carry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from jfuse.ir.dims import is_known
from jfuse.ir.graph import Eqn, Graph, Var
from jfuse.ir.walk import is_same_type, producers, with_bodies
from jfuse.kernels.control import scan
from jfuse.kernels.core.op import static_value
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.reroll.sequence_reads import SequenceRead, reads_of
from jfuse.passes.simplify.dce import eliminate_dead_code


def last_steps(graph: Graph) -> Graph:
    """The graph with the final state wherever the last step of a state's collected values was read, in bodies too.

    `tf.scan` gives no final states: whoever wants one takes the last step, and LSTMs would have c of every step.
    """
    graph = with_bodies(graph, last_steps)
    if not any(eqn.op is scan for eqn in graph.eqns):
        return graph
    graph = eliminate_dead_code(graph)  # a state that is carried for nobody would be kept alive
    reads, made = reads_of(graph, from_end=True), producers(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        read = reads.get(eqn.outputs[0]) if len(eqn.outputs) == 1 else None
        final = None if read is None else _final(read, made)
        fits = final is not None and is_same_type(final.type, eqn.outputs[0].type)
        return [final] if fits else None

    rewritten = rewrite(graph, visit)
    return graph if rewritten is graph else eliminate_dead_code(rewritten)


def _final(read: SequenceRead, made: Mapping[Var, Eqn]) -> Var | None:
    """The final state that is the step that is read."""
    source, axis = read.source, read.axis
    eqn = made.get(source)
    while eqn is not None and eqn.op.moves == "permutes" and isinstance(eqn.inputs[0], Var):
        permutation = None if eqn.inputs[1] is None else static_value(eqn.inputs[1])
        if not isinstance(permutation, tuple):
            return None
        source, axis = eqn.inputs[0], int(permutation[axis])
        eqn = made.get(source)
    if eqn is None or eqn.op is not scan or axis != 0 or read.kept:
        return None
    length = eqn.params["length"]
    last = length - 1 if is_known(length) else -1
    if read.index != (0 if eqn.params["reverse"] else last):
        return None
    (body,) = eqn.bodies
    collected = body.outputs[eqn.outputs.index(source)]
    states = body.outputs[: eqn.params["carries"]]
    place = next((i for i, state in enumerate(states) if state is collected), None)
    is_sequence = eqn.outputs.index(source) >= len(states)
    return eqn.outputs[place] if place is not None and is_sequence else None
