"""Decoys around an LSTM's cell: loops, reads, masks, weights and unrolled steps that differ in one place."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import tensorflow as tf

from tests.models.decoys.decoy_rows import BATCH, STEPS, Decoy, telling
from tests.models.decoys.decoys_lstm import Parts, ends, four, in_loop, lstm
from tests.models.recurrences.recurrent_shells import FEATURES, UNITS

Zeros = tuple[Any, Any]
_X = tf.TensorSpec([BATCH, STEPS, FEATURES], tf.float32, name="x")
_MASK = tf.TensorSpec([BATCH, STEPS], tf.bool, name="mask")


def _zeros() -> Zeros:
    return tf.zeros([BATCH, UNITS]), tf.zeros([BATCH, UNITS])


def _results(rows: Any, h: Any, c: Any) -> dict[str, Any]:
    return {"y": tf.transpose(rows.stack(), [1, 0, 2]), "s0": h, "s1": c}


def _function(run: Callable[..., Any], *specs: Any) -> Any:
    return tf.function(run, input_signature=[_X, *specs], autograph=False)


def loop(
    start: int = 0,
    stop: int = STEPS,
    *,
    early: bool = False,
    read: Callable[[Any], Any] = lambda t: t,
    counted: bool = False,
    written: Callable[[Any, Any], Any] = lambda h, c: h,
) -> Any:
    """A tf.function around the plain cell whose loop differs.

    start, stop: the steps that it makes. early: it ends when h has grown. read: the step that is read at step t.
    counted: the step number is added to the input gate. written: what is collected of h' and c'.
    """
    parts = Parts()

    def step(x: Any, t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
        i, f, g, o = parts.gates(x[:, read(t)], h)
        h, c = ends(i + 0.3 * tf.cast(t, tf.float32) if counted else i, f, g, o, c)
        return t + 1, rows.write(t, written(h, c)), h, c

    def more(t: Any, rows: Any, h: Any, c: Any) -> Any:
        return tf.logical_and(t < stop, tf.reduce_max(h) < 0.3) if early else t < stop

    def run(x: Any) -> dict[str, Any]:
        rows = tf.TensorArray(tf.float32, STEPS, element_shape=(BATCH, UNITS))
        return _results(*tf.while_loop(more, lambda *args: step(x, *args), (start, rows, *_zeros()))[1:])

    return _function(run)


def with_last_input() -> Any:
    """The gates see the step before: x of the last step is a state."""
    parts = Parts()

    def run(x: Any) -> dict[str, Any]:
        def step(t: Any, rows: Any, last: Any, h: Any, c: Any) -> tuple[Any, ...]:
            new = lstm(parts, last, h, c)
            return t + 1, rows.write(t, new[0]), x[:, t], *new

        start = (0, tf.TensorArray(tf.float32, STEPS), tf.zeros([BATCH, FEATURES]), *_zeros())
        _, rows, _, h, c = tf.while_loop(lambda t, *_: t < STEPS, step, start)
        return _results(rows, h, c)

    return _function(run)


def with_fed_weights() -> Any:
    """The kernel depends on the input: it is scaled by its mean."""
    parts = Parts()

    def run(x: Any) -> dict[str, Any]:
        kernel = parts.w * (1.0 + tf.reduce_mean(x))

        def step(t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
            h, c = ends(*four(x[:, t] @ kernel + h @ parts.u + parts.b), c)
            return t + 1, rows.write(t, h), h, c

        start = (0, tf.TensorArray(tf.float32, STEPS), *_zeros())
        return _results(*tf.while_loop(lambda t, *_: t < STEPS, step, start)[1:])

    return _function(run)


def with_decaying_weights() -> Any:
    """The recurrent kernel is a carried value that shrinks."""
    parts = Parts()

    def run(x: Any) -> dict[str, Any]:
        def step(t: Any, rows: Any, u: Any, h: Any, c: Any) -> tuple[Any, ...]:
            h, c = ends(*four(x[:, t] @ parts.w + h @ u + parts.b), c)
            return t + 1, rows.write(t, h), u * 0.5, h, c

        start = (0, tf.TensorArray(tf.float32, STEPS), tf.identity(parts.u), *_zeros())
        _, rows, _, h, c = tf.while_loop(lambda t, *_: t < STEPS, step, start)
        return _results(rows, h, c)

    return _function(run)


Keep = Callable[..., tuple[Any, Any]]
"""(mask[:, t], mask[:, t + 1], h, c, h', c') -> (h', c')"""


def masked(keep: Keep) -> Any:
    """A loop with a mask input, bool[3,6]."""
    parts = Parts()

    def run(x: Any, mask: Any) -> dict[str, Any]:
        after = tf.concat([mask[:, 1:], mask[:, :1]], 1)

        def step(t: Any, rows: Any, h: Any, c: Any) -> tuple[Any, ...]:
            h, c = keep(mask[:, t, None], after[:, t, None], h, c, *lstm(parts, x[:, t], h, c))
            return t + 1, rows.write(t, h), h, c

        start = (0, tf.TensorArray(tf.float32, STEPS), *_zeros())
        return _results(*tf.while_loop(lambda t, *_: t < STEPS, step, start)[1:])

    return _function(run, _MASK)


def both_kept(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """No decoy: a masked LSTM."""
    return tf.where(m, new_h, h), tf.where(m, new_c, c)


def only_h_kept(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """c goes on."""
    return tf.where(m, new_h, h), new_c


def only_c_kept(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """h goes on."""
    return new_h, tf.where(m, new_c, c)


def c_kept_early(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """c is kept by the mask of the next step."""
    return tf.where(m, new_h, h), tf.where(after, new_c, c)


def c_kept_otherwise(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """c is kept where h is not."""
    return tf.where(m, new_h, h), tf.where(m, c, new_c)


def zeroed(m: Any, after: Any, h: Any, c: Any, new_h: Any, new_c: Any) -> tuple[Any, Any]:
    """The states become zero instead of staying."""
    kept = tf.cast(m, tf.float32)
    return new_h * kept, new_c * kept


def unrolled(step: Callable[[int, Parts, Any, Any, Any], tuple[Any, Any]], order: Any = range(STEPS)) -> Any:
    """Python's steps, one after another; `order` says which step is read."""
    parts = Parts()

    def run(x: Any) -> dict[str, Any]:
        (h, c), rows = _zeros(), []
        for number, t in enumerate(order):
            h, c = step(number, parts, x[:, t], h, c)
            rows.append(h)
        return {"y": tf.stack(rows, 1), "s0": h, "s1": c}

    return _function(run)


