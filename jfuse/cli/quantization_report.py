"""`jfuse quantize-report`: where a quantized file loses precision."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from jfuse.api.load import load
from jfuse.api.quantize import quantize_report
from jfuse.cli.console import progress, show, show_columns
from jfuse.reports.noise import write_noise_explorer, write_noise_html
from jfuse.verification.quantization_noise.report import Order


@dataclass(frozen=True)
class Files:
    """Where the report goes besides the terminal."""

    json: Path | None = None
    html: Path | None = None
    explorer: Path | None = None


def tell(file: Path, against: Path, data: str, files: Files, by: Order, *, most: int, unsafe: bool) -> None:
    """Print the worst tensors, and write the report."""
    with progress() as on_stage:
        on_stage("measuring")
        model = load(file, unsafe=unsafe)
        found = quantize_report(model, against, data, unsafe=unsafe)
        found.subject = str(file)
    show(f"{found.subject} against {found.reference}, {found.calls} calls in {found.seconds:.1f} s ({found.backend})")
    show_columns(*found.table(most or None, by))
    for text in found.unmatched:
        show(f"  not compared: {text}")
    for text in found.notes:
        show(f"  note: {text}")
    if files.json is not None:
        found.write_json(files.json)
    if files.html is not None:
        write_noise_html(found, files.html)
    if files.explorer is not None:
        write_noise_explorer(found, model, files.explorer)
