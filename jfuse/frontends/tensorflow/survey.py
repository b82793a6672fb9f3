"""Survey all ops without a rule, so that the error at the first one can list the others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from jfuse.base.errors import LowerError
from jfuse.frontends.tensorflow.graph import HANDLERS
from jfuse.frontends.tensorflow.order import Scope, in_order
from jfuse.lowering.rules import LowerRule
from jfuse.tf_nodes.attributes import Library, called_functions, split_reference


def with_missing_ops(
    error: LowerError, nodes: Sequence[Any], references: Sequence[str], library: Library, rules: Mapping[str, LowerRule]
) -> LowerError:
    """The error, extended by the other ops without a rule that the references may need."""
    missing: dict[str, list[str]] = {}
    for op, where in _ops(nodes, references, library, "", set()):
        if op not in rules and op not in HANDLERS and op != "Identity" and op not in library.functions:
            missing.setdefault(op, []).append(where)
    lines = [
        f"tf.{op} ({len(places)}x, first at {places[0]})"
        for op, places in sorted(missing.items())
        if not error.message.startswith(f"{op} ")
    ]
    if lines:
        known = [str(error.found)] if error.found is not None else []
        error.found = "\n            ".join([*known, "besides, without a rule:", *(f"  {line}" for line in lines)])
    return error


def _ops(
    nodes: Sequence[Any], references: Sequence[str], library: Library, path: str, walked: set[str]
) -> Iterator[tuple[str, str]]:
    """The ops of the nodes that the references need, and of the functions that these call, each function once.

    Without those of annotated functions, which may be fused.
    """
    roots = [split_reference(r)[0] for r in references]
    scope = Scope({n.name: n for n in nodes}, {}, dict.fromkeys(_outside(nodes, roots)))
    for name in in_order(scope, roots):
        node = scope.nodes[name]
        yield node.op, path + name
        for called in (*called_functions(node), node.op):
            function = library.functions.get(called)
            if function is None or called in walked or "_implements" in function.attr:
                continue
            walked.add(called)
            inner = [function.ret[o.name] for o in function.signature.output_arg]
            yield from _ops(function.node_def, inner, library, f"{path}{name}/", walked)


def _outside(nodes: Sequence[Any], roots: Sequence[str]) -> set[str]:
    """Names that nodes and results read but no node has: the function's arguments."""
    names = {n.name for n in nodes}
    return {*roots, *(split_reference(i.removeprefix("^"))[0] for n in nodes for i in n.input)} - names
