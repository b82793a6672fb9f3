"""`jfuse check`: checks a file against a target."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import jfuse
from jfuse.cli.console import show
from jfuse.reports.as_json import write_data
from jfuse.reports.target_check import TargetCheck


def tell(model: Path, target: str | None, device: str | None, json: Path | None) -> bool:
    """Print the check, and say whether each target that is named, else any of all, and the device take the file."""
    found = jfuse.check(model, target, device=device)  # type: ignore[arg-type]
    takes_it = found.runs if isinstance(found, TargetCheck) else list(found.takes_it)
    details = [found] if target is None or isinstance(found, TargetCheck) else found.targets
    for line in (line for each in details for line in each.lines()):
        show(line)
    if json is not None:
        write_data({"format": "jfuse.check", "version": 1, "takes_it": takes_it, **asdict(found)}, json)
    takes_all = found.runs if isinstance(found, TargetCheck) or target is not None else bool(takes_it)
    if found.device is not None:
        for line in found.device.lines():
            show(line)
    return takes_all and (found.device is None or found.device.runs)
