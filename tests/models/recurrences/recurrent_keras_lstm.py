"""The matrix's rows with LSTM layers of Keras."""

from __future__ import annotations

from typing import Any

from tests.models.recurrences.recurrent_keras import Case, Layers, Wire, embedded, layer, masked
from tests.models.recurrences.recurrent_rows import Row, padded_ids, padded_rows

_ONE = {"lstm": 1}
_STATES = ((4,), (4,))
_RIGHT, _LEFT = {"padding": "right"}, {"padding": "left"}


def lstm(units: int = 4, **options: Any) -> Wire:
    """One LSTM layer."""
    return layer("LSTM", units, **options)


def relu6(k: Any, x: Any) -> Any:
    """An LSTM with the clipped activation, which is an object in both libraries."""
    import tensorflow as tf

    return k.layers.LSTM(4, activation=tf.nn.relu6, return_sequences=True)(x)


OPTIONS = (
    Case("lstm", Layers(lstm(return_sequences=True)), _ONE),
    Case("lstm-last", Layers(lstm()), _ONE),
    Case("lstm-sequence_and_states", Layers(lstm(return_sequences=True, return_state=True)), _ONE),
    Case("lstm-states", Layers(lstm(return_state=True)), _ONE),
    Case("lstm-go_backwards", Layers(lstm(go_backwards=True, return_state=True)), _ONE),
    Case("lstm-go_backwards-sequence", Layers(lstm(go_backwards=True, return_sequences=True)), _ONE),
    Case("lstm-batch_1", Layers(lstm(return_sequences=True, return_state=True), batch=1), _ONE),
    Case("lstm-batch_3", Layers(lstm(return_state=True), batch=3), _ONE),
    Case("lstm-one_unit", Layers(lstm(1, return_sequences=True), features=(1,)), _ONE),
    Case("lstm-one_step", Layers(lstm(return_state=True), steps=1, extra=_STATES), _ONE),
    Case("lstm-open_time", Layers(lstm(return_sequences=True, return_state=True), steps=None), _ONE),
    Case("lstm-open_time-batch_1", Layers(lstm(return_sequences=True), batch=1, steps=None), _ONE),
    Case("lstm-no_bias", Layers(lstm(use_bias=False, return_sequences=True)), _ONE),
    Case("lstm-no_bias-batch_1", Layers(lstm(use_bias=False, return_sequences=True), batch=1), _ONE),
    Case("lstm-no_unit_forget_bias", Layers(lstm(unit_forget_bias=False)), _ONE),
    Case("lstm-implementation_1", Layers(lstm(implementation=1, return_sequences=True)), _ONE, libraries=["tf_keras"]),
    Case("lstm-unroll", Layers(lstm(unroll=True, return_sequences=True, return_state=True)), _ONE),
    Case("lstm-unroll-last", Layers(lstm(unroll=True)), _ONE),
    Case("lstm-unroll-go_backwards-batch_1", Layers(lstm(unroll=True, go_backwards=True), batch=1), _ONE),
    Case(
        "lstm-time_major",
        Layers(lstm(time_major=True, return_sequences=True), batch=6),
        _ONE,
        libraries=["tf_keras"],
    ),
    Case("lstm-dropout", Layers(lstm(dropout=0.3, return_sequences=True)), _ONE),
    Case("lstm-recurrent_dropout", Layers(lstm(dropout=0.3, recurrent_dropout=0.2, return_state=True)), _ONE),
)
ACTIVATIONS = (
    Case("lstm-relu", Layers(lstm(activation="relu", return_sequences=True)), _ONE),
    Case("lstm-relu6", Layers(relu6), _ONE),
    Case("lstm-linear", Layers(lstm(activation="linear", return_sequences=True)), loops=None),
    Case("lstm-sigmoid", Layers(lstm(activation="sigmoid", return_sequences=True)), loops=None),
    Case("lstm-hard_sigmoid", Layers(lstm(recurrent_activation="hard_sigmoid", return_sequences=True)), loops=None),
    Case("lstm-recurrent_tanh", Layers(lstm(recurrent_activation="tanh", return_state=True)), loops=None),
)


def encoder_decoder(k: Any, x: Any, source: Any) -> Any:
    """An LSTM that starts from another's final states."""
    _, h, c = k.layers.LSTM(4, return_state=True)(source)
    return k.layers.LSTM(4, return_sequences=True)(x, initial_state=[h, c])


def dense_states(k: Any, x: Any, context: Any) -> Any:
    """Initial states computed by Dense layers."""
    states = [k.layers.Dense(4, activation="tanh")(context) for _ in range(2)]
    return k.layers.LSTM(4, return_sequences=True, return_state=True)(x, initial_state=states)


def shared_by_two(k: Any, x: Any, other: Any) -> Any:
    """One layer on two sequences."""
    shared = k.layers.LSTM(4, return_sequences=True)
    return k.layers.Concatenate()([shared(x), shared(other)])


def called_twice(k: Any, x: Any) -> Any:
    """One layer on its own output."""
    shared = k.layers.LSTM(5, return_sequences=True)
    return shared(shared(x))


