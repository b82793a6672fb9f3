"""A report on quantization as an HTML page and as node data for Model Explorer, both coloured by SNR."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from jfuse.base.errors import JfuseError
from jfuse.base.files import write_atomic
from jfuse.base.json_form import as_json
from jfuse.base.measure import Measure
from jfuse.ir.graph import Program
from jfuse.model import Model
from jfuse.records.conversion import Difference, Noise, Report
from jfuse.records.verification import EquationError, Verification
from jfuse.reports.model_explorer import FileNodes
from jfuse.reports.page import page, page_data
from jfuse.verification.quantization_noise.report import QuantizeReport, TensorNoise

ALONE, ARRIVES = "alone", "as it arrives"
_COLOURS = ((10.0, "#8c1d18"), (20.0, "#cf5444"), (30.0, "#f0c27b"), (40.0, "#f3e6b3"), (1e3, "#cfe3d6"))
"""An SNR up to this bound, in dB, and the colour of its operator."""


def write_noise_html(report: QuantizeReport, path: str | os.PathLike[str]) -> Path:
    """Write the page with the quantized graph beside the float one: whole or not at all.

    An operation has the SNR that its equation makes alone, which colours it, and that of its values as they arrive.
    """
    if report.program is None:
        raise JfuseError("this report has no graph to show", remedy="write a result of jfuse.quantize_report")
    verification = Verification(report.subject, report.reference, samples=report.calls)
    verification.notes, verification.backend = [*report.unmatched, *report.notes], report.backend
    return _write(report.reference_program, verification, report, path, None)


def write_quantized_html(
    before: Program | None,
    verification: Verification,
    noise: QuantizeReport,
    path: str | os.PathLike[str],
    report: Report,
) -> Path:
    """Write the page of a conversion with quantization: whole or not at all.

    verification: of the model in floats. noise: of the quantized program beside that one, whose errors the page has.
    before, report: as `write_html` has them.
    """
    outputs = [*map(_difference, report.noise), *verification.differences]
    found = replace(verification, differences=outputs, notes=[*verification.notes, *noise.unmatched, *noise.notes])
    return _write(before, found, noise, path, report)


def _write(
    before: Program | None,
    found: Verification,
    noise: QuantizeReport,
    path: str | os.PathLike[str],
    report: Report | None,
) -> Path:
    assert noise.program is not None, "a report with its graph"
    equations = [e for t in noise.tensors for e in (_error(t, ALONE), _error(t, ARRIVES))]
    data = page_data(before, noise.program, replace(found, equations=equations), report)
    layers = [as_json(layer) for layer in layers_of(noise.tensors)]
    write_atomic(path, page({**data, "coloured": {"by": "noise", "pair": ALONE}, "layers": layers}).encode())
    return Path(path)


@dataclass(frozen=True)
class LayerNoise:
    """The worst SNR of a layer's tensors, in dB.   alone, arrives: as in `QuantizeReport`; worst: the tensor"""

    layer: str
    tensors: int
    alone: float
    arrives: float
    worst: str


def layers_of(tensors: Sequence[TensorNoise]) -> list[LayerNoise]:
    """The layers in the order of the graph: the names of tensors up to their last `/`."""
    groups: dict[str, list[TensorNoise]] = {}
    for tensor in tensors:
        name = tensor.tensor.strip(";").partition(";")[0]
        groups.setdefault(name.rpartition("/")[0] or name, []).append(tensor)
    return [
        LayerNoise(
            layer,
            len(group),
            min(t.own_snr_db for t in group),
            min(t.snr_db for t in group),
            min(group, key=lambda t: t.own_snr_db).tensor,
        )
        for layer, group in groups.items()
    ]


def _difference(noise: Noise) -> Difference:
    """How far an output of the quantized file is from the float model's, which no tolerance bounds."""
    measure = Measure(math.nan, noise.error, math.nan, math.nan, noise.snr_db)
    pair = f"quantized in {noise.where}/floats"
    reason = "rounding: nothing but an SNR above 0 dB is asked for"
    return Difference(noise.signature, noise.output, pair, noise.error, math.inf, reason, measure, 0)


def _error(tensor: TensorNoise, pair: str) -> EquationError:
    """A tensor's figures as those of its equation; alone only the SNR is known."""
    ratio = 10 ** (-tensor.own_snr_db / 20) if tensor.own_snr_db < math.inf else 0.0
    alone = Measure(math.sqrt(tensor.own_mse), ratio, math.nan, math.nan, tensor.own_snr_db)
    utilisation = "" if tensor.utilisation is None else f", {tensor.utilisation:.0%} of the integers are used"
    notes = (f"{tensor.tensor}: {tensor.saturated:.2%} saturated{utilisation}",)
    return EquationError(
        tensor.signature,
        tensor.path,
        tensor.op,
        tensor.text,
        tensor.source,
        "",
        pair,
        alone if pair == ALONE else tensor.measure,
        operands=notes,
    )


def write_noise_explorer(report: QuantizeReport, model: Model, path: str | os.PathLike[str]) -> Path:
    """Write the SNR that each operator of `model` makes alone, in dB, for Model Explorer: whole or not at all.

    model: the quantized one, whose file Model Explorer shows. The worst tensor of an operator counts; what is equal has
    the text "inf", as JSON has no number for it.
    """
    write_atomic(path, (json.dumps(noise_data(report, model), indent=1) + "\n").encode("ascii"))
    return Path(path)


def noise_data(report: QuantizeReport, model: Model) -> dict[str, Any]:
    """The content of `write_noise_explorer`: node data by graph id."""
    file = FileNodes(model.to_bytes())
    worst: dict[tuple[str, str], float] = {}
    for tensor in report.tensors:
        node = file.node(tensor.signature, tensor.path)
        worst[node] = min(worst.get(node, math.inf), tensor.own_snr_db)
    thresholds = [{"value": value, "bgColor": colour} for value, colour in _COLOURS]
    data_by_graph: dict[str, Any] = {}
    for (graph_id, node_id), size in worst.items():
        data = data_by_graph.setdefault(
            graph_id, {"name": "jfuse: SNR alone, dB", "results": {}, "thresholds": thresholds}
        )
        colour = {} if math.isfinite(size) else {"bgColor": _COLOURS[-1 if size > 0 else 0][1]}
        data["results"][node_id] = {"value": size if math.isfinite(size) else str(size), **colour}
    return data_by_graph
