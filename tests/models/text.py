"""Text models of Keras: words, or ids, are looked up, embedded, and read by a recurrence or averaged."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras

from tests.models.tables import draw_of

WORDS = ("the", "cat", "sat", "mat")
STEPS = 6


def classifier(lookup: Any, dtype: str, *, recurrent: bool) -> keras.Model:
    """Scores of a sequence of words or ids."""
    keras.utils.set_random_seed(0)
    words = keras.Input((STEPS,), dtype=dtype, name="words")
    steps = keras.layers.Embedding(lookup.vocabulary_size(), 5, mask_zero=recurrent)(lookup(words))
    summary = keras.layers.GRU(4) if recurrent else keras.layers.GlobalAveragePooling1D()
    return keras.Model(words, keras.layers.Dense(3)(summary(steps)))


def plain(lookup: Any, dtype: str) -> keras.Model:
    """A lookup layer alone."""
    words = keras.Input((STEPS,), dtype=dtype, name="words")
    return keras.Model(words, lookup(words))


Build = Callable[[], keras.Model]
_layers = keras.layers

MODELS: dict[str, tuple[Build, Sequence[Any]]] = {
    "words": (lambda: classifier(_layers.StringLookup(vocabulary=WORDS), "string", recurrent=False), (*WORDS, "dog")),
    "padded_words": (
        lambda: classifier(_layers.StringLookup(vocabulary=WORDS, mask_token=""), "string", recurrent=True),
        (*WORDS, "dog", ""),
    ),
    "ids": (
        lambda: classifier(_layers.IntegerLookup(vocabulary=[10, 20, 30, 700]), "int64", recurrent=True),
        (10, 20, 30, 700, 5, -1),
    ),
    "known_ids": (
        lambda: classifier(
            _layers.IntegerLookup(vocabulary=[10, -30, 7_000_000], num_oov_indices=0), "int64", recurrent=False
        ),
        (10, -30, 7_000_000),
    ),
    "several_unknown_ids": (
        lambda: classifier(_layers.IntegerLookup(vocabulary=[10, 20], num_oov_indices=3), "int64", recurrent=False),
        (10, 20, 7, 8, 12),
    ),
    "words_of_ids": (lambda: plain(_layers.StringLookup(vocabulary=WORDS, invert=True), "int64"), (0, 1, 2, 3, 4, 9)),
    "counted_words": (
        lambda: plain(_layers.StringLookup(vocabulary=WORDS, output_mode="count"), "string"),
        (*WORDS, "dog"),
    ),
}
"""What builds each model, and what its input is drawn from."""


def drawn(name: str) -> Callable[[int], Any]:
    """Draws the input of a model."""
    draw = draw_of(list(MODELS[name][1]), 3, STEPS)
    return lambda seed: {"words": draw(seed)["x"]}