def stacked(k: Any, x: Any) -> Any:
    """Three LSTMs, one after another."""
    for units in (4, 3):
        x = k.layers.LSTM(units, return_sequences=True)(x)
    return k.layers.LSTM(6)(x)


def residual(k: Any, x: Any) -> Any:
    """The input added to what the LSTM makes of it."""
    return k.layers.Add()([x, k.layers.LSTM(5, return_sequences=True)(x)])


def dense_around(k: Any, x: Any) -> Any:
    """Dense layers at every step before and after the LSTM."""
    x = k.layers.Dense(6, activation="relu")(x)
    return k.layers.TimeDistributed(k.layers.Dense(2))(k.layers.LSTM(4, return_sequences=True)(x))


def then_gru(k: Any, x: Any) -> Any:
    """An LSTM, then a GRU, then an LSTM."""
    x = k.layers.GRU(4, return_sequences=True)(k.layers.LSTM(4, return_sequences=True)(x))
    return k.layers.LSTM(3)(x)


def repeated(k: Any, x: Any) -> Any:
    """A sequence autoencoder: the last output, repeated, through another LSTM."""
    x = k.layers.RepeatVector(5)(k.layers.LSTM(4)(x))
    return k.layers.TimeDistributed(k.layers.Dense(3))(k.layers.LSTM(4, return_sequences=True)(x))


def pooled(k: Any, x: Any) -> Any:
    """Normalized before, pooled after, with a Dropout between."""
    x = k.layers.LSTM(4, return_sequences=True)(k.layers.LayerNormalization(epsilon=1e-6)(x))
    return k.layers.Dense(2)(k.layers.GlobalAveragePooling1D()(k.layers.Dropout(0.3)(x)))


def convolved(k: Any, x: Any) -> Any:
    """A causal convolution before the LSTM."""
    return k.layers.LSTM(4, return_sequences=True)(k.layers.Conv1D(6, 2, padding="causal")(x))


def over_frames(k: Any, x: Any) -> Any:
    """An LSTM within each of three frames, then one over the frames."""
    return k.layers.LSTM(3)(k.layers.TimeDistributed(k.layers.LSTM(4))(x))


def attended(k: Any, x: Any) -> Any:
    """Dot-product attention over the LSTM's outputs."""
    y = k.layers.LSTM(4, return_sequences=True)(x)
    return k.layers.Attention()([y, y])


def rnn_of_cell(k: Any, x: Any) -> Any:
    """RNN(LSTMCell)."""
    return k.layers.RNN(k.layers.LSTMCell(4), return_sequences=True, return_state=True)(x)


def rnn_of_cells(k: Any, x: Any) -> Any:
    """RNN of a list of LSTM cells."""
    return k.layers.RNN([k.layers.LSTMCell(4), k.layers.LSTMCell(3)], return_sequences=True)(x)


def stacked_cells(k: Any, x: Any) -> Any:
    """StackedRNNCells of three, with all states."""
    cells = k.layers.StackedRNNCells([k.layers.LSTMCell(n) for n in (4, 3, 5)])
    return k.layers.RNN(cells, return_state=True)(x)


def mixed_cells(k: Any, x: Any) -> Any:
    """An LSTM cell and a simple one in one loop."""
    return k.layers.RNN([k.layers.LSTMCell(4), k.layers.SimpleRNNCell(3)], return_sequences=True)(x)


def lstm_over_gru_cell(k: Any, x: Any) -> Any:
    """An LSTM cell on top of a GRU cell: one fuses, the other loops."""
    return k.layers.RNN([k.layers.GRUCell(4), k.layers.LSTMCell(3)], return_sequences=True)(x)


def unrolled_cells(k: Any, x: Any) -> Any:
    """Two cells in one unrolled loop."""
    return k.layers.RNN([k.layers.LSTMCell(4), k.layers.LSTMCell(3)], unroll=True, return_sequences=True)(x)


