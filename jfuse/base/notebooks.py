"""How models, reports and verifications are shown in a notebook: `jfuse.reports` registers a form for each.

`jfuse` says how to import it; it does so when something is shown for the first time, as most programs show nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import singledispatch


@singledispatch
def as_html(shown: object) -> str | None:
    """The HTML of a result; None if it only has a text form."""
    return None


class NotebookView:
    """A result that notebooks show as HTML."""

    registered: Callable[[], object]
    """Imports the module that registers the forms; set by `jfuse`."""

    def _repr_html_(self) -> str | None:
        NotebookView.registered()
        return as_html(self)
