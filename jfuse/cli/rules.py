"""`jfuse rules`: which composites and loops fuse by rules, and where each rule comes from."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from jfuse.cli import user_code
from jfuse.cli.console import show_columns
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import FuseRule, RecoverRule
from jfuse.reports.as_json import write_data

_HEADER = ("name", "what it takes", "rule", "from")


def tell(modules: list[str] | None, files: list[Path] | None, json: Path | None) -> None:
    """Print the rules for composites and loops: jfuse's own, those of installed packages, and those of files."""
    rules = default_rules().extended(user_code.run(modules, files))
    rows = [*_rows("marked function", rules.fuses), *_rows("loop", rules.recovers)]
    rows.sort()
    if json is not None:
        found = [dict(zip(("name", "takes", "rule", "from"), row, strict=True)) for row in rows]
        write_data({"format": "jfuse.rules", "version": 1, "rules": found}, json)
    show_columns(_HEADER, rows)


def _rows(takes: str, rules: dict[str, FuseRule] | dict[str, RecoverRule]) -> Iterator[tuple[str, str, str, str]]:
    for name, rule in rules.items():
        module = rule.function.__module__
        yield name, takes, rule.name, "jfuse" if module.startswith("jfuse.") else module
