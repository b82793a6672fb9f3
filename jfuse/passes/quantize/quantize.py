"""The stage that quantizes a program by a recipe, and reports on it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from jfuse.base.errors import JfuseError, LowerError
from jfuse.ir.graph import Eqn, Graph, Program, Signature, Var
from jfuse.ir.states import distinct, with_signatures
from jfuse.ir.types import DType
from jfuse.ir.walk import all_graphs, with_bodies
from jfuse.lowering.ops.math.fake_quant import in_arithmetic
from jfuse.passes.context import Context
from jfuse.passes.legalize.equalized_channels import channel_factors, equalized
from jfuse.passes.legalize.row_tables import with_row_tables
from jfuse.passes.quantize.body_places import same_values
from jfuse.passes.quantize.choose import Choice, IntegerSlot
from jfuse.passes.quantize.dynamic_scales import without_dynamic_scales
from jfuse.passes.quantize.forms import EqnForm, forms_of, is_float, made_integers, operands_of, rule_of
from jfuse.passes.quantize.half_files import with_halves
from jfuse.passes.quantize.insert import Boundary, Insertion
from jfuse.passes.quantize.integer_bodies import with_integer_bodies
from jfuse.passes.quantize.integer_ends import EndSlots, with_integer_ends, with_integer_states
from jfuse.passes.quantize.joins import parts_left_float, unlike_parts
from jfuse.passes.quantize.parameters import parameters
from jfuse.passes.quantize.product_moments import ProductMoments, wanted_moments
from jfuse.passes.quantize.ranges.spelled_ranges import has_trained_ranges, with_spelled_ranges
from jfuse.passes.quantize.ranges.trained import in_trained_bits, with_ends
from jfuse.passes.quantize.ranges.value_ranges import ValueRanges, observed_together
from jfuse.passes.quantize.recurrence_forms import in_fast_forms
from jfuse.passes.quantize.respell import respelled
from jfuse.passes.quantize.weights import WeightsInFewBits
from jfuse.passes.rewrite import rewrite
from jfuse.quantization.moments import Moments
from jfuse.quantization.recipe import ALL, QuantizeRule, Recipe
from jfuse.quantization.statistics import NEED_HISTOGRAMS, Observed, Statistics
from jfuse.quantization.value_keys import value_source
from jfuse.records.conversion import QuantizedOps
from jfuse.tflite.targets.target import Target

_SHOWN = 20  # operators in the message of `int8_only`
_SHOWN_IN_NOTE = 5


def quantize(program: Program, ctx: Context) -> Program:
    """Promise that the operators that the recipe names have the types that it asks for, as far as kernels take them."""
    recipe = ctx.recipe
    if recipe is None:
        return _written(program, ctx)
    if recipe.from_training and ctx.calibrate is None and not any(map(has_trained_ranges, program.graphs())):
        recipe = recipe.without_ranges()
    program = program.with_graphs(partial(_without_dynamic_scales, ctx=ctx, recipe=recipe))
    program = _equalized(program, ctx, recipe)
    program, recipe = in_fast_forms(program, recipe, ctx)
    if recipe.needs_ranges:
        program = program.with_graphs(lambda graph: _with_spelled_ranges(graph, ctx, recipe))
        program = with_signatures(program, lambda s: respelled(s, recipe, ctx))
        program = program.with_graphs(lambda graph: with_ends(graph, recipe))
    quantizing = Quantizing(recipe, ctx.target, channel_factors(program, recipe))
    if recipe.needs_ranges or recipe.needs_moments:
        quantizing = quantizing.calibrated(program, ctx)
    quantized = with_signatures(program, quantizing.signature)
    bodies = quantized.with_graphs(with_integer_bodies)
    slots = {s.key: quantizing.slots(s) for s in program.signatures}
    bodies = with_signatures(bodies, lambda s: _with_integer_ends(s, recipe, ctx, slots[s.key]))
    result = with_integer_states(bodies, exposed=DType.f32 not in (recipe.inputs, recipe.outputs))
    for warning in quantizing.warnings:
        ctx.report.warn(warning)
    ctx.report.quantized = list(_lines(quantizing.forms))
    if recipe.int8_only:
        _refuse_floats(quantizing.forms)
    return _written(result, ctx)


def _written(program: Program, ctx: Context) -> Program:
    """The program without what only quantization reads, and with constants in f16 where the source has such."""
    program = program.with_graphs(without_narrow_ranges)
    return program.with_graphs(with_halves) if ctx.halves else program


def _without_dynamic_scales(graph: Graph, ctx: Context, recipe: Recipe) -> Graph:
    """The graph without them, and with what is left, scales and biases of products, in their weights."""
    changed = without_dynamic_scales(graph, recipe)
    changed = with_row_tables(changed, lambda eqn: rule_of(eqn, recipe).mode == "integer")
    return graph if changed is graph else ctx.sub.simplify(changed, ctx, {})


def _with_spelled_ranges(graph: Graph, ctx: Context, recipe: Recipe) -> Graph:
    """The graph with them as FAKE_QUANT, and with what is left, factors of products, in their weights."""
    changed = with_spelled_ranges(graph, recipe)
    return graph if changed is graph else ctx.sub.simplify(changed, ctx, {})


def _equalized(program: Program, ctx: Context, recipe: Recipe) -> Program:
    """The program with like ranges of the channels between products, where the recipe wants that."""
    if not recipe.equalization:
        return program
    pairs = []

    def changed(graph: Graph) -> Graph:
        new, count = equalized(graph, lambda eqn: rule_of(eqn, recipe).mode not in ("float", "float16"))
        pairs.append(count)
        return new

    program = program.with_graphs(changed)
    ctx.report.notes.append(f"equalization gave the channels between {sum(pairs)} pairs of products like ranges")
    return program


def _calibrated(
    wanted: Mapping[Observed, set[str]],
    moments: Mapping[Observed, Moments],
    program: Program,
    ctx: Context,
    from_training: bool,
) -> Statistics:
    """Collect the statistics of values from calibration.

    wanted: with the algorithms that take their ranges. from_training: whether values may have none.
    """
    if ctx.calibrate is None and any(tally.squares for tally in moments.values()):
        raise JfuseError(
            "the recipe rounds weights by what they are multiplied with, which calibration finds",
            expected="calibration=…, with inputs like those that the model will see",
            remedy='weight_algorithm="mse" in its rules needs none',
        )
    if not wanted and (not moments or ctx.calibrate is None):
        return Statistics(program)
    if ctx.calibrate is None and from_training:
        return Statistics(program)
    if ctx.calibrate is None:
        first = value_source(program, next(iter(wanted)).var)
        raise JfuseError(
            "the recipe computes in integers, whose ranges calibration finds",
            expected="calibration=…, with inputs like those that the model will see",
            found=f"nothing, and {len(wanted)} values without a range; the first is {first}",
            remedy='calibration="random" tries it out, without a promise',
        )
    histograms = [what for what, algorithms in wanted.items() if algorithms & set(NEED_HISTOGRAMS)]
    statistics = ctx.calibrate(program, list(wanted), histograms, moments)
    ctx.report.notes += [*statistics.notes(), *_without_moments(moments, statistics)]
    return statistics


def _without_moments(moments: Mapping[Observed, Moments], statistics: Statistics) -> Iterator[str]:
    """Notes on what the statistics of another calibration lack; JfuseError where weights cannot be rounded without."""
    for squares in (True, False):
        needed = [what for what, tally in moments.items() if tally.squares is squares]
        if not needed or any(statistics.record(what).moments is not None for what in needed):
            continue
        if squares:
            raise JfuseError(
                "the statistics do not have what the recipe rounds weights by",
                where=value_source(statistics.program, needed[0].var),
                remedy="calibrate again with this recipe",
            )
        yield f"the biases of {len(needed)} products are not corrected: the statistics are those of another recipe"


@dataclass(frozen=True)
class Quantizing:
    """One program while its graphs get their new types.

    in_floats: equations that stay float before inputs are quantized, or behind integers, and why.
    ranges: None before calibration, and where none is needed. forms: those of all equations. warnings: on their scales.
    """

    recipe: Recipe
    target: Target
    in_floats: Mapping[Eqn, str] = field(default_factory=dict)
    ranges: ValueRanges | None = None
    weights: WeightsInFewBits = field(default_factory=WeightsInFewBits)
    forms: dict[Eqn, EqnForm] = field(default_factory=dict)
    warnings: list[str] = field(default_factory=list)
    _bodies: dict[int, tuple[Graph, Graph]] = field(default_factory=dict)

    def calibrated(self, program: Program, ctx: Context) -> Quantizing:
        """The same with what calibration saw of the program."""
        forms = {
            graph: in_trained_bits(
                graph, forms_of(graph, self.recipe, self.target, quantized_inputs, self._why_float), self.target
            )
            for signature in distinct(program)
            for graph in all_graphs(signature.graph)
            for quantized_inputs in [self._given(signature) if graph is signature.graph else frozenset[Var]()]
        }
        algorithms, together = self._wanted(program, forms), {e: f for of in forms.values() for e, f in of.items()}
        statistics = _calibrated(algorithms, wanted_moments(together), program, ctx, self.recipe.from_training)
        products = ProductMoments.of(together, statistics)
        ctx.report.notes += _rounded_apart([*products.not_in_turn(together)])
        weights = WeightsInFewBits(products)
        if not self.recipe.needs_ranges:
            return replace(self, weights=weights)
        is_calibrated = ctx.calibrate is not None
        ranges = ValueRanges(statistics, frozenset(algorithms), same_values(program), is_calibrated)
        return replace(self, ranges=ranges, weights=weights)

    def _wanted(self, program: Program, forms: Mapping[Graph, Mapping[Eqn, EqnForm]]) -> Mapping[Observed, set[str]]:
        """The values whose range integer kernels need, with the algorithms that take it."""
        algorithms: dict[Observed, set[str]] = {}
        alike = same_values(program)

        def note(what: Observed, algorithm: str, bits: int) -> tuple[float, float]:
            for each in observed_together(what, alike):
                algorithms.setdefault(each, set()).add(algorithm)
            return 0.0, 1.0

        ends = {id(s.graph): (var for of in self._integer_ends(s) for var in of.values()) for s in distinct(program)}
        for graph, of in forms.items():
            choice = Choice(graph, of, note)
            for var in ends.get(id(graph), ()):
                if all(choice.of_value(var, dtype) is None for dtype in (DType.i8, DType.i16)):
                    note(Observed(var), self._of_ends.range_algorithm, self._of_ends.activation_bits)
        return algorithms

    def signature(self, signature: Signature) -> Signature:
        """The signature with its graph in the new types; states, and what exposes them, stay float."""
        quantized_inputs = self._given(signature)
        boundary = Boundary(*self.recipe.ends, quantized_inputs, _plain_counts(signature)[1])
        return replace(signature, graph=self._graph(signature.graph, boundary, quantized_inputs))

    def _given(self, signature: Signature) -> frozenset[Var]:
        """The inputs that come as integers: not those whose numbers become indices, which steps would move."""
        if self.recipe.inputs is DType.f32:
            return frozenset()
        floats = filter(is_float, signature.graph.inputs[: _plain_counts(signature)[0]])
        return frozenset(floats) - made_integers(signature.graph)

    @property
    def _of_ends(self) -> QuantizeRule:
        """The rule of inputs and outputs that only operators in floats read and compute."""
        return self.recipe.rule_for("", ALL)

    def _integer_ends(self, signature: Signature) -> tuple[Mapping[int, Var], Mapping[int, Var]]:
        """The float inputs and outputs, by position, that the recipe wants as integers."""
        if self._of_ends.mode != "integer":
            return {}, {}
        graph, given = signature.graph, self._given(signature)
        outputs = () if self.recipe.outputs is DType.f32 else graph.outputs[: _plain_counts(signature)[1]]
        floats = {i: a for i, a in enumerate(outputs) if isinstance(a, Var) and is_float(a)}
        return {i: var for i, var in enumerate(graph.inputs) if var in given}, floats

    def slots(self, signature: Signature) -> EndSlots:
        """The parameters of inputs and outputs that are to be integers, where they have a range."""
        return EndSlots(*map(self._slots, self._integer_ends(signature)))

    def _slots(self, ends: Mapping[int, Var]) -> Mapping[int, IntegerSlot]:
        rule = self._of_ends
        slots = {}
        for i, var in ends.items():
            if self.ranges is not None and self.ranges.has(Observed(var)):
                low, high = self._range(Observed(var), rule.range_algorithm, rule.activation_bits)
                slots[i] = IntegerSlot(
                    rule.activations, parameters(low, high, rule.activations, symmetric=rule.symmetric)
                )
        return slots

    def _graph(self, graph: Graph, boundary: Boundary, quantized_inputs: frozenset[Var]) -> Graph:
        forms, choice = self._chosen(graph, boundary, quantized_inputs)
        self.forms.update(forms)
        return Insertion(graph, forms, choice, self.weights, self._body, boundary).run()

    def _chosen(
        self, graph: Graph, boundary: Boundary, quantized_inputs: frozenset[Var]
    ) -> tuple[dict[Eqn, EqnForm], Choice | None]:
        """The forms of the equations, and the parameters of what computes in integers."""
        refused: dict[Eqn, str] = {}

        def why_not(eqn: Eqn) -> str | None:
            return refused.get(eqn) or self._why_float(eqn) or self._why_no_range(eqn)

        while True:
            forms = forms_of(graph, self.recipe, self.target, quantized_inputs, why_not)
            forms = in_trained_bits(graph, forms, self.target)
            integers = [e for e, f in forms.items() if f.kind == "integer"]
            if not integers:
                return forms, None
            choice = Choice(graph, forms, self._range)
            reasons = {eqn: reason for eqn in integers if (reason := choice.why_not(eqn)) is not None}
            if not reasons and not self.recipe.int8_only:
                reasons = dict(parts_left_float(graph, forms, boundary, choice.seen))
            if not reasons:
                self.warnings.extend(unlike_parts(graph, forms, choice.seen))
                return forms, choice
            refused |= reasons

    def _body(self, body: Graph) -> Graph:
        """A body of an equation; what it takes and gives stays float, as all bodies of the equation agree on it."""
        if id(body) not in self._bodies:
            self._bodies[id(body)] = body, self._graph(body, Boundary(), frozenset())
        return self._bodies[id(body)][1]

    def _why_float(self, eqn: Eqn) -> str | None:
        return self.in_floats.get(eqn)

    def _why_no_range(self, eqn: Eqn) -> str | None:
        """Why there are no ranges for an equation; None where there are."""
        if self.ranges is None:
            return None
        read = [a for i in operands_of(eqn).activations if isinstance(a := eqn.inputs[i], Var)]
        values = map(Observed, (*read, *filter(is_float, eqn.outputs)))
        return next(filter(None, map(self.ranges.why_not, values)), None)

    def _range(self, what: Observed, algorithm: str, bits: int) -> tuple[float, float]:
        assert self.ranges is not None, "a recipe of integers is calibrated"
        return self.ranges.range(what, algorithm, bits)


def _rounded_apart(eqns: Sequence[Eqn]) -> list[str]:
    """The note on weights that are not rounded in turn, as their rules want; none without any."""
    named = [f"{eqn.op.name} at {eqn.source or 'no node'}" for eqn in eqns[:_SHOWN_IN_NOTE]]
    named += [f"{len(eqns) - _SHOWN_IN_NOTE} more"] if len(eqns) > _SHOWN_IN_NOTE else []
    how = 'each rounded by itself, not by "gptq", which knows products of rows with up to 4,608 terms'
    return [f"the weights of {len(eqns)} operators are {how}: {', '.join(named)}"] if named else []


def _with_integer_ends(signature: Signature, recipe: Recipe, ctx: Context, slots: EndSlots) -> Signature:
    graph = with_integer_ends(signature.graph, recipe, ctx.target, _plain_counts(signature)[1], slots)
    return replace(signature, graph=graph)


def _plain_counts(signature: Signature) -> tuple[int, int]:
    """How many inputs and outputs are no states."""
    states = len(signature.exposed)
    return len(signature.input_names) - states, len(signature.output_names) - states


def _lines(forms: Mapping[Eqn, EqnForm]) -> Iterator[QuantizedOps]:
    """The report: how many operators of each kind have which form, and why."""
    counts: Counter[tuple[str, str, str]] = Counter()
    first: dict[tuple[str, str, str], str] = {}
    for eqn, form in forms.items():
        if form.kind == "float" and not form.reason:
            continue
        key = (eqn.op.name, _text(form), form.reason)
        counts[key] += 1
        first.setdefault(key, str(eqn.source))
    for (op, text, reason), count in counts.items():
        yield QuantizedOps(op, text, count, first[op, text, reason], reason)


def _text(form: EqnForm) -> str:
    rule = form.rule
    if form.kind == "float":
        return "float"
    if form.kind == "halves":
        return "f16 constants"
    return f"{rule.weights.value} weights" if form.kind == "weights" else f"{rule.activations.value} activations"


def _refuse_floats(forms: Mapping[Eqn, EqnForm]) -> None:
    """Raise LowerError, which names all of them, where operators compute with floats."""
    floats = [(eqn, form) for eqn, form in forms.items() if form.kind == "float" and form.reason]
    if not floats:
        return
    lines = [f"{eqn.op.name} at {eqn.source or 'no node'}: {form.reason}" for eqn, form in floats[:_SHOWN]]
    lines += [f"and {len(floats) - _SHOWN} more"] if len(floats) > _SHOWN else []
    raise LowerError(
        f"{len(floats)} operators have no kernel of integers",
        found="\n            ".join(lines),
        remedy="int8_only=False, which leaves them float between DEQUANTIZE and QUANTIZE; or change the source",
    )


# FAKE_QUANT of narrow ranges, which the runtime's kernel refuses, in other operators.


def without_narrow_ranges(graph: Graph) -> Graph:
    """The graph with arithmetic instead, in bodies too.

    Only once it is clear that no integer tensor takes the range: `quantize` runs it.
    """

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        return [in_arithmetic(eqn.inputs[0], **eqn.params)] if eqn.params.get("narrow_range") else None

    return rewrite(with_bodies(graph, without_narrow_ranges), visit)
