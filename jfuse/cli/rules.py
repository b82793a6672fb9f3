"""`jfuse rules` and `jfuse passes`: which rules and passes a conversion has, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from jfuse.base.json_form import JsonFormat, write_data
from jfuse.cli import user_code
from jfuse.cli.console import show_columns
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import FuseRule, RecoverRule
from jfuse.passes.pipeline import with_own
from jfuse.reports.pass_list import HEADER, PassRow, pass_rows

_HEADER = ("name", "what it takes", "rule", "from")


@dataclass(frozen=True, order=True)
class RuleRow:
    """One rule.   origin: "jfuse", or the module that defines it"""

    name: str
    takes: str
    rule: str
    origin: str = field(metadata={"json": "from"})

    def cells(self) -> tuple[str, ...]:
        """The fields, as `_HEADER` names them."""
        return self.name, self.takes, self.rule, self.origin


RULES = JsonFormat("jfuse.rules", 1, more={"rules": list[RuleRow]})
PASSES = JsonFormat("jfuse.passes", 1, more={"passes": list[PassRow]})


def tell(modules: Sequence[str], files: list[Path] | None, json: Path | None) -> None:
    """Print the rules for composites and loops: jfuse's own, those of installed packages, and those of files."""
    rules = default_rules().extended(user_code.run(modules, files)["rules"])
    rows = sorted([*_rows("marked function", rules.fuses), *_rows("loop", rules.recovers)])
    if json is not None:
        write_data(RULES.content(rules=rows), json)
    show_columns(_HEADER, [row.cells() for row in rows])


def tell_passes(modules: Sequence[str], files: list[Path] | None, json: Path | None) -> None:
    """Print the passes in their order: jfuse's own, those of installed packages, of files and of modules."""
    rows = list(pass_rows(with_own(user_code.run(modules, files)["passes"])))
    if json is not None:
        write_data(PASSES.content(passes=rows), json)
    show_columns(HEADER, [row.cells() for row in rows])


def _rows(takes: str, rules: dict[str, FuseRule] | dict[str, RecoverRule]) -> Iterator[RuleRow]:
    for name, rule in rules.items():
        module = rule.function.__module__
        yield RuleRow(name, takes, rule.name, "jfuse" if module.startswith("jfuse.") else module)
