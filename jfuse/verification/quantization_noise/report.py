"""`QuantizeReport`: what each equation of a quantized file adds to its noise, ranked; as text and as JSON."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from jfuse.base.errors import need_choice
from jfuse.base.json_form import JsonFormat, write_data
from jfuse.base.measure import Measure
from jfuse.base.notebooks import NotebookView
from jfuse.ir.graph import Program

Order = Literal["own", "propagated", "graph"]
_SHOWN = 20


@dataclass(frozen=True)
class TensorNoise:
    """One tensor of a quantized file beside the float value that it stands for, over all calls and turns of loops.

    signature, path: where its equation stands, as `EquationError` has them. result: which of its results it is.
    op, tensor, type, source, text: the operator, the tensor's name and type, the node of the source, the equation.
    snr_db, mse: of the value as it arrives, with all before it quantized, against the float one: 10 log10 of the power
        of the latter over that of the difference (inf: equal), and the mean of the squared difference.
    own_snr_db, own_mse: of what this equation makes of float values rounded to its operands' types, against what the
        float equation makes of the same rounded values.
    saturated: the share of float values more than half a step beyond the ends of the integer type.
    utilisation: the share of the type's integers between the least and the greatest that occurred; None of floats.
    weights_snr_db: of the constant with the least, against the float one; None without any.
    is_paired: whether the float model has the value. Otherwise the equation's own op makes the float value, of the
        numbers that its integers stand for, so that the weights' rounding is not seen.
    """

    signature: str
    path: tuple[int, ...]
    result: int
    op: str
    tensor: str
    type: str
    source: str
    text: str
    snr_db: float
    mse: float
    own_snr_db: float
    own_mse: float
    saturated: float
    utilisation: float | None
    weights_snr_db: float | None
    is_paired: bool
    measure: Measure

    def __str__(self) -> str:
        place = f" ({self.source})" if self.source and not self.source.startswith(self.tensor) else ""
        return f"{self.op} {self.tensor}{place}: {self.own_snr_db:.1f} dB alone, {self.snr_db:.1f} dB as it arrives"


@dataclass
class QuantizeReport(NotebookView):
    """The result of `jfuse.quantize_report`.

    tensors: in the order of the graph, those in loops behind these. unmatched: equations without figures, and why.
    subject, reference: what was compared. calls: how many. program: of the quantized file.
    """

    subject: str
    reference: str
    tensors: list[TensorNoise] = field(default_factory=list)
    unmatched: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    calls: int = 0
    seconds: float = 0.0
    backend: str = ""
    program: Program | None = field(default=None, repr=False, metadata={"json": None})
    reference_program: Program | None = field(default=None, repr=False, metadata={"json": None})

    def ranked(self, by: Order = "own") -> list[TensorNoise]:
        """The tensors, worst first.   by: SNR of the equation alone, or as it arrives; "graph" for the graph's order"""
        need_choice("by", by, ("own", "propagated", "graph"))
        if by == "graph":
            return list(self.tensors)
        return sorted(self.tensors, key=lambda t: (t.own_snr_db, t.snr_db) if by == "own" else (t.snr_db, t.own_snr_db))

    def table(self, most: int | None = _SHOWN, by: Order = "own") -> tuple[Sequence[str], list[Sequence[str]]]:
        """Names of columns, and rows of texts.   most: rows; None for all"""
        return _COLUMNS, [_row(tensor) for tensor in self.ranked(by)[:most]]

    def __str__(self) -> str:
        header, rows = self.table()
        cells = [header, *rows]
        widths = [max(len(row[i]) for row in cells) for i in range(len(header))]
        lines = ["  ".join(f"{c:<{w}}" for c, w in zip(row, widths, strict=True)).rstrip() for row in cells]
        more = len(self.tensors) - len(rows)
        lines += [f"and {more} tensors with less noise of their own"] if more > 0 else []
        lines += [f"not compared: {text}" for text in self.unmatched]
        lines += [f"note: {text}" for text in self.notes]
        return "\n".join([f"{self.subject} against {self.reference}, {self.calls} calls", *lines])

    def to_json(self) -> dict[str, Any]:
        """The report as dicts, lists, texts, numbers, bools and None, tensors in the graph's order."""
        return FORMAT.content(self)

    def write_json(self, path: str | os.PathLike[str]) -> Path:
        """Write it as JSON: whole or not at all. Raises JfuseError where that cannot be written."""
        return write_data(self.to_json(), path)


FORMAT = JsonFormat("jfuse.quantize_report", 1, QuantizeReport)
_COLUMNS = ("alone dB", "arrives dB", "mse", "saturated", "used", "weights dB", "operator", "tensor")


def _row(tensor: TensorNoise) -> Sequence[str]:
    return (
        f"{tensor.own_snr_db:.1f}",
        f"{tensor.snr_db:.1f}",
        f"{tensor.mse:.2e}",
        f"{tensor.saturated:.2%}",
        "" if tensor.utilisation is None else f"{tensor.utilisation:.0%}",
        "" if tensor.weights_snr_db is None else f"{tensor.weights_snr_db:.1f}",
        tensor.op + ("" if tensor.is_paired else " *"),
        tensor.tensor,
    )
