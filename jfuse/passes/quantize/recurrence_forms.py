"""LSTMs in 8 bits where LiteRT runs them: the fastest of the forms that are about as small as the smallest.

LiteRT's integer kernel computes one number after the other: it takes 3 to 8 times as long as that of floats, and 20
times as long as a loop whose products XNNPACK makes. The other forms compute elementwise parts in floats, between
products with int8 weights. In 8-bit integers these parts would lose 6 to 12 dB beside the fused kernel, whose cells
have 16 bits. LiteRT's 16-bit operators make a loop that takes three times as long as floats.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from jfuse.ir.graph import Eqn, Graph, Program, Signature, Source, Var
from jfuse.ir.states import with_signatures
from jfuse.ir.trace import at_source
from jfuse.ir.walk import all_eqns, with_bodies
from jfuse.kernels import ops
from jfuse.kernels.control import scan
from jfuse.lowering.spellings.recurrences import in_plain_steps
from jfuse.opaque_ops.state_operands import has_open_state
from jfuse.passes.context import Context
from jfuse.passes.options import FUSED, Forms
from jfuse.passes.quantize.forms import facts, own_form, rule_of
from jfuse.passes.quantize.respell import in_graph
from jfuse.passes.rewrite import rewrite
from jfuse.passes.scans.to_loops.fused_cost import FusedSize
from jfuse.passes.scans.to_loops.loop_cost import LARGER, ROOMS, WHILE_OPERATORS, LoopSize, LoopSpelling, fastest
from jfuse.quantization.recipe import QuantizeRule, Recipe
from jfuse.tflite.names import equation_name

_LSTMS = (ops.unidirectional_sequence_lstm, ops.bidirectional_sequence_lstm, ops.lstm)
_COMPOSITE = "jfuse.lstm"
_ROUNDS = 2  # both directions become one each, a single step a sequence, before they become steps
# Bytes of files of LSTMs of 32 to 256 units: an operator of a step with its results; what a loop has more for each row
# of a matrix, as scales; what the fused operator takes with its operands, and more of it in integers; what a file has
# besides its weights; what a loop takes to collect results, beside their zeros, and to start with an open batch.
_OPERATOR_BYTES, _ROW_BYTES, _FUSED_BYTES, _INTEGER_BYTES, _FILE_BYTES, _STACK_BYTES = 96, 9.4, 1900, 944, 3800, 1600
_OPEN_BYTES = 1700
_FLOAT_BYTES = 4


def in_fast_forms(program: Program, recipe: Recipe, ctx: Context) -> tuple[Program, Recipe]:
    """The program with LSTMs in 8 bits in the form that LiteRT runs fastest, and the recipe with rules for these.

    Both as they are where the target has other kernels, where all must be integers, and where fused operators are asked
    for.
    """
    if not ctx.target.has_xnnpack or recipe.int8_only or ctx.forms.prefer == FUSED:
        return program, recipe
    forms = _FastForms(recipe, ctx)
    changed = with_signatures(program, forms.signature)
    return changed, replace(recipe, rules=(*recipe.rules, *forms.rules, *_rules_of_loops(recipe, ctx)))


def _rules_of_loops(recipe: Recipe, ctx: Context) -> list[QuantizeRule]:
    """Rules for LSTMs in 8 bits that are loops before this, as CompiledModel has no operator for them.

    Those whose states are inputs and outputs stay integers, as their states do.
    """
    if not ctx.target.compiled_model or ctx.target.accelerator is not None or ctx.forms.mode == "io":
        return []
    rules: list[QuantizeRule] = []
    for refusal in ctx.report.refused:
        if (refusal.what, refusal.condition) != (_COMPOSITE, "target"):
            continue
        node = refusal.source.split(" (")[0]
        rule = recipe.rule_for(node, str(ops.unidirectional_sequence_lstm.builtin))
        if node and _is_of_bytes(rule):
            names = f"^{re.escape(node)}(/|$)"
            rules.append(replace(rule, mode="dynamic", regex=names, op="*", min_elements=0))
            ctx.report.notes.append(
                f"{refusal.source}: the LSTM is steps with int8 weights between floats; "
                "a recipe with int8_only=True writes integers"
            )
    return rules


def _is_of_bytes(rule: QuantizeRule) -> bool:
    """Whether a rule wants activations of 8 bits."""
    return (rule.mode, rule.activation_bits, rule.symmetric) == ("integer", 8, False)


@dataclass(frozen=True)
class _Lstm:
    """An LSTM that may have another form.

    rule: what its weights are quantized by there. source: of its steps. inside: of what a step computes besides
    products. is_integer: whether the recipe wants integers.
    """

    eqn: Eqn
    rule: QuantizeRule
    source: Source
    inside: Source
    is_integer: bool
    size: FusedSize


@dataclass(frozen=True)
class _FastForms:
    """The choice at work.   rules: for what was changed so far. names: of all equations, those of steps as well"""

    recipe: Recipe
    ctx: Context
    rules: list[QuantizeRule] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def signature(self, signature: Signature) -> Signature:
        """The signature with each LSTM as it is, for a rule that leaves it floats, or as steps in a loop."""
        self.names.update(map(equation_name, all_eqns(signature.graph)))
        lstms = [candidate for eqn in all_eqns(signature.graph) if (candidate := self._lstm(eqn)) is not None]
        loops = self._loops(signature.graph, lstms)
        for lstm in lstms:
            self._note(lstm, loops.get(lstm.eqn.outputs[0]))
        if not loops:
            return signature
        options = self.ctx.forms
        changed = {lstm.eqn.outputs[0]: lstm for lstm in lstms if lstm.eqn.outputs[0] in loops}
        forms = {str(changed[var].source): form.short for var, form in loops.items()} if options.loop == "auto" else {}
        apart = replace(self.ctx, whiles=None, forms=replace(options, by_source={**options.by_source, **forms}))
        return in_graph(signature, self.ctx.sub.in_loops(_in_steps(signature.graph, changed), apart))

    def _lstm(self, eqn: Eqn) -> _Lstm | None:
        """An equation as an LSTM that may have another form; None where it has none, or the user asks for this one."""
        if eqn.op not in _LSTMS or self.ctx.forms.by_source.get(str(eqn.source)) == FUSED:
            return None
        rule, size = rule_of(eqn, self.recipe), FusedSize.of(eqn)
        is_integer = _is_of_bytes(rule)
        if size is None or not (is_integer or rule.mode == "dynamic"):
            return None
        hybrid = replace(rule, mode="dynamic", regex=".*", op="*")
        if own_form(eqn, Recipe((hybrid,)), self.ctx.target).kind != "weights":
            return None
        return _Lstm(eqn, hybrid, self._source(eqn.source), self._source(Source()), is_integer, size)

    def _source(self, source: Source) -> Source:
        """A source within this one, with a name that no other equation has."""
        count = 0
        while (name := "/".join(filter(None, (source.node, f"steps_{count}" if count else "steps")))) in self.names:
            count += 1
        self.names.add(name)
        return replace(source, node=name)

    def _loops(self, graph: Graph, lstms: Sequence[_Lstm]) -> dict[Var, LoopSpelling]:
        """The LSTMs that are faster as loops, by their first results, with the forms of these."""
        options = self.ctx.forms
        if not lstms or options.prefer == "size" or not self.ctx.target.has("WHILE"):
            return {}
        steps = self.ctx.sub.last_steps(_in_steps(graph, {lstm.eqn.outputs[0]: lstm for lstm in lstms}))
        scans: dict[Source, list[Eqn]] = {}
        for eqn in all_eqns(steps):
            if eqn.op is scan:
                scans.setdefault(eqn.source, []).append(eqn)
        form_of = ((lstm.eqn.outputs[0], _faster(lstm, scans.get(lstm.source, ()), options)) for lstm in lstms)
        return {var: form for var, form in form_of if form is not None}

    def _note(self, lstm: _Lstm, form: LoopSpelling | None) -> None:
        """Add the rule for an LSTM, and to the report what it is instead of integers."""
        sources = (lstm.eqn.source,) if form is None else (lstm.source, lstm.inside)
        names = "|".join(re.escape(equation_name(replace(lstm.eqn, source=source))) for source in sources)
        op = str(lstm.eqn.op.builtin) if form is None else "*"
        if form is not None or lstm.is_integer:
            self.rules.append(replace(lstm.rule, regex=f"^({names})$", op=op, min_elements=0))
        if lstm.is_integer:
            is_now = "one operator" if form is None else f"steps ({form})"
            slower = lstm.size.integer_microseconds() / lstm.size.modelled()
            self.ctx.report.notes.append(
                f"{lstm.eqn.source}: the LSTM is {is_now} with int8 weights between floats; LiteRT's operator of "
                f'integers, which prefer="fused" writes, takes about {slower:.1f} times as long as that of floats'
            )


def _in_steps(graph: Graph, lstms: Mapping[Var, _Lstm]) -> Graph:
    """The graph with LSTMs, by their first results, as scans of their sources, in bodies too."""
    return _named(_scanned(graph, lstms), {lstm.source: lstm.inside for lstm in lstms.values()})


def _scanned(graph: Graph, lstms: Mapping[Var, _Lstm]) -> Graph:
    graph = with_bodies(graph, lambda body: _scanned(body, lstms))
    ours = {lstm.source for lstm in lstms.values()}

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        if eqn.op not in _LSTMS or not (eqn.outputs[0] in lstms or eqn.source in ours):
            return None
        with at_source(eqn.source if eqn.source in ours else lstms[eqn.outputs[0]].source):
            return in_plain_steps(eqn)

    for _ in range(_ROUNDS):
        graph = rewrite(graph, visit)
    return graph


def _named(graph: Graph, inside: Mapping[Source, Source]) -> Graph:
    """The graph with what steps compute named for rules: products after their scan, the others by a short name.

    The scan's name in all of them would be a twentieth of the file of 32 units.
    """

    def named(eqn: Eqn) -> Eqn:
        bodies = tuple(_named(body, inside) for body in eqn.bodies)
        if eqn.op is scan and eqn.source in inside:
            short = inside[eqn.source]
            bodies = tuple(replace(b, eqns=tuple(_as_of(e, eqn.source, short) for e in b.eqns)) for b in bodies)
        return replace(eqn, bodies=bodies) if eqn.bodies else eqn

    return replace(graph, eqns=tuple(map(named, graph.eqns)))


def _as_of(eqn: Eqn, product: Source, other: Source) -> Eqn:
    return replace(eqn, source=product if facts(eqn).weights else other)


def _faster(lstm: _Lstm, scans: Sequence[Eqn], options: Forms) -> LoopSpelling | None:
    """The form of loops that take less time than an operator with int8 weights; None where none that fits does.

    scans: of all directions, alike. Their products are with weights of 8 bits.
    """
    if not scans:
        return None
    (body,), params = scans[0].bodies, scans[0].params
    rows = body.inputs[params["consts"] + params["carries"] :], body.outputs[params["carries"] :]
    sequences, collected = ([atom.type for atom in part] for part in rows)
    floats = LoopSize.of(body, params["length"], sequences, collected)
    loop = replace(floats, weights=floats.weights // _FLOAT_BYTES)
    room = ROOMS[options.prefer]
    most = inf if options.prefer == "speed" else _most_operators(lstm, len(scans), loop)
    form = fastest(
        loop,
        replace(room, operators=int(min(room.operators, most))),
        options.machine,
        unroll=options.loop != "while",
    )
    us = len(scans) * loop.microseconds(form, options.machine)
    return form if loop.added_operators(form) <= most and us < lstm.size.hybrid_microseconds() else None


def _most_operators(lstm: _Lstm, loops: int, loop: LoopSize) -> float:
    """How many operators the steps of each loop may have, so that the file is no more than `LARGER` times as large."""
    stack = _STACK_BYTES + loop.steps * loop.collected if loop.collected else 0
    stack += _OPEN_BYTES if has_open_state(lstm.eqn) else 0
    fused = _INTEGER_BYTES if lstm.is_integer else 0
    smallest = lstm.size.weights + _FLOAT_BYTES * lstm.size.dots / 2 + _FILE_BYTES + fused
    more = (LARGER - 1) * smallest + _FUSED_BYTES + fused - _ROW_BYTES * lstm.size.dots
    return (more / loops - stack) / _OPERATOR_BYTES - WHILE_OPERATORS
