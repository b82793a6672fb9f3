"""The matrix's rows with SimpleRNN, GRU, Bidirectional and ConvLSTM layers of Keras."""

from __future__ import annotations

from typing import Any

from tests.models.recurrences.recurrent_keras import Case, Layers, bidirectional, embedded, layer, masked
from tests.models.recurrences.recurrent_rows import Row, padded_ids, padded_rows

_RIGHT = {"padding": "right"}
_RNN = {"rnn": 1}


def _relu6(kind: str) -> Any:
    def wire(k: Any, x: Any) -> Any:
        import tensorflow as tf

        return getattr(k.layers, kind)(4, activation=tf.nn.relu6, return_sequences=True)(x)

    return wire


SIMPLE = (
    Case("rnn", Layers(layer("SimpleRNN", return_sequences=True, return_state=True)), _RNN),
    Case("rnn-last", Layers(layer("SimpleRNN")), _RNN),
    Case("rnn-relu", Layers(layer("SimpleRNN", activation="relu", return_sequences=True)), _RNN),
    Case("rnn-relu6", Layers(_relu6("SimpleRNN")), _RNN),
    Case("rnn-linear", Layers(layer("SimpleRNN", activation="linear", return_sequences=True)), _RNN),
    Case("rnn-sigmoid", Layers(layer("SimpleRNN", activation="sigmoid", return_sequences=True)), loops=None),
    Case("rnn-no_bias", Layers(layer("SimpleRNN", use_bias=False, return_sequences=True)), _RNN),
    Case("rnn-go_backwards", Layers(layer("SimpleRNN", go_backwards=True, return_sequences=True)), _RNN),
    Case("rnn-batch_1", Layers(layer("SimpleRNN", return_sequences=True), batch=1), _RNN),
    Case("rnn-one_unit", Layers(layer("SimpleRNN", 1, return_sequences=True), features=(1,)), _RNN),
    Case("rnn-open_time", Layers(layer("SimpleRNN", return_sequences=True), steps=None), _RNN),
    Case("rnn-one_step", Layers(layer("SimpleRNN"), steps=1, extra=((4,),)), _RNN),
    Case("rnn-unroll", Layers(layer("SimpleRNN", unroll=True, return_sequences=True)), _RNN),
    Case("rnn-initial_state", Layers(layer("SimpleRNN", return_state=True), extra=((4,),)), _RNN),
    Case("rnn-dropout", Layers(layer("SimpleRNN", dropout=0.2, recurrent_dropout=0.2)), _RNN),
    Case("rnn-stateful", Layers(layer("SimpleRNN", stateful=True, return_sequences=True), batch=2), _RNN),
    Case("rnn-masked", Layers(masked("SimpleRNN", return_sequences=True)), loops=None, draw=padded_rows("any")),
    Case("rnn-embedded", Layers(embedded("SimpleRNN", mask_zero=False), vocabulary=20), _RNN),
    Case(
        "rnn-cells",
        Layers(
            lambda k, x: k.layers.RNN([k.layers.SimpleRNNCell(4), k.layers.SimpleRNNCell(3)], return_sequences=True)(x)
        ),
        {"rnn": 2},
    ),
)


def gru_encoder_decoder(k: Any, x: Any, source: Any) -> Any:
    """A GRU that starts from another's final state."""
    _, h = k.layers.GRU(4, return_state=True)(source)
    return k.layers.GRU(4, return_sequences=True)(x, initial_state=h)


_WHILE, _UNROLL = {"loop": "while"}, {"loop": "unroll"}
GRU = (
    Case("gru", Layers(layer("GRU", return_sequences=True, return_state=True)), loops=None),
    Case("gru-last", Layers(layer("GRU")), loops=None),
    Case("gru-while", Layers(layer("GRU", return_sequences=True)), loops=1, options=_WHILE),
    Case("gru-while-last", Layers(layer("GRU"), batch=2), loops=1, options=_WHILE),
    Case("gru-unrolled", Layers(layer("GRU", return_sequences=True)), options=_UNROLL),
    Case("gru-unrolled-batch_1", Layers(layer("GRU", return_state=True), batch=1), options=_UNROLL),
    Case("gru-reset_before", Layers(layer("GRU", reset_after=False, return_sequences=True)), loops=None),
    Case(
        "gru-reset_before-while",
        Layers(layer("GRU", reset_after=False, return_sequences=True), batch=1),
        loops=1,
        options=_WHILE,
    ),
    Case("gru-relu", Layers(layer("GRU", activation="relu", return_sequences=True)), loops=None),
    Case(
        "gru-hard_sigmoid",
        Layers(layer("GRU", recurrent_activation="hard_sigmoid", return_sequences=True)),
        loops=None,
    ),
    Case("gru-no_bias", Layers(layer("GRU", use_bias=False, return_sequences=True)), loops=None),
    Case("gru-go_backwards", Layers(layer("GRU", go_backwards=True, return_sequences=True)), loops=None),
    Case("gru-open_time", Layers(layer("GRU", return_sequences=True), steps=None), loops=None),
    Case("gru-unroll", Layers(layer("GRU", unroll=True, return_sequences=True)), loops=None),
    Case("gru-dropout", Layers(layer("GRU", dropout=0.2, recurrent_dropout=0.2)), loops=None),
    Case("gru-initial_state", Layers(layer("GRU", return_sequences=True), extra=((4,),)), loops=None),
    Case("gru-encoder_decoder", Layers(gru_encoder_decoder, extra=((4, 3),)), loops=None),
    Case("gru-stateful", Layers(layer("GRU", stateful=True, return_sequences=True), batch=2), loops=None),
    Case("gru-masked", Layers(masked("GRU", return_sequences=True)), loops=None, draw=padded_rows("any")),
    Case(
        "gru-masked-ids-right",
        Layers(embedded("GRU", return_state=True), vocabulary=20),
        loops=None,
        options=_RIGHT,
        draw=padded_ids("right"),
    ),
    Case("gru-bidirectional", Layers(bidirectional("GRU", return_sequences=True)), loops=None),
    Case("gru-bidirectional-sum", Layers(bidirectional("GRU", merge="sum"), batch=1), loops=None),
    Case("gru-cells", Layers(lambda k, x: k.layers.RNN([k.layers.GRUCell(4), k.layers.GRUCell(3)])(x)), loops=None),
)


