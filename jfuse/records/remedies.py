"""Remedies for refusals, from jfuse/refusals.md."""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_LINK = re.compile(r"\[([^\]]+)\]\([^)]*\)")


def remedy_of(condition: str) -> str:
    """The remedy for a refusal from jfuse/refusals.md; "" for names of the user's own rules."""
    return _remedies().get(condition, "")


@cache
def _remedies() -> dict[str, str]:
    """The last column of the tables in jfuse/refusals.md, by the first."""
    text = files("jfuse").joinpath("refusals.md").read_text(encoding="utf-8")
    text = _LINK.sub(r"docs/\1", text)
    rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in text.splitlines())
    return {row[0].strip("`"): row[-1] for row in rows if len(row) == 3 and row[0].startswith("`")}
