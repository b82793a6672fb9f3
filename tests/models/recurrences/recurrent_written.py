"""The matrix's rows written by hand: LSTMs in every spelling and variant, simple RNNs, several in one loop."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import tensorflow as tf

from tests.models.recurrences import recurrent_lstm_variants as spelled
from tests.models.recurrences.recurrent_lstm_variants import Variant
from tests.models.recurrences.recurrent_rows import Row
from tests.models.recurrences.recurrent_shells import Cell, Random, Shell

Make = Callable[[Random], Cell]


def _build(cell: Make, shell: Shell, folder: Path) -> Any:
    return shell.function(cell(Random()))


def _row(name: str, kind: str, cell: Make, shell: Shell, loops: int | None = 0, **fused: int) -> Row:
    return Row(f"written-{name}", kind, partial(_build, cell, shell), fused, loops=loops)


_SPELLINGS: dict[str, tuple[Variant, Shell]] = {
    "joined": (Variant(), Shell()),
    "joined-foig": (Variant(order="foig"), Shell(batch=2)),
    "joined-no_bias": (Variant(bias=False), Shell()),
    "concatenated": (Variant(spelled.concatenated, order="gifo"), Shell()),
    "concatenated-batch_1": (Variant(spelled.concatenated, order="igfo", forget_bias=1.0), Shell(batch=1)),
    "separate": (Variant(spelled.separate), Shell()),
    "separate-no_bias": (Variant(spelled.separate, bias=False), Shell("indexed", batch=1)),
    "four_of_concatenated": (Variant(spelled.four_of_concatenated, order="ofgi"), Shell()),
    "two_pairs": (Variant(spelled.two_pairs, order="gofi"), Shell(batch=3)),
    "transposed": (Variant(spelled.transposed, order="fiog"), Shell()),
    "stacked": (Variant(spelled.stacked, order="oifg"), Shell(batch=2)),
    "normalized_weights": (Variant(spelled.normalized_weights), Shell()),
    "two_biases": (Variant(spelled.two_biases, forget_bias=0.5), Shell(time_major=True)),
}
_SHELLS: dict[str, Shell] = {
    "indexed": Shell("indexed"),
    "indexed-time_major": Shell("indexed", time_major=True),
    "time_major": Shell(time_major=True, batch=2),
    "scan": Shell("scan"),
    "scan-outputs": Shell("scan", final=False),
    "scan-time_major": Shell("scan", batch=2, time_major=True),
    "unrolled": Shell("unrolled"),
    "unrolled-batch_1": Shell("unrolled", batch=1),
    "unstacked": Shell("unstacked"),
    "unstacked-time_major": Shell("unstacked", batch=3, time_major=True),
    "last": Shell("last"),
    "initial": Shell(initial=True),
    "initial-scan": Shell("scan", initial=True),
    "initial-unrolled": Shell("unrolled", initial=True),
}
_VARIANTS: dict[str, tuple[Variant, Shell]] = {
    "peephole": (Variant(peephole=True), Shell(initial=True)),
    "peephole-separate": (Variant(spelled.separate, peephole=True, order="fogi"), Shell(batch=1)),
    "projection": (Variant(projection=3), Shell(initial=True)),
    "projection-bias": (Variant(spelled.concatenated, projection=2, projection_bias=True), Shell()),
    # The kernel takes no projection that is wider than the cell, unless the cell is widened.
    "projection-wider": (Variant(projection=6), Shell()),
    "cell_clip": (Variant(cell_clip=0.4), Shell()),
    "projection_clip": (Variant(projection=3, projection_clip=0.3), Shell()),
    "all_of_them": (
        Variant(
            spelled.concatenated,
            order="igfo",
            forget_bias=1.0,
            peephole=True,
            projection=3,
            cell_clip=0.5,
            projection_clip=0.25,
        ),
        Shell(),
    ),
    "coupled": (Variant(order="fgo"), Shell(initial=True)),
    "coupled-peephole": (Variant(spelled.separate, order="ofg", peephole=True), Shell()),
    "coupled-projection-clip": (Variant(spelled.concatenated, order="gfo", projection=3, cell_clip=0.6), Shell()),
    "layer_norm": (Variant(bias=False, norm=1e-8), Shell()),
    "layer_norm-peephole": (Variant(bias=False, norm=1e-8, peephole=True), Shell(batch=2)),
    "layer_norm-coupled": (Variant(spelled.separate, order="fgo", bias=False, norm=1e-8), Shell()),
    "layer_norm-projection": (Variant(spelled.concatenated, bias=False, norm=1e-8, projection=3), Shell()),
    "diagonal": (Variant(diagonal=True), Shell()),
    "diagonal-peephole": (Variant(diagonal=True, peephole=True), Shell(batch=1)),
    "relu": (Variant(activation="relu"), Shell()),
    "relu6": (Variant(spelled.concatenated, activation="relu6"), Shell()),
    "relu-projection": (Variant(activation="relu", projection=3), Shell()),
    "peephole-scan": (Variant(peephole=True), Shell("scan")),
    "projection-unrolled": (Variant(projection=3), Shell("unrolled", batch=1)),
    "coupled-last": (Variant(order="fgo"), Shell("last")),
}


def simple_cell(act: Callable[[Any], Any] = tf.tanh, *, concatenated: bool = False, bias: bool = True) -> Make:
    """A simple RNN: h' = act(x·W + h·U + b)."""

    def make(r: Random) -> Cell:
        w, u, b = r.kernel(r.features, r.units), r.kernel(r.units, r.units), r.vector(r.units)

        def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            (h,) = states
            z = tf.concat([x, h], 1) @ tf.concat([w, u], 0) if concatenated else h @ u + x @ w
            h = act(z + b if bias else z)
            return h, (h,)

        return Cell(step, (r.units,))

    return make


