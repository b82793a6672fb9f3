"""Composites of StableHLO: those that the target knows are made, others are put in place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.ir.graph import Atom, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, at_source, recording, trace_graph
from jfuse.ir.walk import substitute_graph, with_bodies, with_new_bodies
from jfuse.kernels.control import stablehlo_composite
from jfuse.opaque_ops.custom_options import map_options
from jfuse.passes.context import Context
from jfuse.passes.outline.attention import attention
from jfuse.passes.outline.norms import norms
from jfuse.passes.outline.region import Meaning, Surroundings
from jfuse.passes.rewrite import inline, rewrite
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.proof.prove import ROUNDED, prove
from jfuse.tflite.targets.target import Target


def target_composites(graph: Graph, ctx: Context) -> Graph:
    """Put what the target has a function of its own for in a composite of that name; open the others.

    LiteRT runs a composite by its body: there a file keeps those that it has. Quantizers read operators, so all are
    opened for them.
    """
    graph = _opened(graph, ctx)
    if ctx.recipe is not None or not ctx.target.composites:
        return graph
    return _outlined(graph, ctx.target)


def as_target_composite(eqn: Eqn, body: Graph) -> Sequence[Var]:
    """The results of a marked function as a composite of its name, recorded in the active trace.

    body: of the marked function, without others in it.
    """
    return _composite(eqn.params["name"], dict(eqn.params["attributes"]), body, eqn.inputs)


def _composite(name: str, attributes: Mapping[str, Any], body: Graph, operands: Sequence[Any]) -> Sequence[Var]:
    trace = active_trace()
    params = {"name": name, "composite_attributes": map_options(attributes), "version": 1}
    atoms = trace.operands(operands)
    types = stablehlo_composite.infer(atoms, params, [body])
    return trace.append(stablehlo_composite, atoms, types, params, [body])


def _opened(graph: Graph, ctx: Context) -> Graph:
    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not stablehlo_composite or _stays(eqn, ctx):
            return None
        return inline(eqn.bodies[0], [a for a in eqn.inputs if a is not None])

    return rewrite(with_bodies(graph, lambda body: _opened(body, ctx)), visit)


def _stays(eqn: Eqn, ctx: Context) -> bool:
    if ctx.recipe is not None or ctx.target.why_not(eqn) is not None:
        return False
    return ctx.target.accelerator is None or eqn.params["name"] in ctx.target.composites


def _outlined(graph: Graph, target: Target) -> Graph:
    """The graph with a composite for each part that is proven to be a function of the target."""
    inside = (
        e if e.op is stablehlo_composite else with_new_bodies(e, partial(_outlined, target=target)) for e in graph.eqns
    )
    graph = replace(graph, eqns=tuple(inside))
    chosen = _chosen(graph, target)
    if not chosen:
        return graph
    eqns: list[Eqn] = []
    replaced: dict[Var, Atom] = {}
    for eqn in graph.eqns:
        meaning = chosen.get(eqn.outputs[0]) if eqn.outputs else None
        if meaning is not None:
            with recording() as trace, at_source(eqn.source):
                replaced[meaning.output] = trace.atom(meaning.spelled(partial(_called, meaning), *meaning.inputs))
            eqns += trace.eqns
        eqns.append(eqn)
    return eliminate_dead_code(substitute_graph(replace(graph, eqns=tuple(eqns)), replaced))


def _chosen(graph: Graph, target: Target) -> dict[Var, Meaning]:
    """By the value that it computes, what a part is proven to be; no two parts share an equation."""
    around = Surroundings.of(graph)
    chosen: dict[Var, Meaning] = {}
    taken: set[Var] = set()
    for meaning in chain(attention(around), norms(around)):
        if meaning.name not in target.composites or meaning.output in taken:
            continue
        part = around.part(meaning.inputs, meaning.output)
        made = {out for eqn in part.eqns for out in eqn.outputs} if part is not None else taken
        if part is not None and taken.isdisjoint(made) and _is_proven(part, meaning):
            chosen[meaning.output] = meaning
            taken |= made
    return chosen


def _is_proven(part: Graph, meaning: Meaning) -> bool:
    try:
        said = trace_graph(partial(meaning.spelled, meaning.function), [v.type for v in meaning.inputs])
        # Factors were solved from what the part answers, and rounded to f32.
        prove(part, said, tolerance=ROUNDED)
    except JfuseError:
        return False
    return True


def _called(meaning: Meaning, *operands: Any) -> Var:
    """The function of a meaning as a composite, recorded in the active trace."""
    atoms = active_trace().operands(operands)
    body = trace_graph(meaning.function, [a.type for a in atoms if a is not None], meaning.name)
    (result,) = _composite(meaning.name, meaning.attributes, body, atoms)
    return result
