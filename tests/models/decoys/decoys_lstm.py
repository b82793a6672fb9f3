"""Decoys of an LSTM and of its variants: cells that differ from them in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import tensorflow as tf

from tests.models.decoys.decoy_rows import BATCH, STATES, STEPS, Decoy, repeated_rows, telling
from tests.models.recurrences.recurrent_rows import Draw
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS, Cell, Random, Shell

Gates = tuple[Any, Any, Any, Any]
Change = Callable[["Parts", Any, Any, Any], tuple[Any, Any]]
"""(parts, x_t, h, c) -> (h', c')"""


class Parts:
    """Weights of an LSTM: of its gates i, f, g, o, and what a variant has beyond them."""

    def __init__(self, seed: int = 0) -> None:
        r = Random(seed)
        self.w, self.u, self.b = r.kernel(FEATURES, 4 * UNITS), r.kernel(UNITS, 4 * UNITS), r.vector(4 * UNITS)
        self.peephole = {gate: r.vector(UNITS) for gate in "ifgo"}
        self.mixed = r.kernel(UNITS, UNITS)
        self.scale, self.shift = r.vector(4 * UNITS, 1.0), r.vector(4 * UNITS)

    def sums(self, x: Any, h: Any) -> Any:
        """What enters the gates, without the bias.   f32[b,4u]"""
        return x @ self.w + h @ self.u

    def gates(self, x: Any, h: Any) -> Gates:
        """The gates i, f, g, o before their activations."""
        return four(self.sums(x, h) + self.b)

    def scaled(self, z: Any, variance: Any) -> Gates:
        """A centered sum with the scales of a layer norm, split into gates."""
        return four(z * tf.math.rsqrt(variance + 1e-8) * self.scale + self.shift)


def four(z: Any) -> Gates:
    """The gates i, f, g, o in f32[b,4u]."""
    i, f, g, o = tf.split(z, 4, 1)
    return i, f, g, o


def ends(i: Any, f: Any, g: Any, o: Any, c: Any) -> tuple[Any, Any]:
    """The usual end of a cell: (h', c')."""
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(c), c


def output(o: Any, c: Any) -> tuple[Any, Any]:
    """h' and c' from the output gate and c'."""
    return tf.sigmoid(o) * tf.tanh(c), c


def cell(change: Change) -> Cell:
    """The cell of a step that takes h and c."""
    parts = Parts()

    def step(x: Any, states: tuple[Any, ...]) -> tuple[Any, tuple[Any, ...]]:
        h, c = change(parts, x, *states)
        return h, (h, c)

    return Cell(step, STATES)


