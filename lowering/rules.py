"""Rules and where they are kept: `lowers` for ops, `fuses` for composites, `recovers` for loops, `need` to refuse."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from jfuse.base.errors import NotFused, RuleError, shown
from jfuse.base.users_code import is_ours, users_code
from jfuse.kernels.core.parameters import Parameters


@dataclass(frozen=True)
class LowerRule:
    """Spells a TensorFlow op in TFLite ops. Calling it calls the function.

    The function takes the node's operands by position (`*operands` where their number varies), each a Var or a Const,
    and the node's attributes that it names as keyword-only parameters. It returns one value, or a tuple of them: Vars,
    Consts or arrays. On plain arrays it computes. A keyword-only parameter whose annotation is a dataclass takes all
    attributes that are fields of it: rules of a family share one.
    """

    names: tuple[str, ...]
    function: Callable[..., Any]

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        if self.is_ours:
            return self._spelled.call(operands, attributes)
        with users_code():
            results = self._spelled.call(operands, attributes)
        if any(r is None for r in (results if isinstance(results, tuple | list) else (results,))):
            raise RuleError(f"the rule {_place(self.function)} gives no result", found=shown(results))
        return results

    @cached_property
    def _spelled(self) -> Parameters:
        return Parameters.of(self.function)

    @cached_property
    def is_ours(self) -> bool:
        """Whether the rule comes with jfuse; others are the user's code, whose exceptions are the user's."""
        return is_ours(self.function)

    @cached_property
    def attributes(self) -> Mapping[str, inspect.Parameter]:
        """The node attributes that the rule reads, by name."""
        return self._spelled.keywords


@dataclass(frozen=True)
class JaxRule(LowerRule):
    """Spells a primitive of jax in TFLite ops: the operands by position, the parameters that it names as keywords."""


@dataclass(frozen=True)
class TorchRule(LowerRule):
    """Spells an operator of PyTorch in TFLite ops: arguments as its schema has them, by position and by keyword.

    Tensors are Vars or arrays, sizes ints or dimensions, dtypes DTypes.
    """


@dataclass(frozen=True)
class FuseRule:
    """Spells a composite in fused TFLite ops. Calling it calls the function.

    Positional parameters bind to the composite's operands by name (by position where no name matches), keyword-only
    ones to the Python value of a constant operand or to an attribute of the annotation. A parameter whose annotation is
    a dataclass stands for the fields of it.
    `claims`: the families of case distinction (`switch` of an op) in the body that this rule accounts for.
    `trust`: whether the rule's word is enough where the body, or what the rule makes, cannot be run for a proof.
    `makes`: the builtins that it is there for, one of which each fusion holds; `jfuse ops` lists them.
    """

    names: tuple[str, ...]
    function: Callable[..., Any]
    claims: frozenset[str] = frozenset()
    trust: bool = False
    makes: tuple[str, ...] = ()

    def __call__(self, *operands: Any, **attributes: Any) -> Any:
        return self._spelled.call(operands, attributes)

    @cached_property
    def _spelled(self) -> Parameters:
        return Parameters.of(self.function)

    @property
    def name(self) -> str:
        """The function's name, as reports print it."""
        return self.function.__name__

    @property
    def operands(self) -> tuple[inspect.Parameter, ...]:
        """The positional parameters, which bind to the composite's operands."""
        return self._spelled.positional

    @property
    def attributes(self) -> Mapping[str, inspect.Parameter]:
        """The keyword-only parameters by name, which bind to constants and attributes of the composite."""
        return self._spelled.keywords


@dataclass(frozen=True)
class Proposal:
    """The reading of a loop by a recover rule: the role of each operand, the weights and the attributes.

    operands: name in the composite -> position among the scan's operands. constants: arrays derived from the body, by
    name; f64 where f32 would round them. attributes: keyword arguments for the fusion rule. It is a proposal: `fuse`
    compares it with the loop.
    """

    operands: Mapping[str, int]
    constants: Mapping[str, np.ndarray] = field(default_factory=dict)
    attributes: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class RecoverRule:
    """Reads a loop that nobody marked as the composite `name`. Calling it calls the function.

    The function takes a `Step` (lowering/recover/cells/step.py) and returns a Proposal, or refuses with `need`.
    before: the composite whose rule reads the same loops as a more general case, and is asked after this one.
    """

    names: tuple[str, ...]
    function: Callable[[Any], Proposal]
    before: str = ""

    def __call__(self, step: Any) -> Proposal:
        if is_ours(self.function):
            return self.function(step)
        with users_code():
            proposal = self.function(step)
        if not isinstance(proposal, Proposal):
            raise RuleError(
                f"the rule {_place(self.function)} gives no proposal",
                expected="a jfuse.Proposal, or a refusal by jfuse.need",
                found=shown(proposal),
            )
        return proposal

    @property
    def name(self) -> str:
        """The function's name, as reports print it."""
        return self.function.__name__


Rule = LowerRule | FuseRule | RecoverRule


