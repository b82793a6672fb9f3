"""Users' own passes: `@jfuse.rewrites`, and the checks and comparisons after they ran."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, Literal, TypeAlias, TypeVar, cast

from jfuse.base.errors import JfuseError, NotFused, RuleError, need_choice, shown
from jfuse.base.users_code import as_users, users_code
from jfuse.ir.graph import Eqn, Graph, Op, Program, Var, body_of
from jfuse.ir.trace import active_trace
from jfuse.ir.walk import live_eqns, with_bodies
from jfuse.lowering.peephole.registry import Match, PatternRule, pattern_rule
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rules import need
from jfuse.passes.context import Context
from jfuse.passes.regions import changed_regions
from jfuse.passes.rewrite import Rewriting
from jfuse.passes.simplify.dce import eliminate_dead_code
from jfuse.proof.prove import ROUNDED, Proof, prove
from jfuse.records.conversion import Fusion, Refusal

# `Graph.map`, and passes of patterns: equations replaced by what a function makes of each.


@body_of("Graph.map")
def mapped(graph: Graph, change: Callable[[Eqn], Any]) -> Graph:
    """The graph with each equation kept or replaced, bodies first; the same object where none is replaced."""
    return each_equation(graph, lambda eqn, view: change(eqn))


def each_equation(graph: Graph, change: Callable[[Eqn, GraphView], Any]) -> Graph:
    """As `mapped`, for a function that is also given the graph around the equation."""
    inner = with_bodies(graph, lambda body: each_equation(body, change))
    around = Rewriting(inner)

    def visit(eqn: Eqn) -> Sequence[Any] | None:
        results = change(eqn, around)
        return results if results is None or isinstance(results, tuple) else (results,)

    changed = around.run(visit)
    return changed if changed is inner else eliminate_dead_code(changed)


Of = TypeVar("Of", Graph, Program)
_Place: TypeAlias = Literal["before", "after", "instead"]
_SWEEPS = 100
"""Of one rule over a graph: far more than any needs that leaves something simpler."""
_UNTESTABLE = frozenset({"body_not_executable", "replacement_not_executable", "stateful_body"})


@dataclass(frozen=True)
class PassComparison:
    """How what a pass has changed is compared with what it was; the fields are arguments of `rewrites`."""

    claims: frozenset[str] = frozenset()
    tolerance: float = ROUNDED
    trust: bool = False
    changes: bool = False

    def need_equal(self, before: Graph, after: Graph) -> Proof | None:
        """Raise NotFused where two graphs of the same inputs compute something else; None where none can be told."""
        try:
            return prove(before, after, claims=self.claims, tolerance=self.tolerance, for_all=True)
        except NotFused as refusal:
            if not self.trust or refusal.condition not in _UNTESTABLE:
                raise
            return None


@dataclass(frozen=True)
class Pass:
    """A pass of one's own, as `rewrites` makes it. Calling it calls the function.

    place: "before", "after" or "instead" of the pass `of`. rule: of patterns; None for a pass over whole graphs.
    """

    name: str
    function: Callable[..., Any]
    place: _Place = "after"
    of: str = "simplify"
    on: Literal["graph", "program"] = "graph"
    rule: PatternRule | None = None
    comparison: PassComparison = field(default_factory=PassComparison)

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    @property
    def origin(self) -> str:
        """The module that has the function."""
        return str(getattr(self.function, "__module__", None) or "")

    @property
    def about(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").partition("\n")[0]

    @cached_property
    def _takes_context(self) -> bool:
        try:
            return len(inspect.signature(self.function).parameters) > 1
        except (TypeError, ValueError):  # some functions in C
            return False

    def run(self, of: Of, ctx: Context) -> Of:
        """Run the pass on a graph or program. Only matches of patterns are checked here."""
        if self.rule is not None:
            assert isinstance(of, Graph), "rewrites takes patterns on graphs alone"
            return self._by_rule(of, ctx)
        try:
            with users_code():
                result = self.function(of, ctx) if self._takes_context else self.function(of)
        except JfuseError as error:
            error.where = error.where or f"the pass {self.name!r}"
            raise
        return cast(Of, eliminate_dead_code(result) if isinstance(result, Graph) else result)

    def need_equal(self, before: Program, after: Program) -> None:
        """Compare what the pass has made with what it was given. Raises JfuseError where that computes something else.

        A rule of patterns has compared each match.
        """
        if self.comparison.changes or self.rule is not None:
            return
        old = {s.key: s.graph for s in before.signatures}
        for signature in after.signatures:
            graph, was = signature.graph, old.pop(signature.key, None)
            if was is None or graph.inputs != was.inputs or len(graph.outputs) != len(was.outputs):
                raise JfuseError(
                    f"the pass {self.name!r} gives signature {signature.key!r} other inputs or outputs",
                    remedy="changes=True where it is meant to",
                )
            self._need_equal_graphs(was, graph)

    def _need_equal_graphs(self, before: Graph, after: Graph) -> None:
        """Compare each region that the pass has changed, with all that flows into it as its inputs."""
        try:
            for region in changed_regions(before, after):
                self.comparison.need_equal(*region)
        except NotFused as refusal:
            raise JfuseError(
                f"the pass {self.name!r} changes what graph {before.name} computes, as far as can be told",
                expected="the same results",
                found=f"{refusal.condition}: {refusal.detail}" if refusal.detail else refusal.condition,
                remedy="fix the pass; changes=True if results are meant to differ, trust=True if nothing can be run",
            ) from refusal

    def _by_rule(self, graph: Graph, ctx: Context) -> Graph:
        """The graph with the rule applied until it finds nothing more."""
        assert self.rule is not None, "a pass of patterns"
        rule = PatternRule(self.rule.ops, self.rule.patterns, partial(self._tested, ctx), self.rule.names)
        table: dict[Op, PatternRule] = dict.fromkeys(rule.ops, rule)
        for _ in range(_SWEEPS):
            swept = each_equation(
                graph, lambda eqn, view: table[eqn.op](eqn, view) if eqn.op in table and not eqn.effects else None
            )
            if swept is graph:
                return graph
            graph = swept
        raise JfuseError(
            f"the pass {self.name!r} finds no end in graph {graph.name}",
            expected="a replacement in which the pattern does not stand again",
            remedy="a condition with jfuse.need",
        )

    def _tested(self, ctx: Context, match: Match, **bound: Any) -> Any:
        """Call the function on a match and compare its results with the matched ones; a refusal goes to the report."""
        start = len(active_trace().eqns)
        try:
            results = as_users(self.function)(match, **bound)
            if results is None:
                return None
            trace = active_trace()
            atoms = tuple(map(trace.atom, results if isinstance(results, tuple) else (results,)))
            after = Graph(self.name, (), tuple(trace.eqns[start:]), atoms)
            proof = None
            if not self.comparison.changes:
                proof = self.comparison.need_equal(*_between(match, bound, after))
                stopped = "nothing can be run" if proof is None else proof.verdict.stopped
                needs_proof = ctx.forms.require == "proven"
                need(not (needs_proof and stopped), "only_tested", want="a proof for all inputs", got=stopped)
        except NotFused as refusal:
            refused = Refusal.of(refusal, self.name, self.name, match.eqn.source)
            if refused not in ctx.report.refused:
                ctx.report.refused.append(refused)
            raise
        becomes = tuple(e.op.builtin for e in after.eqns if e.op.builtin is not None)
        why = "it is meant to compute something else" if self.comparison.changes else "nothing can be run"
        fusion = Fusion(self.name, self.name, str(match.eqn.source), becomes, samples=0, error=0.0, unproven=why)
        if proof is not None:
            verdict = proof.verdict
            measured = replace(fusion, samples=proof.samples, error=proof.error, unproven="")
            fusion = replace(measured, stopped=verdict.stopped, conditions=verdict.assumptions)
        ctx.report.fused.append(fusion)
        return results


def _between(match: Match, bound: Mapping[str, Any], after: Graph) -> tuple[Graph, Graph]:
    """Build two graphs over the operands that the pattern binds: the matched equations and their replacement."""
    eqns: list[Eqn] = []
    ends = dict.fromkeys(value for value in bound.values() if isinstance(value, Var))
    waiting, seen = [match.eqn], set[int]()
    while waiting:
        eqn = waiting.pop()
        if id(eqn) in seen:
            continue
        seen.add(id(eqn))
        eqns.append(eqn)
        for atom in eqn.inputs:
            maker = match.view.producer(atom)
            if isinstance(atom, Var) and (maker is None or atom in ends):
                ends[atom] = None
            elif maker is not None:
                waiting.append(maker)
    made = {var for eqn in after.eqns for var in eqn.outputs}
    after_atoms = [a for e in after.eqns for a in e.inputs] + list(after.outputs)
    ends |= dict.fromkeys(a for a in after_atoms if isinstance(a, Var) and a not in made)
    order = {id(eqn): place for place, eqn in enumerate(active_trace().eqns)}
    ranked = sorted(eqns, key=lambda eqn: order.get(id(eqn), len(order)))
    inputs, results = tuple(ends), match.eqn.outputs
    before = Graph(after.name, inputs, tuple(ranked), results)
    return before, Graph(after.name, inputs, live_eqns(after, after.outputs), after.outputs)


_REGISTERED: dict[str, Pass] = {}


def registered_passes() -> tuple[Pass, ...]:
    """The passes that this process applies to every conversion, in the order in which they were registered."""
    return tuple(_REGISTERED.values())


def rewrites(
    *patterns: Callable[..., Any],
    name: str | None = None,
    before: str | None = None,
    after: str | None = None,
    instead: str | None = None,
    on: Literal["graph", "program"] = "graph",
    claims: Iterable[str] = (),
    tolerance: float = ROUNDED,
    trust: bool = False,
    changes: bool = False,
    override: bool = False,
    default: bool = True,
) -> Callable[[Callable[..., Any]], Pass]:
    """Make a pass of the decorated function, and register it for every conversion of this process.

    patterns: functions of ops, which say what the pass looks for; the function is called with each `Match` and what the
        pattern binds, refuses with `jfuse.need`, and returns the replacement. Without patterns it is called with each
        whole graph, or with the program, and returns another.
    name: by default that of the function. before, after, instead: the name of the pass where it stands; by default it
        comes after "simplify". `jfuse passes` lists them.
    claims: families of case distinction that the replacement makes as well, as in `fuses`.
    tolerance: how far results may be apart, in float64, relative to the largest.
    trust: take the function's word where no comparison can be run. changes: the pass is meant to compute something
        else: nothing is compared, and `convert` compares the file with its own graph in place of the source.
    default: False keeps it out of other conversions, for use through `passes=[…]`.
    """
    places: dict[_Place, str | None] = {"before": before, "after": after, "instead": instead}
    places_named = [(place, of) for place, of in places.items() if of is not None]
    need_choice("on", on, ("graph", "program"))
    if len(places_named) > 1:
        raise RuleError(
            "a pass takes one of before=, after= and instead=", found=", ".join(f"{p}={of!r}" for p, of in places_named)
        )
    if patterns and on == "program":
        raise RuleError('patterns need on="graph"', found='on="program"')
    first: tuple[_Place, str] = ("after", "simplify")
    place, of = places_named[0] if places_named else first

    def register(function: Callable[..., Any]) -> Pass:
        rule = pattern_rule(function, patterns) if patterns else None
        comparison = PassComparison(frozenset(claims), tolerance, trust, changes)
        known = name or str(getattr(function, "__name__", type(function).__name__))
        made = Pass(known, function, place, of, on, rule, comparison)
        if default:
            if known in _REGISTERED and not override:
                raise RuleError(
                    f"two passes are named {known!r}",
                    expected=f"one; the first is of {_REGISTERED[known].origin}",
                    remedy="name=, or override=True where the new one is meant to replace the first",
                )
            _REGISTERED[known] = made
        return made

    return register


def passes_of(given: Sequence[object]) -> tuple[Pass, ...]:
    """The passes in an option `passes=`, where a plain function is one over whole graphs."""
    return tuple(p if isinstance(p, Pass) else rewrites(default=False)(_callable(p)) for p in given)


def _callable(candidate: object) -> Callable[..., Any]:
    if not callable(candidate):
        raise JfuseError(
            "passes= takes passes", found=shown(candidate), remedy="functions of graphs, plain or under @jfuse.rewrites"
        )
    return candidate
