"""`quantize_report`: where a quantized file loses precision, whoever wrote it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jfuse.api import lower
from jfuse.errors import JfuseError
from jfuse.last_resort import only_jfuse_errors
from jfuse.loading import load
from jfuse.model import Model
from jfuse.noise.measured import measured
from jfuse.noise.report import QuantizeReport
from jfuse.quantization.data import RANDOM, CalibrationData


@only_jfuse_errors("the quantization report")
def quantize_report(
    model: Any, against: Any = None, data: CalibrationData = RANDOM, *, unsafe: bool = False
) -> QuantizeReport:
    """What each equation of a quantized model adds to its noise, and how its values arrive: ranked, with names.

    model: a Model that was quantized, or the path of a .tflite file, whoever wrote it: in int8, int16, with integer
        weights beside floats, or in f16.
    against: the same in floats: a .tflite file, a Model, or anything that `jfuse.load` takes, which is lowered first.
        By default `model.unquantized`. Values stand for each other by operands, names and places; `unmatched` of the
        result says of what that is not known.
    data: real inputs, as `calibration` of `jfuse.quantize`; by default drawn ones. unsafe: as `jfuse.load` has it.

    All is computed on XLA, both models and every equation by itself as one program over many samples; operators for
    whose types there is no integer body run in LiteRT. Raises JfuseError where the two take other inputs.
    """
    quantized = model if isinstance(model, Model) else load(model, unsafe=unsafe)
    floats = quantized.unquantized if against is None else against
    if floats is None:
        raise JfuseError(
            "a quantized file alone does not tell what it should answer", remedy="against=, the model in floats"
        )
    is_lowered = against is None or (isinstance(against, str | Path) and Path(against).suffix == ".tflite")
    reference = floats if isinstance(floats, Model) else load(floats, unsafe=unsafe)
    reference = reference if is_lowered else lower(reference)
    report = measured(quantized.program, reference.program, data)
    report.subject, report.reference = _text(model, "the quantized model"), _text(against, "the float model")
    return report


def _text(given: Any, otherwise: str) -> str:
    return str(given) if isinstance(given, str | Path) else otherwise