_SIMPLE: dict[str, tuple[Make, Shell]] = {
    "rnn": (simple_cell(), Shell()),
    "rnn-concatenated": (simple_cell(concatenated=True), Shell(time_major=True)),
    "rnn-relu-no_bias": (simple_cell(tf.nn.relu, bias=False), Shell()),
    "rnn-clipped_at_6": (simple_cell(lambda z: tf.minimum(tf.maximum(z, 0.0), 6.0)), Shell()),
    "rnn-linear": (simple_cell(tf.identity), Shell(batch=1)),
    "rnn-clipped_at_1": (simple_cell(lambda z: tf.clip_by_value(z, -1.0, 1.0)), Shell()),
    "rnn-scan": (simple_cell(), Shell("scan", initial=True)),
    "rnn-unrolled": (simple_cell(concatenated=True), Shell("unrolled")),
}


def normed_together(r: Random) -> Cell:
    """An LSTM with a layer norm in each gate, spelled for all gates at once."""
    w, u = r.kernel(r.features, 4 * r.units), r.kernel(r.units, 4 * r.units)
    scale, shift = r.vector(4 * r.units, 1.0), r.vector(4 * r.units)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        z = tf.reshape(x @ w + states[0] @ u, [-1, 4, r.units])
        mean, variance = tf.nn.moments(z, [2], keepdims=True)
        z = tf.reshape((z - mean) / tf.sqrt(variance + 1e-8), [-1, 4 * r.units]) * scale + shift
        i, f, g, o = tf.split(z, 4, 1)
        c = tf.sigmoid(f) * states[1] + tf.sigmoid(i) * tf.tanh(g)
        h = tf.sigmoid(o) * tf.tanh(c)
        return h, (h, c)

    return Cell(step, (r.units, r.units))


def lstm_of_two(first: Variant, second: Variant) -> Make:
    """Two LSTMs in one loop: the second reads what the first gives."""

    def make(r: Random) -> Cell:
        one, two = first.of(r), second.of(r)
        widen = r.kernel(one.widths[0], r.features)

        def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
            y, lower = one.step(x, states[:2])
            z, upper = two.step(y @ widen, states[2:])
            return z, (*lower, *upper)

        return Cell(step, (*one.widths, *two.widths))

    return make


def lstms_side_by_side(r: Random) -> Cell:
    """Two LSTMs in one loop on the same input that do not know of each other."""
    one, two = Variant(order="foig").of(r), Variant().of(r)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        y, left = one.step(x, states[:2])
        z, right = two.step(x, states[2:])
        return tf.concat([y, z], 1), (*left, *right)

    return Cell(step, (*one.widths, *two.widths))


def dense_after_each_step(r: Random) -> Cell:
    """An LSTM whose loop also computes what is read off its output."""
    inner, kernel = Variant().of(r), r.kernel(r.units, 2)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        h, states = inner.step(x, states)
        return tf.nn.softmax(h @ kernel), states

    return Cell(step, inner.widths)


def dense_before_each_step(r: Random) -> Cell:
    """An LSTM whose loop prepares its input with a layer that is not linear."""
    inner, kernel = Variant().of(r), r.kernel(r.features, r.features)

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        return inner.step(tf.nn.relu(x @ kernel), states)

    return Cell(step, inner.widths)


_SEVERAL: dict[str, tuple[Make, Shell, int]] = {
    "two_lstms": (lstm_of_two(Variant(), Variant(order="fogi")), Shell(), 2),
    "two_lstms-unrolled": (lstm_of_two(Variant(), Variant()), Shell("unrolled"), 2),
    "two_lstms-projected": (lstm_of_two(Variant(projection=3), Variant(peephole=True)), Shell(batch=2), 2),
    "side_by_side": (lstms_side_by_side, Shell(), 2),
    "dense_after_each_step": (dense_after_each_step, Shell(), 1),
    "dense_before_each_step": (dense_before_each_step, Shell(batch=2), 1),
}

ROWS: tuple[Row, ...] = (
    *(_row(f"lstm-{n}", "written_lstm", v.of, s, lstm=1) for n, (v, s) in _SPELLINGS.items()),
    *(_row(f"lstm-{n}", "written_lstm", Variant(order="fiog").of, s, lstm=1) for n, s in _SHELLS.items()),
    *(_row(f"lstm-{n}", n.split("-")[0], v.of, s, lstm=1) for n, (v, s) in _VARIANTS.items()),
    _row("lstm-layer_norm-together", "layer_norm", normed_together, Shell(), lstm=1),
    _row("lstm-layer_norm_1e-3", "layer_norm_loop", Variant(bias=False, norm=1e-3).of, Shell(), None),
    *(_row(n, "written_rnn", cell, s, rnn=1) for n, (cell, s) in _SIMPLE.items()),
    *(_row(n, "written_several", cell, s, lstm=count) for n, (cell, s, count) in _SEVERAL.items()),
)
