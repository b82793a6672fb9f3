"""`jfuse rules` and `jfuse passes`: which rules and passes a conversion has, and where each comes from."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

from jfuse.cli import user_code
from jfuse.cli.console import show_columns
from jfuse.lowering.defaults import default_rules
from jfuse.lowering.rules import FuseRule, RecoverRule
from jfuse.passes.pipeline import with_own
from jfuse.reports.as_json import write_data
from jfuse.reports.pass_list import HEADER, pass_rows

_HEADER = ("name", "what it takes", "rule", "from")


def tell(modules: Sequence[str], files: list[Path] | None, json: Path | None) -> None:
    """Print the rules for composites and loops: jfuse's own, those of installed packages, and those of files."""
    rules = default_rules().extended(user_code.run(modules, files)["rules"])
    rows = [*_rows("marked function", rules.fuses), *_rows("loop", rules.recovers)]
    rows.sort()
    if json is not None:
        found = [dict(zip(("name", "takes", "rule", "from"), row, strict=True)) for row in rows]
        write_data({"format": "jfuse.rules", "version": 1, "rules": found}, json)
    show_columns(_HEADER, rows)


def tell_passes(modules: Sequence[str], files: list[Path] | None, json: Path | None) -> None:
    """Print the passes in their order: jfuse's own, those of installed packages, of files and of modules."""
    rows = list(pass_rows(with_own(user_code.run(modules, files)["passes"])))
    if json is not None:
        write_data({"format": "jfuse.passes", "version": 1, "passes": [asdict(row) for row in rows]}, json)
    show_columns(HEADER, [row.cells() for row in rows])


def _rows(takes: str, rules: dict[str, FuseRule] | dict[str, RecoverRule]) -> Iterator[tuple[str, str, str, str]]:
    for name, rule in rules.items():
        module = rule.function.__module__
        yield name, takes, rule.name, "jfuse" if module.startswith("jfuse.") else module
