"""The table of recipes by device in docs/quantization.md, made from `bench/results/quantize.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

RESULT = Path(__file__).parents[2] / "bench" / "results" / "quantize.json"
BASE = "float16"
DEVICES = (
    ("GPU; the model as it is", "float16"),
    ("processor of a phone or a desktop, no data", "dynamic"),
    ("the same, nearest to floats", "int8_weights"),
    ("DSP, NPU, microcontroller (`micro`)", "int8"),
    ("the same, if int8 is too coarse", "int16x8"),
    ("small download, with data", "int4_gptq"),
    ("small download, no data", "int4_weights"),
)
HEAD = "| device | recipe | bytes | time | SNR, least to greatest (median) |"


def markdown() -> str:
    """The table, a row for each device."""
    rows: Sequence[dict[str, Any]] = json.loads(RESULT.read_text(encoding="utf-8"))["rows"]
    return "\n".join([HEAD, "|---|---|---|---|---|", *(_row(rows, device, mode) for device, mode in DEVICES)])


def _row(rows: Sequence[dict[str, Any]], device: str, mode: str) -> str:
    base = {row["model"]: row for row in rows if row["mode"] == BASE}
    of_mode = [row for row in rows if row["mode"] == mode]
    size = geometric_mean(row["bytes"] / base[row["model"]]["bytes"] for row in of_mode)
    times = [row["ms"] / base[row["model"]]["ms"] for row in of_mode if "ms" in row]
    time = f"{geometric_mean(times):.2g}" if times else "not measured"
    snr = sorted(row["snr_db"] for row in of_mode)
    return f"| {device} | `{mode}` | {size:.2f} | {time} | {snr[0]:.0f} to {snr[-1]:.0f} dB ({median(snr):.0f}) |"


if __name__ == "__main__":
    print(markdown())
