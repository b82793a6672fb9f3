"""A Keras 3 LSTM before and after fusion, as the page of a report lays it out, for the picture of the documentation.

    python -m bench.graphs

Writes bench/results/graphs.json: the rows of both graphs of the model of `jfuse demo`. Nothing is measured.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import jfuse
from jfuse.frontends.example_model import export_example
from jfuse.ir.graph import Program
from jfuse.reports.page import place
from jfuse.reports.rows import rows_of

RESULT = Path(__file__).parent / "results" / "graphs.json"


def main() -> None:
    """Write the result."""
    with tempfile.TemporaryDirectory() as folder:
        keras = export_example(Path(folder) / "model")
        model = jfuse.convert(Path(folder) / "model", jfuse.Inputs(signatures=["serving_default"]))
    assert model.imported_program is not None
    found = {
        "model": f"the model of `jfuse demo`, of Keras {keras}: LSTM(32), Dense(4)",
        "before": side(model.imported_program),
        "after": side(model.program),
    }
    RESULT.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def side(program: Program) -> dict[str, Any]:
    """The rows of the first signature.

    rows: kind, label, depth, type of the first result, lane of the dot. values: row and lane of each that is read,
    and its readers.
    """
    signature = program.signatures[0]
    found = rows_of(signature.graph, signature.input_names, signature.output_names)
    lanes = place(found)
    return {
        "lanes": lanes,
        "operations": sum(row.kind == "op" for row in found.rows),
        "rows": [[r.kind, r.label, r.depth, r.results[0]["type"] if r.results else "", r.column] for r in found.rows],
        "values": [[value.row, value.column, value.readers] for value in found.values if value.readers],
    }


if __name__ == "__main__":
    main()