USES = (
    Case("lstm-initial_states", Layers(lstm(return_sequences=True, return_state=True), extra=_STATES), _ONE),
    Case("lstm-initial_states-batch_1", Layers(lstm(return_sequences=True), batch=1, extra=_STATES), _ONE),
    Case("lstm-dense_states", Layers(dense_states, extra=((6,),)), _ONE),
    Case("lstm-encoder_decoder", Layers(encoder_decoder, extra=((4, 3),)), {"lstm": 2}),
    Case("lstm-encoder_decoder-open_time", Layers(encoder_decoder, steps=None, extra=((None, 3),)), {"lstm": 2}),
    Case("lstm-shared_by_two", Layers(shared_by_two, extra=((6, 5),)), {"lstm": 2}),
    Case("lstm-called_twice", Layers(called_twice), {"lstm": 2}),
    Case("lstm-stacked", Layers(stacked), {"lstm": 3}),
    Case("lstm-residual", Layers(residual), _ONE),
    Case("lstm-dense_around", Layers(dense_around), _ONE),
    Case("lstm-then_gru", Layers(then_gru), {"lstm": 2}, loops=None),
    Case("lstm-repeated", Layers(repeated), {"lstm": 2}),
    Case("lstm-pooled", Layers(pooled, batch=3), _ONE),
    Case("lstm-convolved", Layers(convolved), _ONE),
    Case("lstm-attended", Layers(attended, batch=2), _ONE),
    Case("lstm-embedded", Layers(embedded("LSTM", mask_zero=False), vocabulary=20), _ONE),
    Case("lstm-over_frames", Layers(over_frames, batch=2, steps=3, features=(4, 5)), {"lstm": 4}, libraries=["keras"]),
    Case(
        "lstm-over_frames", Layers(over_frames, batch=2, steps=3, features=(4, 5)), {"lstm": 2}, libraries=["tf_keras"]
    ),
)
CELLS = (
    Case("rnn_of_cell", Layers(rnn_of_cell), _ONE),
    Case("rnn_of_cells", Layers(rnn_of_cells), {"lstm": 2}),
    Case("stacked_cells", Layers(stacked_cells), {"lstm": 3}),
    Case("stacked_cells-batch_1", Layers(stacked_cells, batch=1), {"lstm": 3}),
    Case("mixed_cells", Layers(mixed_cells), {"lstm": 1, "rnn": 1}),
    Case("lstm_over_gru_cell", Layers(lstm_over_gru_cell), _ONE, loops=None),
    Case("unrolled_cells", Layers(unrolled_cells), {"lstm": 2}),
)
MASKS = (
    Case("masked", Layers(masked("LSTM", return_sequences=True)), loops=None, draw=padded_rows("any")),
    Case(
        "masked-right",
        Layers(masked("LSTM", return_sequences=True, return_state=True)),
        _ONE,
        options=_RIGHT,
        draw=padded_rows("right"),
    ),
    Case("masked-right-last", Layers(masked("LSTM")), _ONE, options=_RIGHT, draw=padded_rows("right")),
    Case("masked-left", Layers(masked("LSTM", return_state=True)), _ONE, options=_LEFT, draw=padded_rows("left")),
    Case(
        "masked-left-sequence",
        Layers(masked("LSTM", return_sequences=True)),
        _ONE,
        options=_LEFT,
        draw=padded_rows("left"),
    ),
    Case(
        "masked-zero_output",
        Layers(masked("LSTM", return_sequences=True, zero_output_for_mask=True)),
        loops=None,
        draw=padded_rows("any"),
        libraries=["keras"],
    ),
    Case(
        "masked-zero_output-right",
        Layers(masked("LSTM", return_sequences=True, zero_output_for_mask=True)),
        _ONE,
        options=_RIGHT,
        draw=padded_rows("right"),
        libraries=["keras"],
    ),
    Case(
        "masked-go_backwards-right",
        Layers(masked("LSTM", go_backwards=True, return_sequences=True)),
        _ONE,
        options=_RIGHT,
        draw=padded_rows("right"),
    ),
    Case(
        "masked-ids",
        Layers(embedded("LSTM", return_sequences=True), vocabulary=20),
        loops=None,
        draw=padded_ids("any"),
    ),
    Case(
        "masked-ids-right",
        Layers(embedded("LSTM"), vocabulary=20),
        _ONE,
        options=_RIGHT,
        draw=padded_ids("right"),
    ),
    Case(
        "masked-ids-right-batch_1",
        Layers(embedded("LSTM", return_sequences=True), batch=1, vocabulary=20),
        _ONE,
        options=_RIGHT,
        draw=padded_ids("right", batch=1),
    ),
    Case(
        "masked-initial_states-right",
        Layers(
            lambda k, x, h, c: k.layers.LSTM(4, return_state=True)(k.layers.Masking(0.0)(x), initial_state=[h, c]),
            batch=2,
            extra=_STATES,
        ),
        _ONE,
        options=_RIGHT,
    ),
)
# f16 and bf16 hold 11 and 8 bits: a dozen roundings of the source's own in every output.
DTYPES = (
    Case("mixed_float16", Layers(lstm(return_sequences=True, dtype="mixed_float16")), _ONE, tolerance=5e-3),
    Case("mixed_bfloat16", Layers(lstm(return_sequences=True, dtype="mixed_bfloat16")), _ONE, tolerance=4e-2),
)
STATEFUL = (
    Case("stateful", Layers(lstm(stateful=True, return_sequences=True), batch=2), _ONE),
    Case("stateful-states", Layers(lstm(stateful=True, return_state=True), batch=1), _ONE),
    Case("stateful-reset", Layers(lstm(stateful=True), batch=2), _ONE, options={"state": "reset"}),
)

_KINDS = {
    "keras_lstm": OPTIONS,
    "keras_lstm_activation": ACTIVATIONS,
    "keras_lstm_use": USES,
    "keras_cells": CELLS,
    "keras_lstm_mask": MASKS,
    "keras_lstm_dtype": DTYPES,
    "keras_lstm_stateful": STATEFUL,
}
ROWS: tuple[Row, ...] = tuple(row for kind, cases in _KINDS.items() for case in cases for row in case.rows(kind))
