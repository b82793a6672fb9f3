"""Recurrences that are written out step by step, from TensorFlow to LiteRT."""

from __future__ import annotations

from typing import Any

import pytest

import jfuse
from jfuse.model import Model
from tests.end_to_end.invokes import check_invokes
from tests.models.keras_libraries import LIBRARIES, awake
from tests.models.recurrences import unrolled
from tests.models.recurrences.unrolled import DECOYS, LSTM, RNN, WRITTEN

BIDIRECTIONAL = "bidirectional_sequence_lstm"
KERAS_FUSED: dict[str, tuple[str, ...]] = {
    "lstm": (LSTM,),
    "lstm_sequences": (LSTM,),
    "lstm_states": (LSTM,),
    "lstm_backwards": (LSTM,),
    "lstm_of_one_unit": (LSTM,),
    "gru": (),
    "gru_reset_before": (),
    "gru_of_one_unit": (),
    "simple_rnn": (RNN,),
    "masked_lstm": (),
    "masked_lstm_states": (),
    "masked_rnn": (),
    "bidirectional": (BIDIRECTIONAL,),
    "stacked_cells": (LSTM, LSTM),
    "two_layers": (LSTM, LSTM),
}
# Each model with each batch, and with both libraries in turn, whose steps are the same: all pairs, not all triples.
KERAS_ROWS = [
    (list(LIBRARIES)[(i + j) % 2], name, batch)
    for i, name in enumerate(unrolled.KERAS)
    for j, batch in enumerate((None, 1, 2))
]
DEFAULT = ["stacked", "fixed_batch", "no_memory", "crosswise_once"]


def fused_ops(lite: Model) -> list[str]:
    counts = lite.report.operators
    return sorted(name for name, count in counts.items() if "_sequence_" in name for _ in range(count))


def check(source: Any, fused: tuple[str, ...], *, verify: bool = True) -> Model:
    lite = jfuse.convert(source, verify=verify)
    assert fused_ops(lite) == sorted(fused)
    check_invokes(lite)
    return lite


@pytest.mark.parametrize("batch", [None, 2])
def test_keras_lstm(batch: int | None) -> None:
    model = awake(unrolled.keras_model(LIBRARIES["keras"], "lstm_sequences", batch))
    lite = check(model, (LSTM,))
    assert not {"tanh", "logistic", "unpack", "pack"} & lite.report.operators.keys()


@pytest.mark.slow
@pytest.mark.parametrize(("library", "name", "batch"), KERAS_ROWS)
def test_keras(library: str, name: str, batch: int | None) -> None:
    check(awake(unrolled.keras_model(LIBRARIES[library], name, batch)), KERAS_FUSED[name], verify=False)


def test_time_distributed() -> None:
    lite = check(awake(unrolled.time_distributed(LIBRARIES["keras"], None)), ())
    assert lite.report.operators["fully_connected"] == 1


def test_static_rnn() -> None:
    check(unrolled.static_rnn(), (LSTM,))


@pytest.mark.parametrize("name", [n if n in DEFAULT else pytest.param(n, marks=pytest.mark.slow) for n in WRITTEN])
def test_written(name: str) -> None:
    """Whatever becomes of the loop, it answers like the steps."""
    lite = jfuse.convert(WRITTEN[name].build(), verify=name in DEFAULT)
    assert all(fused_ops(lite).count(op) >= WRITTEN[name].fused.count(op) for op in WRITTEN[name].fused)
    check_invokes(lite)


@pytest.mark.parametrize("name", [n if n in DEFAULT else pytest.param(n, marks=pytest.mark.slow) for n in DECOYS])
def test_decoys(name: str) -> None:
    check_invokes(jfuse.convert(DECOYS[name].build(), verify=name in DEFAULT))
