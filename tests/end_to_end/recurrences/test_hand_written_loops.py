"""LSTMs in loops that people write: steps selected by lengths or masks in several spellings, and initial states."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes
from tests.end_to_end.recurrences.test_masks import fused_ops
from tests.slow import slow_but

WIDTH, UNITS = 3, 4
RNG = np.random.default_rng(0)
KERNEL = (RNG.standard_normal((WIDTH + UNITS, 4 * UNITS)) * 0.5).astype(np.float32)
BIAS = RNG.standard_normal(4 * UNITS).astype(np.float32)

Select = Callable[[Any, Any, Any], Any]
"""What a state is after a step: of whether the step counts, the new state and the old one."""


def zeros(x: Any) -> Any:
    return tf.zeros([tf.shape(x)[0], UNITS])


def looped(x: Any, initial: Callable[[Any], Any], mask: Any, select: Select, blank: Callable[[Any], Any]) -> Any:
    """An LSTM over x f32[b,t,3]; blank: what stands among the outputs, of the new state, where a step counts not."""
    steps, rows = tf.shape(x)[1], tf.transpose(x, [1, 0, 2])

    def step(t: Any, h: Any, c: Any, collected: Any) -> tuple[Any, ...]:
        i, f, g, o = tf.split(tf.concat([rows[t], h], 1) @ KERNEL + BIAS, 4, 1)
        new_c = tf.sigmoid(f) * c + tf.sigmoid(i) * tf.tanh(g)
        new_h = tf.sigmoid(o) * tf.tanh(new_c)
        if mask is None:
            return t + 1, new_h, new_c, collected.write(t, new_h)
        counts = mask[:, t]
        row = select(counts, new_h, blank(new_h))
        return t + 1, select(counts, new_h, h), select(counts, new_c, c), collected.write(t, row)

    collected = tf.TensorArray(tf.float32, steps, element_shape=[None, UNITS])
    _, h, _, collected = tf.while_loop(
        lambda t, *_: t < steps,
        step,
        (0, initial(x), initial(x), collected),
        shape_invariants=(tf.TensorShape([]), *[tf.TensorShape([None, UNITS])] * 2, tf.TensorShape(None)),
    )
    return {"y": tf.transpose(collected.stack(), [1, 0, 2]), "h": h}


def tiled(counts: Any, *_: Any) -> Any:
    return tf.tile(counts[:, None], [1, UNITS])


def blended(counts: Any, new: Any, old: Any) -> Any:
    share = tf.cast(tiled(counts), tf.float32)
    return share * new if old is None else share * new + (1.0 - share) * old


SELECTS: dict[str, Select] = {
    "column": lambda counts, new, old: tf.where(counts[:, None], new, old),
    "tiled": lambda counts, new, old: tf.where(tiled(counts), new, old),
    "tiled, version 1": lambda counts, new, old: tf.compat.v1.where(tiled(counts), new, old),
    "rows, version 1": lambda counts, new, old: tf.compat.v1.where(counts, new, old),
    "blended": blended,
}
BLANKS: dict[str, Callable[[Any], Any]] = {"zeros_like": tf.zeros_like, "times 0": lambda new: new * 0.0}
FAST = {("tiled, version 1", "zeros_like", False), ("column", "times 0", True)}
CASES = [(s, b, r) for s in SELECTS for b in BLANKS for r in (False, True) if s != "blended" or b == "times 0"]


def drawn(seed: int) -> dict[str, np.ndarray]:
    rng, steps, batch = np.random.default_rng(seed), (3, 1, 5, 2)[seed % 4] + 2, 1 + seed % 3
    lengths = rng.integers(1, steps + 1, batch).astype(np.int32)
    return {"x": rng.standard_normal((batch, steps, WIDTH)).astype(np.float32), "lengths": lengths}


@pytest.mark.parametrize(("select", "blank", "reverse"), slow_but(FAST.__contains__, CASES))
def test_lengths_decide_which_steps_count(select: str, blank: str, reverse: bool) -> None:
    def run(x: Any, lengths: Any) -> Any:
        mask = tf.sequence_mask(lengths, tf.shape(x)[1])
        of = (lambda new: None) if select == "blended" else BLANKS[blank]  # a product needs nothing beside it
        return looped(x, zeros, tf.reverse(mask, [1]) if reverse else mask, SELECTS[select], of)

    specs = [tf.TensorSpec([None, None, WIDTH], name="x"), tf.TensorSpec([None], tf.int32, name="lengths")]
    source = tf.function(run, input_signature=specs, autograph=False)
    lite = jfuse.convert(source, verify=(select, blank, reverse) in FAST)
    assert fused_ops(lite) == 1
    assert "while" not in lite.report.operators
    check_invokes(lite, drawn)


def test_a_tiled_mask_may_have_an_open_length_of_its_own() -> None:
    def draw(seed: int) -> dict[str, np.ndarray]:
        given = drawn(seed)
        steps = np.arange(given["x"].shape[1])
        return {"x": given["x"], "mask": steps[None] < given["lengths"][:, None]}

    specs = [tf.TensorSpec([None, None, WIDTH], name="x"), tf.TensorSpec([None, None], tf.bool, name="mask")]
    run = tf.function(
        lambda x, mask: looped(x, zeros, mask, SELECTS["tiled, version 1"], tf.zeros_like),
        input_signature=specs,
        autograph=False,
    )
    lite = jfuse.convert(run, forms=jfuse.Forms(padding="right"))
    assert fused_ops(lite) == 1
    check_invokes(lite, draw)


def test_outputs_that_the_step_computes_where_it_does_not_count_are_no_mask() -> None:
    specs = [tf.TensorSpec([None, None, WIDTH], name="x"), tf.TensorSpec([None], tf.int32, name="lengths")]
    run = tf.function(
        lambda x, n: looped(x, zeros, tf.sequence_mask(n, tf.shape(x)[1]), SELECTS["column"], lambda new: new * 0.5),
        input_signature=specs,
        autograph=False,
    )
    lite = jfuse.convert(run)
    assert fused_ops(lite) == 0
    check_invokes(lite, drawn)


INITIAL: dict[str, Callable[[Any], Any]] = {
    "zeros": zeros,
    "fill": lambda x: tf.fill([tf.shape(x)[0], UNITS], 0.5),
    "a number": lambda x: tf.fill([tf.shape(x)[0], UNITS], tf.reduce_mean(x[0])),
    "a column, tiled": lambda x: tf.tile(tf.sin(x[:, 0, :1]), [1, UNITS]),
    "a column, broadcast": lambda x: tf.broadcast_to(tf.sin(x[:, 0, :1]), [tf.shape(x)[0], UNITS]),
    "a row, tiled": lambda x: tf.tile(x[:1, 0, :1] * tf.constant([[1.0, 2.0, 3.0, 4.0]]), [tf.shape(x)[0], 1]),
    "a row, broadcast": lambda x: tf.broadcast_to([0.1, 0.2, 0.3, 0.4], [tf.shape(x)[0], UNITS]),
    "times 0": lambda x: tf.tile(x[:, 0, :1] * 0.0, [1, UNITS]),
}


@pytest.mark.parametrize("initial", slow_but(frozenset({"a number", "a column, tiled"}).__contains__, INITIAL))
@pytest.mark.parametrize("batch", [None, pytest.param(1, marks=pytest.mark.slow)])
def test_initial_states(initial: str, batch: int | None) -> None:
    run = tf.function(
        lambda x: looped(x, INITIAL[initial], None, SELECTS["column"], tf.zeros_like),
        input_signature=[tf.TensorSpec([batch, None, WIDTH], name="x")],
        autograph=False,
    )
    lite = jfuse.convert(run)
    assert fused_ops(lite) == 1
    check_invokes(lite)
