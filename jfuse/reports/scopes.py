"""Groups operations by the scopes of the user's model that their sources share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from jfuse.ir.graph import Source

Scope = tuple[str, ...]
_DEEPEST = 8  # blocks in blocks; what lies deeper stands in the last one


@dataclass
class ScopeRun:
    """Operations `start` up to `stop`. name: of the scope, with `inner` runs; "" for operations that need no block."""

    start: int
    stop: int
    name: str = ""
    inner: list[ScopeRun] = field(default_factory=list)


def scope_of(source: Source) -> Scope:
    """The functions and layers around a node, outermost first."""
    path = "/".join((*source.stack, source.node)).split("/")
    return tuple(part for part in path[:-1] if part)


def runs(scopes: Sequence[Scope], outside: Scope = ()) -> list[ScopeRun]:
    """The operations in order as runs, nested by scope.

    A scope that holds a single operation, or all of them, makes no block; one that holds just one other scope is told
    together with it (`encoder/block1`). outside: a scope around them all, which is not told again.
    """
    common = _common(scopes, 0, len(scopes), 0)
    shared = len(outside) if all(scope[: len(outside)] == outside for scope in scopes) else 0
    return _split(scopes, 0, len(scopes), max(common, shared), _DEEPEST)


def _split(scopes: Sequence[Scope], start: int, stop: int, level: int, deepest: int) -> list[ScopeRun]:
    blocks: list[ScopeRun] = []
    while start < stop:
        here = _part(scopes[start], level)
        end = start + 1
        while end < stop and _part(scopes[end], level) == here:
            end += 1
        if here is None or end - start == 1 or not deepest:
            _append_plain(blocks, start, end)
        else:
            below = _common(scopes, start, end, level)
            name = "/".join(scopes[start][level:below])
            blocks.append(ScopeRun(start, end, name, _split(scopes, start, end, below, deepest - 1)))
        start = end
    return blocks


def _append_plain(found: list[ScopeRun], start: int, stop: int) -> None:
    if found and not found[-1].name:
        found[-1].stop = stop
    else:
        found.append(ScopeRun(start, stop))


def _common(scopes: Sequence[Scope], start: int, stop: int, level: int) -> int:
    """The first level at which the scopes part."""
    shortest = min((len(scope) for scope in scopes[start:stop]), default=0)
    while level < shortest and all(scope[level] == scopes[start][level] for scope in scopes[start:stop]):
        level += 1
    return level


def _part(scope: Scope, level: int) -> str | None:
    return scope[level] if level < len(scope) else None
