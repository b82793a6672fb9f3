"""The pictures of the documentation, from committed results.

    python -m bench.pictures

Writes docs/pictures/*.svg. Nothing is measured here: the figures are those of bench/results.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from bench import graph_picture
from jfuse.reports.bars import Bar, BarGroup, bar_chart

ROOT = Path(__file__).parents[1]
RESULTS, PICTURES = ROOT / "bench" / "results", ROOT / "docs" / "pictures"
_APPLICATIONS = 13  # the first rows of convert.json


def pictures() -> dict[str, str]:
    """The SVG of each picture by the name of its file."""
    return {"latency.svg": latency(), "errors.svg": errors(), "conversion.svg": conversion(), "graphs.svg": graphs()}


def latency() -> str:
    """Keras 3 LSTMs of four sizes: the fused file, the loop, and the official converter's file."""
    found = _result("latency.json")
    forms = (("jfuse, fused", "fused_us"), ("jfuse, loop", "loop_us"), ("official converter", "official_us"))
    groups = [
        BarGroup(
            f"{row['units']} units, {row['steps']} steps",
            tuple(Bar(name, row[key], f"{row[key]:.3g} us") for name, key in forms),
        )
        for row in found["rows"]
    ]
    return bar_chart("Keras 3 LSTMs in LiteRT: median time of a call, one thread", groups)


def graphs() -> str:
    """A Keras 3 LSTM as it was saved, and as the file has it."""
    found = _result("graphs.json")
    sides = {"Before, as it was imported": found["before"], "After, as the file has it": found["after"]}
    return graph_picture.graphs("A Keras 3 LSTM and a Dense layer", sides, "unidirectional_sequence_lstm")


def errors() -> str:
    """How far the files of Keras applications are from TensorFlow, by jfuse and by the official converter."""
    return bar_chart(
        "Largest error against TensorFlow, of the largest output (logarithmic)",
        _both("difference", "{:.1e}"),
        logarithmic=True,
    )


def conversion() -> str:
    """How long the conversion of Keras applications takes."""
    return bar_chart("Conversion of Keras applications from memory, without verification", _both("seconds", "{:.3g} s"))


def _both(figure: str, text: str) -> list[BarGroup]:
    sides = (("jfuse", "jfuse"), ("official converter", "official"))
    return [
        BarGroup(
            row["model"],
            tuple(Bar(name, row[side][figure], text.format(row[side][figure])) for name, side in sides),
        )
        for row in _result("convert.json")["rows"][:_APPLICATIONS]
    ]


def _result(name: str) -> Mapping[str, Any]:
    found: Mapping[str, Any] = json.loads((RESULTS / name).read_text(encoding="utf-8"))
    return found


def main() -> None:
    """Write all pictures."""
    PICTURES.mkdir(exist_ok=True)
    for name, text in pictures().items():
        (PICTURES / name).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
