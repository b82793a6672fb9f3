"""`jfuse optimize`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jfuse.cli import interrupts
from jfuse.cli.clock import elapsed_s
from jfuse.cli.console import progress, show_rows
from jfuse.cli.tables import summary
from jfuse.tuning.optimized_file import optimize as optimized


def optimize(model: Path, output: Path, **arguments: Any) -> None:
    """Write the better file, and print what was done."""
    with progress() as on_stage:
        result = optimized(model, on_stage=on_stage, **arguments)
        interrupts.need_none()
        result.save(output)
    show_rows(summary(result.report, output, elapsed_s()))
