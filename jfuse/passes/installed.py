"""Passes that installed packages bring: entry points of the group `jfuse.passes`, modules that define passes."""

from __future__ import annotations

from jfuse.lowering.installed import installed
from jfuse.passes.own import Pass

GROUP = "jfuse.passes"


def installed_passes() -> tuple[Pass, ...]:
    """The passes of all installed packages that have an entry point `jfuse.passes`, for `passes=` of `jfuse.convert`.

    The command line applies them. They are defined with `default=False`, so that an import alone changes no conversion.
    Raises RuleError as `installed_rules` does.
    """
    return installed(GROUP, Pass, "pass", "@jfuse.rewrites", lambda each: [(Pass, each.name)])
