"""The registry of `@instead_of` spellings, by the builtin that each replaces."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Set
from typing import Any, TypeAlias

from jfuse.ir.graph import Const, Eqn

Spelling: TypeAlias = Callable[[Eqn], Sequence[Any] | None]
"""The results of an equation in other ops, recorded in the active trace; None where it does not apply."""

_SPELLINGS: dict[str, list[Spelling]] = {}


def instead_of(*builtins: str) -> Callable[[Spelling], Spelling]:
    """Declare the decorated function as a spelling of these builtins, to be tried after those declared before it."""

    def declare(spelling: Spelling) -> Spelling:
        for builtin in builtins:
            _SPELLINGS.setdefault(builtin, []).append(spelling)
        return spelling

    return declare


def spellings_of(builtin: str | None) -> Sequence[Spelling]:
    """The spellings of a builtin in the order of trial."""
    return _SPELLINGS.get(builtin or "", ())


def registered() -> Set[str]:
    """The builtins that have spellings."""
    return _SPELLINGS.keys()


def operands(eqn: Eqn) -> list[Any]:
    """The operands of an equation as ops take them."""
    return [a.array if isinstance(a, Const) else a for a in eqn.inputs]
