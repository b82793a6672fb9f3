"""Times of the quantized and the float file, both in LiteRT on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from jfuse.quantization.real_numbers.boundaries import Boundaries
from jfuse.records.conversion import LatencyRatio
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.tflite.write.named_file import with_signature
from jfuse.verification.file_answers import Streaming, litert_takes
from jfuse.verification.file_times import Turn, drawn_inputs, in_turns, litert_turn
from jfuse.verification.subject import Arrays

_SECONDS = 0.02  # of calls for each file: enough to tell half of the time from as long, and soon over
_ROUNDS = 3


def latency_of(lite: Streaming, unquantized: Streaming) -> LatencyRatio | None:
    """The time of a call of the quantized and the float file, one thread; None unless LiteRT runs both."""
    if not litert_takes(lite.program):
        return None
    drawn = [drawn_inputs(unquantized.program, i) for i in range(len(unquantized.program.signatures))]
    try:
        turns = {name: _turn(model, drawn) for name, model in (("quantized", lite), ("floats", unquantized))}
        times = {name: [median(turn) for turn in of] for name, of in in_turns(turns, _SECONDS, _ROUNDS).items()}
    except (Refused, LiteRtFailed):
        return None
    ratio = median(a / b for a, b in zip(times["quantized"], times["floats"], strict=True))
    return LatencyRatio(ratio, 1e6 * median(times["quantized"]), 1e6 * median(times["floats"]))


def _turn(model: Streaming, drawn: Sequence[Arrays]) -> Turn:
    of_file = Boundaries(model.program)
    calls = [(s.key, of_file.integers(s.key, i)) for s, i in zip(model.program.signatures, drawn, strict=True)]
    return litert_turn(with_signature(model.to_bytes(), model.program), calls)
