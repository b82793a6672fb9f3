"""The gate before the file: whatever TFLite's builtins cannot say is reported, all of it in one message."""

from __future__ import annotations

from collections.abc import Iterable

from jfuse.errors import LowerError
from jfuse.export.dtypes import unsupported
from jfuse.export.schema import BUILTIN_CODES
from jfuse.ir.graph import Eqn, Graph
from jfuse.ir.walk import all_eqns

_NO_RULE = "register a rule for each with @jfuse.lowers, or keep these ops out of the function"
_NO_KERNEL = "cast to one of the types that the kernel takes, in the source"


def builtins_only(graphs: Iterable[Graph]) -> None:
    """Raise LowerError for all equations whose op is no TFLite builtin, with counts and the first node of each."""
    _refuse([e for graph in graphs for e in all_eqns(graph) if not _is_builtin(e)])


def legal(graphs: Iterable[Graph]) -> None:
    """As `builtins_only`, and for all equations on types that the runtime's kernels do not take."""
    eqns = [e for graph in graphs for e in all_eqns(graph)]
    _refuse([e for e in eqns if not _is_builtin(e) or unsupported(e) is not None])


def _is_builtin(eqn: Eqn) -> bool:
    return getattr(eqn.op, "builtin", None) in BUILTIN_CODES


def _refuse(eqns: Iterable[Eqn]) -> None:
    found: dict[str, list[Eqn]] = {}
    for eqn in eqns:
        found.setdefault(eqn.op.name, []).append(eqn)
    if not found:
        return
    remedies = {_NO_KERNEL if _is_builtin(eqn) else _NO_RULE: None for group in found.values() for eqn in group}
    raise LowerError(
        f"{len(found)} {'op has' if len(found) == 1 else 'ops have'} no TFLite spelling",
        expected="TFLite builtin ops only",
        found="\n            ".join(_line(name, found[name]) for name in sorted(found)),
        remedy="; ".join(remedies),
    )


def _line(name: str, eqns: list[Eqn]) -> str:
    first = eqns[0]
    reason = unsupported(first) if _is_builtin(first) else getattr(first.op, "reason", "")
    place = str(first.source) or "a node without a name"
    return f"{name} ({len(eqns)}x, first at {place})" + (f": {reason.splitlines()[0]}" if reason else "")
