"""Composites become fused TFLite ops where a rule takes them and the prover agrees; the others lose their boundary."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from jfuse.base.errors import JfuseError, LowerError, NotFused
from jfuse.ir.dims import Dim, is_known
from jfuse.ir.graph import Atom, Const, Eqn, Graph, Var
from jfuse.ir.trace import active_trace, recording
from jfuse.ir.walk import (
    all_eqns,
    live_eqns,
    rename_dims,
    substitute_graph,
    use_counts,
    with_new_bodies,
)
from jfuse.kernels import ops
from jfuse.kernels.control import composite, scan, scan_parts, while_
from jfuse.kernels.core.op import TflOp
from jfuse.lowering.composites.detection import is_stub
from jfuse.lowering.rule_tools.broadcast_constants import constant_behind
from jfuse.lowering.rule_tools.case_distinctions import place_of
from jfuse.lowering.rules import FuseRule, need
from jfuse.opaque_ops.state_operands import has_open_state, keeps_state
from jfuse.passes.context import Context
from jfuse.passes.fuse.custom_composites import as_custom
from jfuse.passes.fuse.describe import describe
from jfuse.passes.fuse.padding_promises import Masks
from jfuse.passes.fuse.profitability import Costs, is_asked_for
from jfuse.passes.fuse.result_sizes import lost_sizes
from jfuse.passes.fuse.rounding import rounds_to, widened
from jfuse.passes.fuse.rule_calls import atoms, recorded
from jfuse.passes.fuse.run_time_shapes import (
    dynamic_before_fused,
    dynamic_before_replacement,
    table_lookup,
)
from jfuse.passes.fuse.target_steps import in_cells_of_target, why_no_state_tensor
from jfuse.passes.options import FUSED, PREFERENCES
from jfuse.passes.outline.target_composites import as_target_composite
from jfuse.passes.rewrite import inline, rewrite
from jfuse.passes.simplify.simplify import folded
from jfuse.proof.prove import ROUNDED, TOLERANCE, KnownOperands, Proof
from jfuse.proof.proven_before import prove_once
from jfuse.records.conversion import Fusion, Refusal

_OWN = "jfuse."  # composites that jfuse makes for itself need no rule


def fuse(graph: Graph, ctx: Context) -> Graph:
    """Replace each composite by what its rule makes of it, proved equal, or by its body; none are left.

    Bodies that are put in place are searched for recurrences, as the graph itself was before.
    """
    return _fuse(graph, ctx, _Enclosure(graph.inputs))


@dataclass(frozen=True)
class _Enclosure:
    """Where a graph stands. inputs: its own, where it is a signature's. in_loop: whether it is the body of a loop.

    table: what looks something up in a table there.
    """

    inputs: Sequence[Var] | None = None
    in_loop: bool = False
    table: Eqn | None = None


def _fuse(graph: Graph, ctx: Context, enclosure: _Enclosure) -> Graph:
    enclosure = replace(enclosure, table=table_lookup(graph) or enclosure.table)
    graph = _with_fused_bodies(graph, ctx, enclosure)
    while any(eqn.op is composite for eqn in graph.eqns):  # bodies that are put in place may hold some
        sizes: dict[str, Dim] = {}
        graph = rename_dims(_resolved(graph, ctx, enclosure, sizes), sizes)
        enclosure = enclosure if enclosure.inputs is None else replace(enclosure, inputs=graph.inputs)
    return graph


class _SizesFound(Exception):
    """Raised by a proven replacement that knows sizes for which the composite has names only; they are put in first."""

    def __init__(self, sizes: Mapping[str, Dim]) -> None:
        super().__init__()
        self.sizes = sizes


def _with_fused_bodies(graph: Graph, ctx: Context, enclosure: _Enclosure) -> Graph:
    """The graph with what loops and branches hold resolved."""

    def visit(eqn: Eqn) -> Eqn:
        inside = _Enclosure(in_loop=enclosure.in_loop or eqn.op in (scan, while_))
        return eqn if eqn.op is composite else with_new_bodies(eqn, lambda body: _fuse(body, ctx, inside))

    return replace(graph, eqns=tuple(map(visit, graph.eqns)))


def _resolved(graph: Graph, ctx: Context, enclosure: _Enclosure, sizes: dict[str, Dim]) -> Graph:
    """The graph with each composite replaced, but for those that first need `sizes` put in, which are added."""
    counts = use_counts(graph)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op is not composite:
            return None
        if eqn.params["name"] in ctx.pipeline.custom_ops:
            return as_custom(eqn, ctx.pipeline.custom_options(eqn.params["name"]))
        if eqn.params["name"] in ctx.target.composites and ctx.recipe is None:
            return as_target_composite(eqn, _fuse(eqn.bodies[0], ctx, enclosure))
        rule = ctx.rules.fuses.get(eqn.params["name"])
        if rule is not None:
            try:
                return _fused(eqn, rule, [counts[out] > 0 for out in eqn.outputs], ctx, enclosure)
            except NotFused as refusal:
                ctx.report.refused.append(Refusal.of(refusal, eqn.params["name"], rule.name, eqn.source))
            except _SizesFound as found:
                sizes.update(found.sizes)
                return None
        elif not eqn.params["name"].startswith(_OWN) and not _is_runtime_op(eqn):
            _refuse_stub(eqn)
            missing = NotFused("no_rule", want=f"a rule for {eqn.params['name']!r}")
            ctx.report.refused.append(Refusal.of(missing, eqn.params["name"], "fuse", eqn.source))
        return inline(_opened(eqn, ctx, enclosure), atoms(eqn))

    return rewrite(graph, visit)


def _is_runtime_op(eqn: Eqn) -> bool:
    """Whether the importer gave a marked function the runtime's own operator for a body."""
    return any(e.op.is_stubbed for e in eqn.bodies[0].eqns)


