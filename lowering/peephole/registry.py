"""The registry of peephole rules. A rule is a pattern, conditions and a replacement."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any, TypeAlias, TypeVar

from jfuse.base.errors import NotFused, RuleError
from jfuse.ir.graph import Atom, Eqn, Op, Var
from jfuse.ir.trace import recording
from jfuse.kernels.core.op import TflOp
from jfuse.lowering.peephole.pattern import Made, traced
from jfuse.lowering.peephole.view import GraphView
from jfuse.lowering.rule_tools.query import keeps_type
from jfuse.lowering.rules import need

T = TypeVar("T")

PeepholeRule: TypeAlias = Callable[[Eqn, GraphView], Any]
"""Called with the last equation of what is replaced. Returns its result (a tuple where it has several), spelled in ops
and of the same type, or None where the rule does not apply."""


@dataclass(frozen=True)
class Match:
    """Where a pattern was found.   eqn: the last equation, which is replaced"""

    eqn: Eqn
    view: GraphView

    @property
    def result(self) -> Var:
        """The Var that is replaced."""
        return self.eqn.outputs[0]

    def keeps_type(self, x: Atom) -> bool:
        """Whether x surely has the dimensions of the result."""
        return keeps_type(x.type, self.result.type)


@dataclass(frozen=True)
class PatternRule:
    """A rule of patterns: each way in which one of them matches is tried, until the function accepts one.

    patterns: by the op of their last equation. function: is called with the Match and, for its other parameters, with
        what the patterns bind to these names; it refuses with `need`, else it returns the replacement.
    """

    ops: tuple[TflOp, ...]
    patterns: Mapping[Op, Sequence[Made]]
    function: Callable[..., Any]
    names: tuple[str, ...]

    def __call__(self, eqn: Eqn, view: GraphView, refused: list[str] | None = None) -> Any:
        """The replacement of an equation, None for none.   refused: is given the conditions that do not hold"""
        for pattern in self.patterns[eqn.op]:
            bound: dict[str, Any] = {}
            if not pattern.fits(eqn, view, bound):
                continue
            try:
                return self.function(Match(eqn, view), **{name: bound[name] for name in self.names if name in bound})
            except NotFused as refusal:
                if refused is not None:
                    refused.append(refusal.condition)
        return None


@dataclass(frozen=True)
class WalkRule:
    """A rule that walks the graph by hand, where no pattern says what it looks for."""

    ops: tuple[TflOp, ...]
    function: PeepholeRule

    def __call__(self, eqn: Eqn, view: GraphView, refused: list[str] | None = None) -> Any:
        """The replacement of an equation, None for none.   refused: is given the conditions that do not hold"""
        try:
            return self.function(eqn, view)
        except NotFused as refusal:
            if refused is not None:
                refused.append(refusal.condition)
            return None


Rule: TypeAlias = PatternRule | WalkRule
_RULES: list[Rule] = []


def peephole(*patterns: Callable[..., Any]) -> Callable[[Callable[..., Any]], PatternRule]:
    """Register the decorated function as the replacement of what these pattern functions say (pattern.py).

    It must leave fewer or simpler equations. Parameters that not every pattern binds have a default.
    """

    def register(function: Callable[..., Any]) -> PatternRule:
        _RULES.append(rule := pattern_rule(function, patterns))
        return rule

    return register


def pattern_rule(function: Callable[..., Any], patterns: Sequence[Callable[..., Any]]) -> PatternRule:
    """The rule of a function and its patterns; raises RuleError where one does not bind what the function takes."""
    by_op: dict[Any, list[Made]] = {}
    for spelled in patterns:
        try:
            made = traced(spelled)
        except TypeError as error:  # a function of jax or TensorFlow, which takes arrays
            raise RuleError(
                f"a pattern of {function.__name__} is spelled in functions of jfuse.ops, and jfuse.pattern",
                found=str(error).partition("\n")[0],
            ) from error
        _check_names(function, made[0].names())
        for order in made:
            for op in order.ops:
                by_op.setdefault(op, []).append(order)
    names = tuple(inspect.signature(function).parameters)[1:]
    return PatternRule(tuple(by_op), by_op, function, names)


def peephole_walk(*ops: TflOp) -> Callable[[PeepholeRule], WalkRule]:
    """Register the decorated function for equations of these ops, where no pattern says what it looks for.

    It returns None where it finds nothing, and refuses with `need` what it has found.
    """

    def register(function: PeepholeRule) -> WalkRule:
        _RULES.append(rule := WalkRule(ops, function))
        return rule

    return register


def given(value: T | None, condition: str) -> T:
    """The value; a refusal of this name where there is none."""
    need(value is not None, condition)
    assert value is not None
    return value


def rules_of(modules: Sequence[ModuleType]) -> Mapping[Op, tuple[Rule, ...]]:
    """The rules by the op of the last equation, in the order of their modules, then as they stand in them."""
    place = {module.__name__: i for i, module in enumerate(modules)}
    table: dict[Op, tuple[Rule, ...]] = {}
    for rule in sorted(_RULES, key=lambda rule: place[rule.function.__module__]):
        for op in rule.ops:
            table[op] = (*table.get(op, ()), rule)
    return table


def rule_name(rule: PeepholeRule) -> str:
    """The name of a rule's function."""
    return str(getattr(rule.function if isinstance(rule, PatternRule | WalkRule) else rule, "__name__", rule))


def why_not(eqn: Eqn, view: GraphView, rules: Mapping[Op, Sequence[Rule]]) -> dict[str, list[str]]:
    """By rule, the names of the conditions for which it refuses an equation whose pattern it finds."""
    refusals = {}
    for rule in rules.get(eqn.op, ()):
        refused: list[str] = []
        with recording(nested=True):
            rule(eqn, view, refused)
        if refused:
            refusals[rule.function.__name__] = refused
    return refusals


def _check_names(function: Callable[..., Any], bound: Collection[str]) -> None:
    """Raise RuleError where a pattern does not bind a parameter that has no default."""
    _, *parameters = inspect.signature(function).parameters.values()
    missing = [p.name for p in parameters if p.default is p.empty and p.name not in bound]
    if missing:
        raise RuleError(f"a pattern of {function.__name__} does not bind {missing}", found=sorted(bound))
