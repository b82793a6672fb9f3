"""Rules that other installed packages bring: entry points of the group `jfuse.rules`, modules that define rules."""

from __future__ import annotations

from importlib.metadata import EntryPoint, entry_points
from types import ModuleType

from jfuse.errors import RuleError
from jfuse.lowering.rules import Rule

GROUP = "jfuse.rules"


def rules_in(module: ModuleType) -> tuple[Rule, ...]:
    """The rules that a module's names stand for, each once."""
    found = (value for value in vars(module).values() if isinstance(value, Rule))
    return tuple({id(rule): rule for rule in found}.values())


def installed_rules() -> tuple[Rule, ...]:
    """The rules of all installed packages that have an entry point `jfuse.rules`, for `rules=` of `jfuse.convert`.

    Packages are taken in the order of the entry points' names. Raises RuleError for an entry point that cannot be
    imported or names no module with rules, and for two packages with rules of one name.
    """
    found = sorted(entry_points(group=GROUP), key=lambda entry: entry.name)
    rules = [(rule, entry) for entry in found for rule in _rules_of(entry)]
    owners: dict[tuple[type, str], EntryPoint] = {}
    for rule, entry in rules:
        for name in rule.names:
            first = owners.setdefault((type(rule), name), entry)
            if first is not entry:
                raise RuleError(
                    f"two packages have a rule for {name!r}",
                    found=f"{_package(first)} and {_package(entry)}",
                    remedy="pip uninstall one of them",
                )
    return tuple(rule for rule, _ in rules)


def _rules_of(entry: EntryPoint) -> tuple[Rule, ...]:
    try:
        module = entry.load()
    except Exception as error:
        raise RuleError(
            f"the rules of the package {_package(entry)} cannot be imported",
            found=f"{type(error).__name__}: {error}",
            remedy=f"pip uninstall {_package(entry)}, or a newer version of it",
        ) from error
    rules = rules_in(module) if isinstance(module, ModuleType) else ()
    if not rules:
        raise RuleError(
            f"the entry point {entry.name} of the package {_package(entry)} names no rules",
            expected="a module with functions under @jfuse.fuses, @jfuse.lowers, @jfuse.lowers_jax or @jfuse.recovers",
            found=entry.value,
        )
    return rules


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.name