def _refuse_stub(eqn: Eqn) -> None:
    """Raise LowerError where the body of a function that nothing fuses is a stub: its results are not what is meant."""
    if not is_stub(eqn.bodies[0]):
        return
    name = eqn.params["name"]
    raise LowerError(
        f"the function marked {name!r} is a stub, and nothing says what it stands for",
        where=str(eqn.source) or None,
        expected="a rule, a custom operator, or a body that computes something of its arguments",
        found="results that no argument changes",
        remedy=f'pipeline=jfuse.Pipeline(custom_ops=["{name}"]) for a kernel of your own, or a rule with '
        f'@jfuse.fuses("{name}")',
    )


def _opened(eqn: Eqn, ctx: Context, enclosure: _Enclosure) -> Graph:
    """The body of a composite that stays unfused, with its constant operands put in and recurrences recovered in it."""
    (body,) = eqn.bodies
    body = rewrite(_with_constants(body, eqn), folded)
    if dict(eqn.params["attributes"]).get("one_step"):
        return rewrite(body, _straightened)  # straight code again, as it was before it was read as a loop
    if eqn.params["name"] not in ctx.rules.recovers:  # what was proposed and refused would only be proposed again
        body = ctx.sub.recover(body, ctx, not enclosure.in_loop)
    return _with_fused_bodies(body, ctx, enclosure)


def _straightened(eqn: Eqn) -> Sequence[Any] | None:
    """The results of a loop of one step, whose body is put in place."""
    if eqn.op is not scan:
        return None
    consts, carries, xs = scan_parts(eqn.inputs, eqn.params)
    rows = [ops.squeeze(x, squeeze_dims=(0,)) for x in xs]
    results = inline(eqn.bodies[0], [*consts, *carries, *rows])
    collected = [ops.expand_dims(r, np.int32(0)) for r in results[len(carries) :]]
    return [*results[: len(carries)], *collected]


