"""What the passes of one conversion share: the rules, the options and the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from jfuse.lowering.rules import DEFAULT, RuleSet
from jfuse.report import Report

Attributes: TypeAlias = Mapping[str, Any]
CustomOptions: TypeAlias = Attributes | bytes | bool | Callable[[Attributes], Attributes | bytes | None] | None
"""The options of a custom operator: the node's attributes (None, True), others, bytes, or what makes them of those."""


@dataclass
class Context:
    """Rules, options and report of one conversion. `on_stage` is told the name of each stage as it starts.

    state, padding, loop, prefer, select_tf_ops, custom_ops: as `jfuse.lower` has them. variables: the names of the
    source's variables, which are paths of layers.
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
    select_tf_ops: bool = False
    custom_ops: Mapping[str, CustomOptions] = field(default_factory=dict)
