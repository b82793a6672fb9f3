"""The gate before the file: whatever TFLite's builtins cannot say is reported, all of it in one message."""

from __future__ import annotations

from collections import Counter

from jfuse.errors import LowerError
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.walk import all_eqns
from jfuse.passes.context import Context


def legal(graph: Graph, ctx: Context) -> Graph:
    """Raise LowerError naming every op without a builtin, with counts and the first node of each; else no change."""
    first: dict[str, Eqn] = {}
    counts: Counter[str] = Counter()
    for eqn in all_eqns(graph):
        if getattr(eqn.op, "builtin", None) is None:
            counts[eqn.op.name] += 1
            first.setdefault(eqn.op.name, eqn)
    if not first:
        return graph
    lines = [_line(name, counts[name], first[name]) for name in sorted(first)]
    raise LowerError(
        f"{len(first)} kind(s) of op have no TFLite spelling",
        expected="builtin ops only",
        found="; ".join(lines),
        remedy="write a rule with @jfuse.lowers, or compute this part outside of the model",
    )


def _line(name: str, count: int, eqn: Eqn) -> str:
    reason = getattr(eqn.op, "reason", "")
    return f"{name} ({count}x, first at {eqn.source})" + (f": {reason.splitlines()[0]}" if reason else "")
