"""Functions that look up in tables, with what they are given."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

Arrays = dict[str, np.ndarray]
_FEW, _FAR = ("a", "größe", "zz z"), (-(2**60), 2, 2**62 + 1)
_EXTREME = (-(2**63), -(2**31), -1, 0, 1, 3, 6, 100, 2**31, 2**62 + 1 + 2147483629, 2**63 - 1)

TABLES: dict[str, tuple[Sequence[Any], Sequence[Any], Any]] = {
    "strings_to_i64": (_FEW, [10, 20, 30], -1),
    "strings_to_floats": (_FEW, [1.5, 2.5, 3.5], -1.0),
    "strings_to_strings": (_FEW, ["q", "", "ww"], "none"),
    "i64_to_strings": ([-100000, 2, 500000], ["a", "b", ""], "q"),
    "dense": ([1, 2, 5], [1.5, 2.5, 3.5], -1.0),
    "dense_below_zero": ([-5, -3, 0, 4], [1, 2, 3, 4], 9),
    "sparse": ([-100000, 2, 500000], [7, 8, 9], 0),
    "far_apart": (_FAR, [7, 8, 9], 0),
    "at_the_ends": ([-(2**63), 2**63 - 1, 5], [7, 8, 9], 0),
}
"""Keys, values and the default, by name."""


def table(name: str) -> tf.lookup.StaticHashTable:
    """The table of that name."""
    keys, values, default = TABLES[name]
    filled = tf.lookup.KeyValueTensorInitializer(_tensor(keys), _tensor(values))
    return tf.lookup.StaticHashTable(filled, default)


def _tensor(values: Sequence[Any]) -> Any:
    return tf.constant(values, tf.int64 if isinstance(values[0], int) else None)


def lookup(name: str, *shape: int | None) -> Any:
    """A tf.function that looks up a tensor `x` in a table."""
    made = table(name)
    of = tf.TensorSpec(shape, made.key_dtype, name="x")
    return tf.function(made.lookup, input_signature=[of], autograph=False)


def drawn(name: str, *shape: int) -> Callable[[int], Arrays]:
    """Draws keys, and others."""
    keys = TABLES[name][0]
    return draw_of([*keys, *(("", "A", "jfuse") if isinstance(keys[0], str) else _EXTREME)], *shape)


def draw_of(words: Sequence[Any], *shape: int) -> Callable[[int], Arrays]:
    """Draws `x` from words or numbers; the first element is the seed's own."""
    is_text = isinstance(words[0], str)
    choices = np.array([w.encode() for w in words], object) if is_text else np.array(words, np.int64)

    def draw(seed: int) -> Arrays:
        places = np.random.default_rng(seed).integers(0, len(words), shape)
        places.ravel()[0] = seed % len(words)
        return {"x": choices[places]}

    return draw


class FromFile(tf.Module):
    """Words numbered by the lines of a file, which a SavedModel has among its assets."""

    def __init__(self, vocabulary: Path) -> None:
        super().__init__()
        whole, number = tf.lookup.TextFileIndex.WHOLE_LINE, tf.lookup.TextFileIndex.LINE_NUMBER
        lines = tf.lookup.TextFileInitializer(str(vocabulary), tf.string, whole, tf.int64, number)
        self.table = tf.lookup.StaticHashTable(lines, -1)

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="x")], autograph=False)
    def number(self, x: Any) -> Any:
        """The numbers of words."""
        return self.table.lookup(x)

    @tf.function(input_signature=[tf.TensorSpec((None,), tf.string, name="x")], autograph=False)
    def known(self, x: Any) -> Any:
        """Which words have a number, and how many of all there are."""
        return self.table.lookup(x) >= 0, self.table.size()
