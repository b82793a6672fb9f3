"""The nodes of one graph, and the order in which they are walked."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from jfuse.base.errors import ImportFailed
from jfuse.tf_nodes.attributes import data_inputs, split_reference


@dataclass
class Scope:
    """The nodes of one graph or function, the values computed so far, and how references are resolved."""

    nodes: Mapping[str, Any]
    values: dict[str, Sequence[Any]]
    arguments: Mapping[str, Any] = field(default_factory=dict)


def in_order(scope: Scope, roots: Sequence[str], edges: Callable[[Any], Sequence[str]] = data_inputs) -> Iterator[str]:
    """The nodes that `roots` need, operands first; without control edges, which carry no values, unless asked for.

    Without recursion: graphs are deeper than Python's stack.
    """
    opened: set[str] = set()
    pending = [(name, False) for name in reversed(roots)]
    while pending:
        name, operands_done = pending.pop()
        if operands_done:
            yield name
            continue
        if name in opened or name in scope.arguments:
            continue
        if name not in scope.nodes:
            raise ImportFailed(f"the graph refers to the node {name!r}, which it does not have")
        opened.add(name)
        pending.append((name, True))
        needed = [split_reference(i)[0] for i in edges(scope.nodes[name])]
        pending += [(i, False) for i in reversed(needed) if i not in opened]


def in_program_order(scope: Scope, roots: Sequence[str]) -> list[str]:
    """As `in_order`, in an order that control edges allow: they say when variables are read and written."""

    def edges(node: Any) -> list[str]:
        return [name.removeprefix("^") for name in node.input]

    needed = set(in_order(scope, roots))
    return [name for name in in_order(scope, roots, edges) if name in needed]