def _fused(eqn: Eqn, rule: FuseRule, is_read: Sequence[bool], ctx: Context, enclosure: _Enclosure) -> list[Atom]:
    """The results of the replacement, recorded in the active trace; raises NotFused where it may not be taken."""
    masks = Masks(ctx, atoms(eqn), active_trace().eqns, enclosure.inputs)
    recognized, returned = recorded(eqn, rule, is_read, masks)
    is_recurrence = any(map(keeps_state, recognized.eqns))
    replacement = in_cells_of_target(recognized, ctx)
    sizes = lost_sizes(eqn, replacement, returned)
    need(
        not sizes or enclosure.inputs is not None, "result_type", want="sizes that the body knows, in a loop", got=sizes
    )
    # In each turn the states would be written and read back, and the op keeps others from being delegated: measured,
    # plain ops are 1.5 to 3 times as fast at 16 to 256 units.
    alone = [e.op.name for e in replacement.eqns if keeps_state(e) and "time_major" not in e.params]
    need(not (enclosure.in_loop and alone), "state_in_a_loop", want="whole sequences in the body of a loop", got=alone)
    dynamic = _dynamic_before(replacement, atoms(eqn), ctx)
    need(
        dynamic is None,
        "dynamic_before_fused",
        want="sizes that LiteRT knows at allocation",
        got=dynamic and place_of(dynamic),
    )
    needs_table = enclosure.table is not None and any(map(has_open_state, replacement.eqns))
    need(
        not needs_table,
        "table_beside_fused",
        want="no table in a graph with an open batch",
        got=enclosure.table and place_of(enclosure.table),
    )
    lacking = [why for e in replacement.eqns if keeps_state(e) and (why := why_no_state_tensor(e, ctx)) is not None]
    need(not lacking, "target", want=f"operators that a file for {ctx.target.name} may hold", got="; ".join(lacking))
    form = ctx.forms.by_source.get(str(eqn.source)) if is_recurrence else None
    need(form in (None, FUSED), "another_form", want="the form that was asked for", got=form)
    asked_for = {prefer: is_asked_for(eqn.params["name"], rule, ctx, prefer) for prefer in PREFERENCES}
    is_judged = not asked_for[ctx.forms.prefer] and form != FUSED
    costs = None
    if is_judged or is_recurrence:
        costs = _costs(eqn, replacement, returned, is_read, ctx)
    if costs is not None and is_judged:
        costs.need_worth(ctx.forms.prefer)
    proof, unproven = _proof_or_trust(eqn, rule, is_read, replacement, returned, masks)
    stopped = proof.verdict.stopped or unproven
    needs_proof = ctx.forms.require == "proven"
    need(not (needs_proof and stopped), "only_tested", want="a proof for all inputs", got=stopped)
    if sizes:
        raise _SizesFound(sizes)
    masks.keep()
    if proof.nan_for_infinities:
        differs = "where an input is infinite the fused operator gives other values, mostly NaN"
        ctx.report.notes.append(f"{eqn.source}: {differs}")
    name = eqn.params["name"]
    ctx.report.fused.append(
        Fusion(
            composite=name,
            rule=rule.name,
            source=str(eqn.source),
            becomes=tuple(e.op.builtin for e in all_eqns(replacement) if isinstance(e.op, TflOp)),
            samples=proof.samples,
            error=proof.error,
            recovered=name in ctx.rules.recovers,
            cell=", ".join(filter(None, map(describe, recognized.eqns))),
            unproven=unproven,
            stopped=stopped,
            conditions=proof.verdict.assumptions,
            speed=None if costs is None else costs.speed(asked_for["speed"]),
        )
    )
    _assume_steps(replacement, ctx)
    results = dict(zip(returned, inline(replacement, atoms(eqn)), strict=True))
    # A result that the rule leaves out stands for itself: nothing reads it.
    return [results.get(i, out) for i, out in enumerate(eqn.outputs)]


def _dynamic_before(replacement: Graph, args: Sequence[Atom], ctx: Context) -> Eqn | None:
    """The first equation before the fused ops of a replacement that has a run-time shape, in the file as well."""
    before = active_trace().eqns
    dynamic = dynamic_before_replacement(before, replacement, args)
    if dynamic is None:
        return None
    with recording() as trace:
        results = inline(replacement, args)
    results_read = tuple(r for r in results if isinstance(r, Var))
    eqns = (*before, *trace.eqns)
    made = {out for eqn in eqns for out in eqn.outputs}
    free = dict.fromkeys(a for eqn in eqns for a in eqn.inputs if isinstance(a, Var) and a not in made)
    # Most of what is sized at run time here will not be: loops and their zeros are spelled in other ways by then.
    file = ctx.sub.as_lowered(Graph(replacement.name, tuple(free), eqns, results_read), ctx, False).graph
    return next((d for e in file.eqns if (d := dynamic_before_fused(file, e)) is not None), None)