@dataclass
class RuleSet:
    """Rules by the name that they answer to."""

    lowers: dict[str, LowerRule] = field(default_factory=dict)
    lowers_jax: dict[str, JaxRule] = field(default_factory=dict)
    lowers_torch: dict[str, TorchRule] = field(default_factory=dict)
    fuses: dict[str, FuseRule] = field(default_factory=dict)
    recovers: dict[str, RecoverRule] = field(default_factory=dict)

    def add(self, rule: Rule, *, override: bool = False) -> None:
        """Register a rule; raises RuleError where a name is taken and `override` is not given."""
        table: dict[str, Any] = self._table(rule)
        for name in rule.names:
            if name in table and not override:
                raise RuleError(
                    f"two rules for {name!r}",
                    expected=f"one; the first is {_place(table[name].function)}",
                    found=_place(rule.function),
                    remedy="override=True where the new rule is meant to replace the first",
                )
            table[name] = rule

    def readers(self) -> list[tuple[str, RecoverRule]]:
        """Recover rules by name, in the order in which they are asked: the user's, then ours; special cases first."""
        names = sorted(self.recovers, key=lambda name: name.startswith("jfuse."))

        def behind_special_cases(*path: str) -> Iterator[str]:
            for name in names:
                if self.recovers[name].before == path[0] and name not in path:
                    yield from behind_special_cases(name, *path)
            yield path[0]

        order = dict.fromkeys(reader for name in names for reader in behind_special_cases(name))
        return [(name, self.recovers[name]) for name in order]

    def _table(self, rule: Rule) -> dict[str, Any]:
        if isinstance(rule, JaxRule):
            return self.lowers_jax
        if isinstance(rule, TorchRule):
            return self.lowers_torch
        if isinstance(rule, LowerRule):
            return self.lowers
        return self.fuses if isinstance(rule, FuseRule) else self.recovers

    def extended(self, rules: Iterable[Rule]) -> RuleSet:
        """A copy with more rules, which take precedence over those that are there."""
        copy = RuleSet(**{table.name: dict(getattr(self, table.name)) for table in fields(self)})
        fresh = RuleSet()
        for rule in rules:
            if not isinstance(rule, Rule):
                raise RuleError(
                    "rules= takes rules",
                    found=repr(rule),
                    remedy="decorate the function with @jfuse.fuses, @jfuse.lowers or @jfuse.recovers",
                )
            fresh.add(rule)
            copy.add(rule, override=True)
        return copy


DEFAULT = RuleSet()
AnyRule = TypeVar("AnyRule", bound=Rule)


def _added(rule: AnyRule, override: bool, default: bool) -> AnyRule:
    if default:
        DEFAULT.add(rule, override=override)
    return rule


def lowers(*names: str, override: bool = False, default: bool = True) -> Callable[[Callable[..., Any]], LowerRule]:
    """Register the decorated function as the rule for TensorFlow ops of these names.

    default: False keeps it out of the default rules, for use through `rules=[…]`.
    """
    return lambda function: _added(LowerRule(names, function), override, default)


def lowers_jax(*names: str, override: bool = False, default: bool = True) -> Callable[[Callable[..., Any]], JaxRule]:
    """Register the decorated function as the rule for primitives of jax of these names.

    default: False keeps it out of the default rules, for use through `rules=[…]`.
    """
    return lambda function: _added(JaxRule(names, function), override, default)


def lowers_torch(
    *names: str, override: bool = False, default: bool = True
) -> Callable[[Callable[..., Any]], TorchRule]:
    """Register the decorated function as the rule for operators of PyTorch: "aten.add", one form "aten.add.Tensor".

    default: False keeps it out of the default rules, for use through `rules=[…]`.
    """
    return lambda function: _added(TorchRule(names, function), override, default)


def fuses(
    *names: str,
    claims: Iterable[str] = (),
    trust: bool = False,
    makes: Iterable[str] = (),
    override: bool = False,
    default: bool = True,
) -> Callable[[Callable[..., Any]], FuseRule]:
    """Register the decorated function as the fusion of composites of these names.

    claims: families of case distinction in the body that the fused ops make as well.
    trust: take the rule's word where no proof can be run: the body holds ops without a rule or results that data sizes,
        or the replacement holds a custom operator. The report then says "not tested"; other bodies are tested as ever.
    makes: names of the builtins that the rule is there for, which `jfuse ops` lists.
    default: False keeps it out of the default rules, for use through `rules=[…]`.
    """
    return lambda function: _added(FuseRule(names, function, frozenset(claims), trust, tuple(makes)), override, default)


def recovers(
    name: str, *, before: str = "", override: bool = False, default: bool = True
) -> Callable[[Callable[[Any], Proposal]], RecoverRule]:
    """Register the decorated function as the reader of loops as the composite `name`, which a fusion rule then takes.

    It is called with the Step of each loop (lowering/recover/cells/step.py); it returns a Proposal, or refuses with
    `need`. The first rule that reads a loop takes it.
    before: the name of a rule that reads the same loops as a more general case: this one is asked before it.
    default: False keeps it out of the default rules, for use through `rules=[…]`.
    """
    return lambda function: _added(RecoverRule((name,), function, before), override, default)


def need(holds: object, condition: str, *, want: object = None, got: object = None, near: int = 0) -> None:
    """Refuse the fusion under a snake_case name unless `holds`. The composite then keeps its body.

    near: how far a reading got; of several rules that refuse a loop the nearest is reported.
    """
    if not holds:
        raise NotFused(condition, want=want, got=got, near=near)


def _place(function: Callable[..., Any]) -> str:
    name = getattr(function, "__qualname__", type(function).__name__)
    return f"{function.__module__}.{name}"
