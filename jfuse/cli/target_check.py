"""`jfuse check`: what a target makes of a file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import jfuse
from jfuse.cli.console import show
from jfuse.reports.as_json import write_data


def tell(model: Path, target: str, json: Path | None) -> bool:
    """Print the check, and say whether the target takes the file."""
    found = jfuse.check(model, target)
    for line in found.lines():
        show(line)
    if json is not None:
        write_data({"format": "jfuse.check", "version": 1, "takes_it": found.runs, **asdict(found)}, json)
    return found.runs
