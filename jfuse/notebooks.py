"""How models, reports and verifications are shown in a notebook: `jfuse.reports` registers a form for each.

It is imported when something is shown for the first time, as most programs show nothing.
"""

from __future__ import annotations

from functools import singledispatch
from importlib import import_module


@singledispatch
def as_html(shown: object) -> str | None:
    """The HTML of a result; None for what has no other form than its text."""
    return None


class Shown:
    """A result that notebooks show as HTML."""

    def _repr_html_(self) -> str | None:
        import_module("jfuse.reports")
        return as_html(self)
