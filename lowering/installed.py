"""Rules that other installed packages bring: entry points of the group `jfuse.rules`, modules that define rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint, entry_points
from types import ModuleType, UnionType
from typing import TypeVar

from jfuse.base.errors import RuleError
from jfuse.lowering.rules import Rule

GROUP = "jfuse.rules"


T = TypeVar("T")


def rules_in(module: ModuleType) -> tuple[Rule, ...]:
    """The rules that a module names, each once."""
    return found_in(module, Rule)


def found_in(module: ModuleType, kind: type[T] | UnionType) -> tuple[T, ...]:
    """The values of a kind that a module names, each once."""
    values = (value for value in vars(module).values() if isinstance(value, kind))
    return tuple({id(value): value for value in values}.values())


def installed_rules() -> tuple[Rule, ...]:
    """The rules of all installed packages that have an entry point `jfuse.rules`, for `rules=` of `jfuse.convert`.

    Packages are taken in the order of the entry points' names. Raises RuleError for an entry point that cannot be
    imported or names no module with rules, and for two packages with rules of one name.
    """
    decorators = "@jfuse.fuses, @jfuse.lowers, @jfuse.lowers_jax or @jfuse.recovers"
    return installed(GROUP, Rule, "rule", decorators, lambda rule: [(type(rule), name) for name in rule.names])


def installed(
    group: str, kind: type[T] | UnionType, word: str, decorators: str, keys: Callable[[T], Iterable[tuple[object, str]]]
) -> tuple[T, ...]:
    """Collect the definitions of one kind from the modules of a group of entry points. Packages may not share a key.

    word: the name of the kind in messages; decorators: the decorators that make one.
    """
    entries = sorted(entry_points(group=group), key=lambda entry: entry.name)
    defined: list[tuple[T, EntryPoint]] = [(each, e) for e in entries for each in _defined(e, kind, word, decorators)]
    owners: dict[tuple[object, str], EntryPoint] = {}
    for each, entry in defined:
        for key in keys(each):
            first = owners.setdefault(key, entry)
            if first is not entry:
                raise RuleError(
                    f"two packages have a {word} for {key[1]!r}",
                    found=f"{_package(first)} and {_package(entry)}",
                    remedy="pip uninstall one of them",
                )
    return tuple(each for each, _ in defined)


def _defined(entry: EntryPoint, kind: type[T] | UnionType, word: str, decorators: str) -> tuple[T, ...]:
    plural = f"{word}es" if word.endswith("s") else f"{word}s"
    try:
        module = entry.load()
    except Exception as error:
        raise RuleError(
            f"the {plural} of the package {_package(entry)} cannot be imported",
            found=f"{type(error).__name__}: {error}",
            remedy=f"pip uninstall {_package(entry)}, or a newer version of it",
        ) from error
    defined: tuple[T, ...] = found_in(module, kind) if isinstance(module, ModuleType) else ()
    if not defined:
        raise RuleError(
            f"the entry point {entry.name} of the package {_package(entry)} names no {plural}",
            expected=f"a module with functions under {decorators}",
            found=entry.value,
        )
    return defined


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.name
