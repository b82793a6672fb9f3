"""What the passes of one conversion share: the rules, the options and the report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from jfuse.lowering.rules import DEFAULT, RuleSet
from jfuse.report import Report


@dataclass
class Context:
    """Rules, options and report of one conversion. `on_stage` is told the name of each stage as it starts.

    state, padding, loop, prefer: as `jfuse.lower` has them. variables: the names of the source's variables, which are
    paths of layers.
    """

    rules: RuleSet = field(default_factory=lambda: DEFAULT)
    report: Report = field(default_factory=Report)
    recover: bool = True
    state: str = "source"
    padding: str | None = None
    loop: str = "auto"
    prefer: str = "fused"
    on_stage: Callable[[str], None] = lambda stage: None
    variables: Sequence[str] = ()
