"""Recurrent models over sequences that come in pieces: what is kept from call to call makes the pieces one sequence."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.models.recurrences.recurrent_keras import Layers, layer
from tests.models.recurrences.recurrent_keras_lstm import rnn_of_cells
from tests.models.recurrences.recurrent_lstm_variants import Variant
from tests.models.recurrences.recurrent_shells import Random, Shell
from tests.models.recurrences.recurrent_unknown import gru_before, sru
from tests.models.recurrences.recurrent_written import Make, simple_cell


@dataclass(frozen=True)
class Stream:
    """One model that gives a row of "y" for every step of "x".

    build: the model by its number of steps, None for an open one, and its batch. fused: as in a row of the matrix.
    pieces: the steps of the calls, one after another; all alike where the number of steps is not open.
    state: "keep" or "io".
    """

    name: str
    build: Callable[[int | None, int | None], Any]
    state: Any
    fused: Mapping[str, int] = field(default_factory=dict)
    pieces: Sequence[int] = (4, 4, 4)
    batch: int | None = 2

    def __str__(self) -> str:
        return f"{self.name}-{self.state}"

    @property
    def steps(self) -> int | None:
        """The number of steps of one call, None where it is open."""
        return self.pieces[0] if len(set(self.pieces)) == 1 else None


def _keras(wire: Any, library: str, steps: int | None, batch: int | None) -> Any:
    return Layers(wire, batch=batch, steps=steps).build(library)


def _written(make: Make, form: str, steps: int | None, batch: int | None) -> Any:
    assert steps is not None
    return Shell(form, batch=batch, steps=steps).function(make(Random()))


_LSTM = layer("LSTM", return_sequences=True)
_CUT = (1, 5, 2, 4)
_VARIANT = Variant(peephole=True, projection=3, cell_clip=0.5, order="fogi")
_Entry = tuple[str, Callable[[int | None, int | None], Any], Mapping[str, int], Sequence[int]]
_EITHER: tuple[_Entry, ...] = (
    ("keras-lstm", partial(_keras, _LSTM, "keras"), {"lstm": 1}, (4, 4, 4)),
    ("tf_keras-lstm", partial(_keras, _LSTM, "tf_keras"), {"lstm": 1}, (4, 4, 4)),
    ("keras-lstm-open_time", partial(_keras, _LSTM, "keras"), {"lstm": 1}, _CUT),
    ("keras-rnn", partial(_keras, layer("SimpleRNN", return_sequences=True), "keras"), {"rnn": 1}, _CUT),
    ("keras-gru", partial(_keras, layer("GRU", return_sequences=True), "keras"), {}, (4, 4, 4)),
    ("tf_keras-gru-open_time", partial(_keras, layer("GRU", return_sequences=True), "tf_keras"), {}, _CUT),
    ("keras-cells", partial(_keras, rnn_of_cells, "keras"), {"lstm": 2}, (3, 3, 3, 3)),
    ("written-lstm", partial(_written, _VARIANT.of, "while"), {"lstm": 1}, (1, 1, 1)),
    ("written-lstm-unrolled", partial(_written, Variant().of, "unrolled"), {"lstm": 1}, (4, 4, 4)),
    ("written-coupled", partial(_written, Variant(order="fgo").of, "scan"), {"lstm": 1}, (4, 4, 4)),
    ("written-rnn", partial(_written, simple_cell(), "indexed"), {"rnn": 1}, (4, 4, 4)),
    ("unknown-gru", partial(_written, gru_before, "while"), {}, (4, 4, 4)),
    ("unknown-sru", partial(_written, sru, "scan"), {}, (2, 2, 2, 2)),
)
STREAMS: tuple[Stream, ...] = (
    *(Stream(name, build, state, fused, pieces) for state in ("keep", "io") for name, build, fused, pieces in _EITHER),
    Stream("keras-lstm-open_batch", partial(_keras, _LSTM, "keras"), "io", {"lstm": 1}, batch=None),
    Stream("keras-gru-open_batch", partial(_keras, layer("GRU", return_sequences=True), "keras"), "io", batch=None),
)