def _costs(
    eqn: Eqn, replacement: Graph, returned: Sequence[int], is_read: Sequence[bool], ctx: Context
) -> Costs | None:
    """Compute the costs of a composite's body and of its replacement, for the results that are read alone."""
    read = [k for k, i in enumerate(returned) if is_read[i]]
    body = _only(_with_constants(eqn.bodies[0], eqn), [returned[k] for k in read])
    return Costs.of(body, _only(_with_constants(replacement, eqn), read), ctx)


def _with_constants(graph: Graph, eqn: Eqn) -> Graph:
    """A graph over the operands of a composite with the constant ones put in."""
    known: dict[Var, Atom] = {v: a for v, a in zip(graph.inputs, atoms(eqn), strict=True) if isinstance(a, Const)}
    return substitute_graph(graph, known)


def _only(graph: Graph, places: Sequence[int]) -> Graph:
    outputs = tuple(graph.outputs[i] for i in places)
    return replace(graph, eqns=live_eqns(graph, outputs), outputs=outputs)


def _assume_steps(replacement: Graph, ctx: Context) -> None:
    """Note that a recurrence of open length makes a step: the last one is read, and TFLite has none to give."""
    for eqn in filter(keeps_state, replacement.eqns):
        if "time_major" not in eqn.params:
            continue  # one step
        steps = eqn.outputs[0].type.shape[0 if eqn.params["time_major"] else 1]
        if not is_known(steps) and f"{steps} >= 1" not in ctx.report.assumptions:
            ctx.report.assumptions.append(f"{steps} >= 1")


def _proof_or_trust(
    eqn: Eqn, rule: FuseRule, is_read: Sequence[bool], replacement: Graph, returned: Sequence[int], masks: Masks
) -> tuple[Proof, str]:
    """The proof of a replacement and "", or an empty one and why none can be had, where the rule is to be trusted."""
    try:
        return _proof(eqn, rule, is_read, replacement, returned, masks), ""
    except NotFused as refusal:
        if not rule.trust or refusal.condition not in _UNPROVABLE:
            raise
        return Proof(0, 0.0), f"{refusal.condition.replace('_', ' ')} ({refusal.detail})"


_UNPROVABLE = frozenset({"body_not_executable", "replacement_not_executable", "stateful_body"})


def _proof(
    eqn: Eqn, rule: FuseRule, is_read: Sequence[bool], replacement: Graph, returned: Sequence[int], masks: Masks
) -> Proof:
    """The proof of a replacement: as it is, or without the rounding of constants, the rule's own or the source's."""
    known = _known(eqn, masks)
    try:
        return _proved(eqn, rule, replacement, returned, known)
    except NotFused as refusal:
        if refusal.condition != "not_equal":
            raise
    try:
        return _proved_unrounded(eqn, rule, is_read, replacement, returned, masks)
    except NotFused:
        return _proved(eqn, rule, replacement, returned, known, ROUNDED)


def _known(eqn: Eqn, masks: Masks) -> KnownOperands:
    """Collect the constant operands of a composite, broadcast ones too, and the masks that a rule asked for."""
    constants = {i: constant_behind(a, active_trace().producer) for i, a in enumerate(atoms(eqn)) if isinstance(a, Var)}
    return KnownOperands(_constants(eqn), masks.asked, {i: held for i, held in constants.items() if held is not None})


def _constants(eqn: Eqn) -> list[np.ndarray | None]:
    return [a.array if isinstance(a, Const) else None for a in atoms(eqn)]


def _proved_unrounded(
    eqn: Eqn, rule: FuseRule, is_read: Sequence[bool], replacement: Graph, returned: Sequence[int], masks: Masks
) -> Proof:
    """Prove the rule's replacement in f64. The replacement for the file must be its rounded form."""
    wide = widened(eqn)
    try:
        exact, _ = recorded(wide, rule, is_read, masks)
    except JfuseError as error:
        raise NotFused("not_equal", want="a rule that takes f64") from error
    need(rounds_to(exact, replacement), "not_equal", want="the same ops in f64 and in f32")
    known = replace(_known(eqn, masks), constants=_constants(wide))
    return _proved(wide, rule, exact, returned, known)


def _proved(
    eqn: Eqn,
    rule: FuseRule,
    replacement: Graph,
    returned: Sequence[int],
    known: KnownOperands,
    tolerance: float = TOLERANCE,
) -> Proof:
    body = _only(eqn.bodies[0], returned)
    return prove_once(body, replacement, known, rule.claims, tolerance=tolerance)
