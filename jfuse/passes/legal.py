"""The gate before the file: whatever TFLite's builtins cannot say is reported, all of it in one message."""

from __future__ import annotations

from collections.abc import Iterable

from jfuse.errors import LowerError
from jfuse.export.schema import BUILTIN_CODES
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.walk import all_eqns


def legal(graphs: Iterable[Graph]) -> None:
    """Raise LowerError for all equations whose op is no TFLite builtin, with counts and the first node of each."""
    found: dict[str, list[Eqn]] = {}
    for graph in graphs:
        for eqn in all_eqns(graph):
            if getattr(eqn.op, "builtin", None) not in BUILTIN_CODES:
                found.setdefault(eqn.op.name, []).append(eqn)
    if found:
        raise LowerError(
            f"{len(found)} {'op has' if len(found) == 1 else 'ops have'} no TFLite spelling",
            expected="TFLite builtin ops only",
            found="\n            ".join(_line(name, found[name]) for name in sorted(found)),
            remedy="register a rule for each with @jfuse.lowers, or keep these ops out of the function",
        )


def _line(name: str, eqns: list[Eqn]) -> str:
    reason = getattr(eqns[0].op, "reason", "")
    place = str(eqns[0].source) or "a node without a name"
    return f"{name} ({len(eqns)}x, first at {place})" + (f": {reason.splitlines()[0]}" if reason else "")
