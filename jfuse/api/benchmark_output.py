"""Reads times from the output of LiteRT's benchmark_model.

    benchmark_model --graph=CANDIDATE.tflite --num_threads=1

It names the file in a line `Graph: [path]`, and the mean of a call in microseconds in the line `Inference timings in
us: Init: …, First inference: …, Warmup (avg): …, Inference (avg): …`. Outputs of many files may stand in one text.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from jfuse.base.errors import JfuseError
from jfuse.base.files import need_regular

_GRAPH = re.compile(r"Graph: \[(?P<path>[^\]]+)\]")
_TIME = re.compile(r"Inference \(avg\): (?P<us>[0-9.]+(?:e[+-]?\d+)?)")


def benchmark_times(logs: Sequence[str | Path]) -> dict[str, float]:
    """The microseconds of a call by the name of the file, without folder and suffix; of several runs the least.

    Raises JfuseError if a text has no times, OSError if it cannot be read.
    """
    found: dict[str, float] = {}
    for log in logs:
        times = _times(need_regular(log).read_text(encoding="utf-8", errors="replace"))
        if not times:
            raise JfuseError(
                "there are no times in this text",
                where=str(log),
                expected='lines "Graph: [path]" and "Inference timings in us: …, Inference (avg): …"',
                remedy="the whole output of benchmark_model, one run after another",
            )
        for name, us in times:
            found[name] = min(us, found.get(name, us))
    return found


def _times(text: str) -> list[tuple[str, float]]:
    pairs: list[tuple[str, float]] = []
    name: str | None = None
    for line in text.splitlines():
        if (graph := _GRAPH.search(line)) is not None:
            name = re.split(r"[/\\]", graph["path"])[-1].removesuffix(".tflite")
        elif name is not None and (time := _TIME.search(line)) is not None:
            pairs.append((name, float(time["us"])))
    return pairs