def lstm(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy."""
    return ends(*p.gates(x, h), c)


def clipped(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy: an LSTM that clips c at 0.4."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.clip_by_value(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), -0.4, 0.4))


def coupled(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy: an LSTM whose input gate is what the forget gate leaves."""
    _, f, g, o = p.gates(x, h)
    return output(o, tf.sigmoid(f) * c + (1.0 - tf.sigmoid(f)) * tf.tanh(g))


def peephole(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy: an LSTM with peepholes."""
    i, f, g, o = p.gates(x, h)
    new = tf.sigmoid(f + c * p.peephole["f"]) * c + tf.sigmoid(i + c * p.peephole["i"]) * tf.tanh(g)
    return output(o + new * p.peephole["o"], new)


def projected(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy: an LSTM with a projection."""
    h, c = lstm(p, x, h, c)
    return h @ p.mixed, c


def normed(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy: an LSTM with a layer norm in each gate."""
    gates = []
    for z, scale, shift in zip(four(p.sums(x, h)), tf.split(p.scale, 4), tf.split(p.shift, 4), strict=True):
        z = z - tf.reduce_mean(z, 1, keepdims=True)
        gates.append(z * tf.math.rsqrt(tf.reduce_mean(tf.square(z), 1, keepdims=True) + 1e-8) * scale + shift)
    i, f, g, o = gates
    return ends(i, f, g, o, c)


def h_and_c_swapped(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The gates see c, and h is what is remembered."""
    return ends(*p.gates(x, c), h)


def tanh_missing(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' = o*c'."""
    i, f, g, o = p.gates(x, h)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * c, c


def tanh_twice(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' = o*tanh(tanh(c'))."""
    i, f, g, o = p.gates(x, h)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    return tf.sigmoid(o) * tf.tanh(tf.tanh(c)), c


def forget_negated(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c' = i*g - f*c."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.sigmoid(i) * tf.tanh(g) - tf.sigmoid(f) * c)


def forget_is_tanh(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The forget gate has the other activation."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.tanh(f) * c + tf.sigmoid(i) * tf.tanh(g))


def gated_twice(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The output gate weighs the old state as well."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.sigmoid(o) * tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g))


def old_state_out(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' = o*tanh(c): one step late."""
    i, f, g, o = p.gates(x, h)
    return tf.sigmoid(o) * tf.tanh(c), tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)


def state_added(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h is used once more: h' = o*tanh(c') + h/2."""
    new_h, c = lstm(p, x, h, c)
    return new_h + 0.5 * h, c


def never_less(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c' is never less than c."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.maximum(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), c - 0.1))


def zero_row_kept(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """A row whose input is all zero keeps its states."""
    new_h, new_c = lstm(p, x, h, c)
    used = tf.reduce_any(tf.not_equal(x, 0.0), axis=1, keepdims=True)
    return tf.where(used, new_h, h), tf.where(used, new_c, c)


def special_case_at_7(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Entries of x that are exactly 7 count as 0."""
    return lstm(p, tf.where(tf.equal(x, 7.0), tf.zeros_like(x), x), h, c)


def nan_to_num(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Entries of x that are not numbers count as 0."""
    return lstm(p, tf.where(tf.math.is_nan(x), tf.zeros_like(x), x), h, c)


def special_case_of_state(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Where h is exactly 0, as in the first step, the gates see 1."""
    return lstm(p, x, tf.where(tf.equal(h, 0.0), tf.ones_like(h), h), c)


def batch_mean(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Each row is seen relative to the mean of its batch."""
    return lstm(p, x - tf.reduce_mean(x, axis=0, keepdims=True), h, c)


def other_row(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Each row sees the h of the next row of the batch."""
    return lstm(p, x, tf.gather(h, [1, 2, 0]), c)


def reset_when_full(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """A row starts anew as soon as its c is large."""
    h, c = lstm(p, x, h, c)
    fits = tf.reduce_max(c, axis=1, keepdims=True) < 0.8
    return h, tf.where(fits, c, tf.zeros_like(c))


def rounded(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c is kept in steps of 1/4."""
    h, c = lstm(p, x, h, c)
    return h, tf.round(c * 4.0) / 4.0


def clipped_above(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c is clipped on one side alone."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.minimum(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), 0.4))


def clipped_far_out(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Clipped above at 4: only where every gate is open for five steps, which random numbers do not reach."""
    h, c = lstm(p, x, h, c)
    return h, tf.minimum(c, 4.0)


def clipped_unevenly(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c is clipped to [-0.2, 0.4]."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.clip_by_value(tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g), -0.2, 0.4))


def clipped_before(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The old c is clipped, not the new one."""
    i, f, g, o = p.gates(x, h)
    return output(o, tf.sigmoid(f) * tf.clip_by_value(c, -0.4, 0.4) + tf.sigmoid(i) * tf.tanh(g))


def clipped_after(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """h' sees c' before it is clipped."""
    h, c = lstm(p, x, h, c)
    return h, tf.clip_by_value(c, -0.4, 0.4)


def coupled_by_square(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The input gate is 1 - f²."""
    _, f, g, o = p.gates(x, h)
    forget = tf.sigmoid(f)
    return output(o, forget * c + (1.0 - forget * forget) * tf.tanh(g))


def coupled_loosely(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The input gate is 0.9 - f."""
    _, f, g, o = p.gates(x, h)
    return output(o, tf.sigmoid(f) * c + (0.9 - tf.sigmoid(f)) * tf.tanh(g))


def peephole_late(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The output gate's peephole sees the old c."""
    i, f, g, o = p.gates(x, h)
    new = tf.sigmoid(f + c * p.peephole["f"]) * c + tf.sigmoid(i + c * p.peephole["i"]) * tf.tanh(g)
    return output(o + c * p.peephole["o"], new)


def peephole_early(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The forget gate's peephole sees the new input: it is applied to tanh(c)."""
    i, f, g, o = p.gates(x, h)
    new = tf.sigmoid(f + tf.tanh(c) * p.peephole["f"]) * c + tf.sigmoid(i + c * p.peephole["i"]) * tf.tanh(g)
    return output(o + new * p.peephole["o"], new)


def peephole_in_new_value(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The new value has a peephole too."""
    i, f, g, o = p.gates(x, h)
    g = g + c * p.peephole["g"]
    new = tf.sigmoid(f + c * p.peephole["f"]) * c + tf.sigmoid(i + c * p.peephole["i"]) * tf.tanh(g)
    return output(o + new * p.peephole["o"], new)


def peephole_matrix(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The forget gate's peephole is a full matrix."""
    i, f, g, o = p.gates(x, h)
    new = tf.sigmoid(f + c @ p.mixed) * c + tf.sigmoid(i + c * p.peephole["i"]) * tf.tanh(g)
    return output(o + new * p.peephole["o"], new)


def projection_bent(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The projection ends in a tanh."""
    h, c = lstm(p, x, h, c)
    return tf.tanh(h @ p.mixed), c


def projection_clipped_above(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The projection is clipped on one side alone."""
    h, c = projected(p, x, h, c)
    return tf.minimum(h, 0.1), c


def projection_of_state(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c is projected as well."""
    h, c = projected(p, x, h, c)
    return h, c @ p.mixed


def norm_over_batch(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Normalized over the rows of the batch."""
    z = p.sums(x, h)
    z = z - tf.reduce_mean(z, 0, keepdims=True)
    i, f, g, o = p.scaled(z, tf.reduce_mean(tf.square(z), 0, keepdims=True) + 1e-2)
    return ends(i, f, g, o, c)


def norm_over_all_gates(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Normalized over all gates together."""
    z = p.sums(x, h)
    z = z - tf.reduce_mean(z, 1, keepdims=True)
    i, f, g, o = p.scaled(z, tf.reduce_mean(tf.square(z), 1, keepdims=True))
    return ends(i, f, g, o, c)


def norm_not_centered(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Divided by the root mean square, the mean left in."""
    z = tf.reshape(p.sums(x, h), [-1, 4, UNITS])
    variance = tf.repeat(tf.reduce_mean(tf.square(z), 2), UNITS, axis=1)
    i, f, g, o = p.scaled(tf.reshape(z, [-1, 4 * UNITS]), variance)
    return ends(i, f, g, o, c)


def norm_of_state(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """c' is normalized before it goes out."""
    i, f, g, o = p.gates(x, h)
    c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
    shown = c - tf.reduce_mean(c, 1, keepdims=True)
    shown = shown * tf.math.rsqrt(tf.reduce_mean(tf.square(shown), 1, keepdims=True) + 1e-8)
    return tf.sigmoid(o) * tf.tanh(shown), c


def norm_of_input(p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The input's part is normalized alone."""
    z = tf.reshape(x @ p.w, [-1, 4, UNITS])
    z = z - tf.reduce_mean(z, 2, keepdims=True)
    variance = tf.repeat(tf.reduce_mean(tf.square(z), 2), UNITS, axis=1)
    parts = zip(p.scaled(tf.reshape(z, [-1, 4 * UNITS]), variance), tf.split(h @ p.u, 4, 1), strict=True)
    i, f, g, o = (a + b for a, b in parts)
    return ends(i, f, g, o, c)


_OF: dict[Change, tuple[Change, ...]] = {
    lstm: (
        h_and_c_swapped,
        tanh_missing,
        tanh_twice,
        forget_negated,
        forget_is_tanh,
        gated_twice,
        old_state_out,
        state_added,
        never_less,
        zero_row_kept,
        special_case_of_state,
        other_row,
        reset_when_full,
        rounded,
        norm_of_state,
    ),
    clipped: (clipped_above, clipped_unevenly, clipped_before, clipped_after),
    coupled: (coupled_by_square, coupled_loosely),
    peephole: (peephole_late, peephole_early, peephole_in_new_value, peephole_matrix),
    projected: (projection_bent, projection_clipped_above, projection_of_state),
    normed: (norm_over_batch, norm_over_all_gates, norm_not_centered),
}
_SHELL = Shell(batch=BATCH, steps=STEPS)


def in_loop(change: Change) -> Any:
    """The tf.function: "x" f32[3,6,5] -> {"y", "s0", "s1"}."""
    return _SHELL.function(cell(change))


_OF_THE_INPUT: dict[Change, Draw] = {
    special_case_at_7: telling(),
    nan_to_num: telling(odd=float("nan")),
    batch_mean: telling(),
    norm_of_input: telling(),
}
"""They may fuse: what concerns the input alone may stand before the loop, and an LSTM is left."""


def _decoy(change: Change, twin: Change, draw: Draw | None = None, **fused: int) -> Decoy:
    return Decoy(partial(in_loop, change), partial(in_loop, twin), draw or telling(), fused=fused)


DECOYS: dict[str, Decoy] = {
    **{change.__name__: _decoy(change, twin) for twin, changes in _OF.items() for change in changes},
    **{change.__name__: _decoy(change, lstm, draw, lstm=1) for change, draw in _OF_THE_INPUT.items()},
    "clipped_far_out": _decoy(clipped_far_out, lstm, repeated_rows(30.0)),
}
TWINS: dict[str, Change] = {change.__name__: change for change in _OF}
"""The known cells themselves."""