def two_bidirectional(k: Any, x: Any) -> Any:
    """Two bidirectional LSTMs, one after another."""
    for units in (4, 3):
        x = k.layers.Bidirectional(k.layers.LSTM(units, return_sequences=True))(x)
    return x


def other_backward(k: Any, x: Any) -> Any:
    """A backward layer that is not the forward one's copy."""
    backward = k.layers.LSTM(4, go_backwards=True, return_sequences=True, use_bias=False)
    return k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True), backward_layer=backward)(x)


def by_hand(k: Any, x: Any) -> Any:
    """Two directions of different widths, without the wrapper, the second left in its own order."""
    forward = k.layers.LSTM(4, return_sequences=True)(x)
    return k.layers.Concatenate()([forward, k.layers.LSTM(3, return_sequences=True, go_backwards=True)(x)])


def masked_bidirectional(k: Any, x: Any) -> Any:
    """A bidirectional LSTM behind a Masking layer."""
    return k.layers.Bidirectional(k.layers.LSTM(4, return_sequences=True))(k.layers.Masking(0.0)(x))


_TWO, _TWO_RNN = {"lstm": 2}, {"rnn": 2}
_STATES = ((4,),) * 4
BIDIRECTIONAL = (
    Case("bilstm", Layers(bidirectional("LSTM", return_sequences=True)), _TWO),
    Case("bilstm-last", Layers(bidirectional("LSTM")), _TWO),
    Case("bilstm-batch_1", Layers(bidirectional("LSTM", return_sequences=True), batch=1), _TWO),
    Case("bilstm-batch_3", Layers(bidirectional("LSTM", return_sequences=True), batch=3), _TWO),
    Case("bilstm-sum", Layers(bidirectional("LSTM", merge="sum", return_sequences=True)), _TWO),
    Case("bilstm-mul", Layers(bidirectional("LSTM", merge="mul", return_sequences=True)), _TWO),
    Case("bilstm-ave", Layers(bidirectional("LSTM", merge="ave")), _TWO),
    Case("bilstm-none", Layers(bidirectional("LSTM", merge=None, return_sequences=True)), _TWO),
    Case("bilstm-states", Layers(bidirectional("LSTM", return_sequences=True, return_state=True)), _TWO),
    Case("bilstm-initial_states", Layers(bidirectional("LSTM", return_sequences=True), extra=_STATES), _TWO),
    Case("bilstm-open_time", Layers(bidirectional("LSTM", return_sequences=True), steps=None), _TWO),
    Case("bilstm-unroll", Layers(bidirectional("LSTM", return_sequences=True, unroll=True)), _TWO),
    Case("bilstm-stacked", Layers(two_bidirectional), {"lstm": 4}),
    Case("bilstm-other_backward", Layers(other_backward), _TWO),
    Case("bilstm-by_hand", Layers(by_hand), _TWO),
    Case("bilstm-no_bias-relu", Layers(bidirectional("LSTM", activation="relu", use_bias=False)), _TWO),
    Case("bilstm-stateful", Layers(bidirectional("LSTM", stateful=True, return_sequences=True), batch=2), _TWO),
    Case("bilstm-masked", Layers(masked_bidirectional), loops=None, draw=padded_rows("any")),
    Case("bilstm-masked-right", Layers(masked_bidirectional), _TWO, options=_RIGHT, draw=padded_rows("right")),
    Case("birnn", Layers(bidirectional("SimpleRNN", return_sequences=True)), _TWO_RNN),
    Case("birnn-last-sum", Layers(bidirectional("SimpleRNN", merge="sum")), _TWO_RNN),
    Case(
        "birnn-none-batch_1", Layers(bidirectional("SimpleRNN", merge=None, return_sequences=True), batch=1), _TWO_RNN
    ),
    Case("birnn-relu-states", Layers(bidirectional("SimpleRNN", activation="relu", return_state=True)), _TWO_RNN),
)


def conv_lstm(**options: Any) -> Any:
    """A ConvLSTM2D over frames f32[b,t,5,4,2]."""
    return lambda k, x: k.layers.ConvLSTM2D(3, (2, 3), padding="same", **options)(x)


_FRAMES = (5, 4, 2)
CONVOLUTIONAL = (
    Case("conv_lstm", Layers(conv_lstm(return_sequences=True), batch=2, steps=4, features=_FRAMES), loops=None),
    Case("conv_lstm-last", Layers(conv_lstm(return_state=True), steps=3, features=_FRAMES), loops=None),
    Case("conv_lstm-no_bias", Layers(conv_lstm(use_bias=False), batch=1, steps=3, features=_FRAMES), loops=None),
)
_KINDS = {
    "keras_rnn": SIMPLE,
    "keras_gru": GRU,
    "keras_bidirectional": BIDIRECTIONAL,
    "keras_convolutional": CONVOLUTIONAL,
}
ROWS: tuple[Row, ...] = tuple(row for kind, cases in _KINDS.items() for case in cases for row in case.rows(kind))
