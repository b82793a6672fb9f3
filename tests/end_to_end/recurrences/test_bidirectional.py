"""Bidirectional layers from Keras to LiteRT: one fused op a layer, no loop, TensorFlow's answers on every invoke."""

from __future__ import annotations

from dataclasses import replace

import pytest

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.models.recurrences.bidirectional_keras import KerasBidirectional as K
from tests.slow import slow_but

LAYERS = (
    K(return_sequences=True),
    K(merge_mode="ave", return_sequences=True, batch=1),
    K(merge_mode="mul", batch=2),
    K(return_sequences=True, return_state=True),
    K(initial_state=True, return_sequences=True),
    K(layers=2, return_sequences=True),
    K(merge_mode=None, return_sequences=True),
    K(),
    K(merge_mode="sum", return_sequences=True, batch=5),
    K(merge_mode=None, batch=1),
    K(return_state=True, batch=2),
    K(layers=3, batch=1),
    K(steps=None, return_sequences=True),
)
LIBRARIES = ("keras", "tf_keras")
KINDS = ("LSTM", "SimpleRNN")
# Each way of wiring with both libraries and both kinds, which are in both libraries: all pairs, not all triples.
MODELS = [
    replace(m, library=LIBRARIES[k], kind=KINDS[(i + k) % 2])
    for i, m in enumerate(LAYERS)
    for k in range(len(LIBRARIES))
]
# Some ways of wiring, with libraries and kinds in turn.
ROWS = [replace(m, library=LIBRARIES[i % 2], kind=KINDS[i // 2 % 2]) for i, m in enumerate(LAYERS[:7])]


def convert_and_check(model: K, *, verify: bool) -> None:
    source = model.build()  # owns the variables, which functions hold weakly
    lite = jfuse.convert(source, verify=verify)
    found = lite.report.operators
    assert {n: c for n, c in found.items() if "sequence" in n} == {model.op: model.layers}
    assert not {"while", "if", "reverse_v2"} & found.keys()
    # The sequence is turned once before and once behind all layers, each result by itself where there are two.
    results = 2 if model.merge_mode is None else 1
    assert found.get("transpose", 0) <= (0 if model.batch == 1 else 1 + results)
    assert lite.report.refused == []
    check_invokes(lite)


@pytest.mark.parametrize("model", slow_but(ROWS[:3].__contains__, ROWS), ids=str)
def test_keras(model: K) -> None:
    convert_and_check(model, verify=True)


@pytest.mark.slow
@pytest.mark.parametrize("model", [m for m in MODELS if m not in ROWS], ids=str)
def test_every_keras_and_kind(model: K) -> None:
    convert_and_check(model, verify=False)


def test_directions_of_two_sizes_stay_two_lstms() -> None:
    """TFLite's op has one size for both; the results are put together all the same."""
    source = K(own_backward=4, return_sequences=True).build()
    lite = jfuse.convert(source)
    assert lite.report.operators["unidirectional_sequence_lstm"] == 2
    assert "while" not in lite.report.operators
    check_invokes(lite)
