"""Files that jfuse converts: rows of the op tables, and models with recurrences, states, tables, lists and sounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import keras

import jfuse
from tests.corpus.file import File
from tests.models import mixed, sounds, tables
from tests.models.keras_libraries import awake
from tests.op_cases import FAMILIES
from tests.op_cases.runners import file_of

_EVERY = 50
"""Of so many rows of a family one is taken, the first among them."""


def _converted(build: Callable[[], Any], **options: Any) -> bytes:
    source = build()  # owns the variables, which functions hold weakly
    return jfuse.convert(source, verify=False, **options).to_bytes()


def _rows() -> Iterator[File]:
    for rows in FAMILIES.values():
        usual = [row for row in rows if row.litert is None and row.tolerance <= 1e-5 and row.inputs]
        for row in usual[::_EVERY]:
            make = partial(file_of, row, dynamic=row.dynamic)
            yield File(f"row-{row.id}", make, hosted=False, inputs=row.inputs)


def _recurrent(kind: str, batch: int | None = None, **options: Any) -> Any:
    x = keras.Input(batch_shape=(batch, 5, 6), name="x")
    layer = getattr(keras.layers, kind)(7, return_sequences=True, **options)
    return awake(keras.Model(x, keras.layers.Dense(4)(layer(x))))


def _both_ways() -> Any:
    x = keras.Input((5, 6), name="x")
    return awake(keras.Model(x, keras.layers.Bidirectional(keras.layers.LSTM(7))(x)))


def _models() -> Iterator[File]:
    for kind in ("LSTM", "GRU", "SimpleRNN"):
        yield File(f"jfuse-{kind}", partial(_converted, partial(_recurrent, kind)))
        kept = partial(_recurrent, kind, 2)
        yield File(f"jfuse-{kind}-keep", partial(_converted, kept, state="keep"))
    stateful = partial(_recurrent, "LSTM", 2, stateful=True)
    yield File("jfuse-LSTM-stateful", partial(_converted, stateful))
    yield File("jfuse-LSTM-io", partial(_converted, partial(_recurrent, "LSTM"), state="io"))
    yield File("jfuse-bidirectional", partial(_converted, _both_ways))
    for build in (mixed.mlp, mixed.autoencoder, mixed.siamese):
        yield File(f"jfuse-{build.__name__}", partial(_converted, partial(build, "keras")))
    for name in ("strings_to_floats", "strings_to_i64", "sparse"):
        yield File(f"jfuse-table-{name}", partial(_converted, partial(tables.lookup, name, None)))
    yield File("jfuse-log_mel", partial(_converted, partial(sounds.function, sounds.log_mel, 2, 400)))


FILES = (*_rows(), *_models())
