"""The gate of strict=True: every function that the source marks has fused."""

from __future__ import annotations

from jfuse.base.errors import LowerError
from jfuse.passes.context import Context
from jfuse.records.conversion import Refusal

_INDENT = "\n            "
_LOOPS = ("scan", "loop")  # what the report calls recurrences that nobody marked


def all_fused(ctx: Context) -> None:
    """Raise LowerError where a marked function did not fuse, with the function, its rule and the reason of each.

    Loops that nobody marked may stay loops, whether they were proposed as a composite or not.
    """
    missed = dict.fromkeys(r for r in ctx.report.refused if r.what not in _LOOPS and r.what not in ctx.rules.recovers)
    if not missed:
        return
    first = next(iter(missed))
    raise LowerError(
        "marked functions do not fuse" if len(missed) > 1 else "a marked function does not fuse",
        where=first.source or None,
        expected="strict=True: a fused op for each",
        found=_INDENT.join(map(_line, missed)),
        remedy="do as the rule asks, or fix the rule; strict=False writes the function's own ops instead",
    )


def _line(refusal: Refusal) -> str:
    by = "no rule has that name" if refusal.condition == "no_rule" else f"{refusal.rule} refuses, {refusal.reason}"
    return f"{refusal.what}{f' at {refusal.source}' if refusal.source else ''}: {by}"