def plain(number: int, p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """No decoy."""
    return lstm(p, x, h, c)


def one_step_with_other_weights(number: int, p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Every second step has its kernel negated."""
    return ends(*four(x @ (-p.w if number % 2 else p.w) + h @ p.u + p.b), c)


def one_step_forgotten(number: int, p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """Every third step starts from zeros."""
    return lstm(p, x, tf.zeros_like(h), tf.zeros_like(c)) if number % 3 == 2 else lstm(p, x, h, c)


def growing_bias(number: int, p: Parts, x: Any, h: Any, c: Any) -> tuple[Any, Any]:
    """The forget gate's bias grows from step to step."""
    i, f, g, o = p.gates(x, h)
    return ends(i, f + 0.5 * number, g, o, c)


_LOOPS: dict[str, Callable[[], Any]] = {
    "early_exit": partial(loop, early=True),
    "counter_in_a_gate": partial(loop, counted=True),
    "collects_c": partial(loop, written=lambda h, c: c),
    "fed_weights": with_fed_weights,
    "decaying_weights": with_decaying_weights,
}
_OTHER_SEQUENCES: dict[str, Callable[[], Any]] = {
    "start_at_1": partial(loop, start=1),
    "stop_before_the_end": partial(loop, stop=STEPS - 1),
    "reversed_read": partial(loop, read=lambda t: STEPS - 1 - t),
    "read_one_ahead": partial(loop, read=lambda t: tf.minimum(t + 1, STEPS - 1)),
    "read_every_second": partial(loop, read=lambda t: 2 * (t // 2)),
    "last_input_carried": with_last_input,
}
"""They may fuse, over another sequence than x."""

_MASKED: tuple[Keep, ...] = (only_h_kept, only_c_kept, c_kept_early, c_kept_otherwise, zeroed)
_UNROLLED: dict[str, Callable[[], Any]] = {
    "unrolled_with_other_weights": partial(unrolled, one_step_with_other_weights),
    "unrolled_with_growing_bias": partial(unrolled, growing_bias),
    "unrolled_out_of_order": partial(unrolled, plain, (0, 2, 1, 4, 3, 5)),
    "unrolled_on_one_step": partial(unrolled, plain, (0, 1, 1, 3, 3, 5)),
}


def in_python() -> Any:
    """No decoy: the steps one after another."""
    return unrolled(plain)


# These may fuse: an LSTM over other rows of the sequence, or fewer.
_OTHER_ROWS = {"start_at_1", "stop_before_the_end", "reversed_read", "read_one_ahead", "read_every_second"}


DECOYS: dict[str, Decoy] = {
    **{
        name: Decoy(build, partial(in_loop, lstm), telling(), fused={"lstm": 1} if name in _OTHER_ROWS else {})
        for name, build in _LOOPS.items()
    },
    **{
        name: Decoy(build, partial(in_loop, lstm), telling(), fused={"lstm": 1})
        for name, build in _OTHER_SEQUENCES.items()
    },
    **{
        f"mask_{keep.__name__}": Decoy(
            partial(masked, keep), partial(masked, both_kept), telling(mask=True), {"padding": "right"}
        )
        for keep in _MASKED
    },
    # It may fuse: two LSTMs, one after another.
    "unrolled_with_a_reset": Decoy(partial(unrolled, one_step_forgotten), in_python, telling(), fused={"lstm": 2}),
    **{name: Decoy(build, in_python, telling()) for name, build in _UNROLLED.items()},
}


def gaps(seed: int) -> dict[str, np.ndarray]:
    """Inputs for `masked` whose mask is no padding."""
    found = telling()(seed)
    return {**found, "mask": np.random.default_rng(seed).random((BATCH, STEPS)) < 0.6}
