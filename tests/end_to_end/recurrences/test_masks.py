"""Masked layers: fused where the mask is padding by construction or promise, exact loops otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.verification.inputs.padded_inputs import keep_promises
from tests.end_to_end.invokes import check_invokes, random_inputs
from tests.models.keras_libraries import LIBRARIES, awake
from tests.slow import keras_3, slow_but

STEPS, WIDTH = 6, 3
_SIZES = (3, 1, 5, 2)


def embedded(keras: Any, layer: Callable[[Any], Any]) -> Any:
    """A layer behind an Embedding with mask_zero."""
    ids = keras.Input((STEPS,), dtype="int32")
    return keras.Model(ids, layer(keras.layers.Embedding(10, WIDTH, mask_zero=True)(ids)))


def masked(keras: Any, layer: Callable[[Any], Any]) -> Any:
    """A layer behind Masking."""
    x = keras.Input((STEPS, WIDTH))
    return keras.Model(x, layer(keras.layers.Masking(-1.0)(x)))


def started(keras: Any) -> Any:
    """An encoder of padded ids, and a decoder of other padded ids that starts from its last states."""
    layers = keras.layers
    source, target = (keras.Input((STEPS,), dtype="int32", name=name) for name in ("source", "target"))
    embedding = layers.Embedding(10, WIDTH, mask_zero=True)
    _, h, c = layers.LSTM(4, return_state=True)(embedding(source))
    decoder = layers.LSTM(4, return_sequences=True, return_state=True)
    return keras.Model([source, target], decoder(embedding(target), initial_state=[h, c]))


MODELS: dict[str, tuple[Callable[[Any], Any], int]] = {
    "last": (lambda k: embedded(k, k.layers.LSTM(4)), 1),
    "sequence": (lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True)), 1),
    "states": (lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True, return_state=True)), 1),
    "backwards": (
        lambda k: embedded(k, k.layers.LSTM(4, return_sequences=True, return_state=True, go_backwards=True)),
        1,
    ),
    "bidirectional": (lambda k: masked(k, k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))), 2),
    "bidirectional, last": (lambda k: embedded(k, k.layers.Bidirectional(k.layers.LSTM(4))), 2),
    "masking": (lambda k: masked(k, k.layers.LSTM(4, return_sequences=True)), 1),
    "stacked": (lambda k: embedded(k, lambda e: k.layers.LSTM(3)(k.layers.LSTM(4, return_sequences=True)(e))), 2),
    "encoder and decoder": (started, 2),
}


def fused_ops(result: jfuse.Model) -> int:
    """The number of LSTMs; a bidirectional operator holds two."""
    counts = Counter(result.report.operators)
    return counts["unidirectional_sequence_lstm"] + 2 * counts["bidirectional_sequence_lstm"]


def padded_inputs(result: jfuse.Model, seed: int) -> dict[str, np.ndarray]:
    (signature,) = result.program.signatures
    sizes = {name: _SIZES[seed % len(_SIZES)] for name in ("B", "B1", "B2")}
    return keep_promises(signature, random_inputs(signature, sizes, seed), result.report.promises, seed)


@pytest.mark.parametrize("name", slow_but(frozenset(list(MODELS)[::3]).__contains__, MODELS))
@pytest.mark.parametrize("library_name", slow_but(keras_3, LIBRARIES))
def test_padding_on_the_right_fuses(library_name: str, name: str) -> None:
    build, count = MODELS[name]
    model = awake(build(LIBRARIES[library_name]))
    result = jfuse.convert(model, padding="right")
    assert fused_ops(result) == count
    assert "while" not in result.report.operators
    assert [p.side for p in result.report.promises] == ["right"] * len(result.report.promises)
    assert result.report.promises
    check_invokes(result, lambda seed: padded_inputs(result, seed))


@pytest.mark.parametrize("library_name", slow_but(keras_3, LIBRARIES))
def test_without_a_promise_any_mask_is_right(library_name: str) -> None:
    keras = LIBRARIES[library_name]
    model = awake(embedded(keras, keras.layers.LSTM(4, return_sequences=True, return_state=True)))
    result = jfuse.convert(model)
    assert fused_ops(result) == 0
    assert "padding_unknown" in {refusal.condition for refusal in result.report.refused}
    assert not result.report.promises
    check_invokes(result)
