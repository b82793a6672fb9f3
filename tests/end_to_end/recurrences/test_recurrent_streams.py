"""Sequences in pieces: with states that are kept, or given back, the pieces answer as the whole sequence does."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pytest

import jfuse
from jfuse.base.measure import relative_error
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.targets.compiled_model import in_variable_tensors
from jfuse.verification.runners.in_tensorflow import run_tensorflow
from tests.end_to_end.invokes import TOLERANCE
from tests.end_to_end.recurrences.test_recurrent import fused_counts
from tests.models.recurrences.recurrent_shells import FEATURES
from tests.models.recurrences.recurrent_streams import STREAMS, Stream

_DEFAULT = ("keras-lstm", "keras-gru")


def _marked(stream: Stream) -> object:
    return stream if stream.name in _DEFAULT else pytest.param(stream, marks=pytest.mark.slow)


@pytest.mark.parametrize("stream", [_marked(s) for s in STREAMS], ids=str)
def test_streamed(stream: Stream) -> None:
    source = stream.build(stream.steps, stream.batch)  # owns the variables
    lite = jfuse.convert(source, verify=False, state=stream.state)
    if stream.state == "keep":
        assert fused_counts(lite.report.operators) == stream.fused
    else:
        assert in_variable_tensors(lite.program) == []  # states in the caller's hands, which CompiledModel takes
    x = _normal(stream.batch or 3, sum(stream.pieces))
    wanted = whole(stream, x)
    for delegates in (True, False):
        assert relative_error(in_pieces(stream, lite, x, delegates), wanted) <= TOLERANCE
    # Without what is kept, the pieces would answer otherwise.
    first = stream.pieces[0]
    assert relative_error(whole(stream, x[:, first:]), wanted[:, first:]) > 1000 * TOLERANCE


def whole(stream: Stream, x: np.ndarray) -> np.ndarray:
    """What TensorFlow makes of the sequence in one call."""
    source = stream.build(x.shape[1], stream.batch)
    imported = jfuse.load(source).imported
    assert imported is not None
    (function,) = imported.functions.values()
    return _sequence(run_tensorflow(function, {"x": x}))


def in_pieces(stream: Stream, lite: Model, x: np.ndarray, delegates: bool) -> np.ndarray:
    """What LiteRT makes of the pieces; states that are inputs start at zero."""
    runtime, (signature,) = LiteRt(lite.to_bytes(), delegates=delegates), lite.program.signatures
    types = {
        name: v.type for name, v in zip(signature.input_names, signature.graph.inputs, strict=False) if name != "x"
    }
    assert bool(types) == (stream.state == "io")
    states = {name: np.zeros((len(x), *t.shape[1:]), t.dtype.numpy) for name, t in types.items()}
    found = []
    for piece in np.split(x, np.cumsum(stream.pieces)[:-1], axis=1):
        results = runtime.run(signature.key, {"x": piece, **states})
        states = {name: results.pop(name) for name in states}
        found.append(_sequence(results))
    return np.concatenate(found, 1)


def _sequence(results: Mapping[str, np.ndarray]) -> np.ndarray:
    (found,) = (value for value in results.values() if value.ndim == 3)
    return found


def _normal(batch: int, steps: int) -> np.ndarray:
    return np.random.default_rng(0).standard_normal((batch, steps, FEATURES)).astype(np.float32)
