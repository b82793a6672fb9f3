"""TensorFlow's ops for whole LSTMs and for cells, as frozen graphs have them, from TensorFlow to LiteRT."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from tests.end_to_end.invokes import check_invokes

_FEATURES, _UNITS = 3, 8
_RNG = np.random.default_rng(11)


def _drawn(*shape: int) -> Any:
    return tf.constant(_RNG.uniform(-0.7, 0.7, shape).astype(np.float32))


def block_lstm(op: str, steps: int | None, batch: int | None, counted: int | None = None, **options: Any) -> Any:
    """A tf.function of x f32[steps, batch, 3]: what each step gives, and the states after the last one.

    counted: how many steps count; all where it is None.
    """
    w, b = _drawn(_FEATURES + _UNITS, 4 * _UNITS), _drawn(4 * _UNITS)
    peepholes = [_drawn(_UNITS) for _ in range(3)]

    def call(x: Any) -> Any:
        first = tf.zeros((tf.shape(x)[1], _UNITS))
        long = tf.shape(x, tf.int64)[0] if counted is None else tf.constant(counted, tf.int64)
        found = getattr(tf.raw_ops, op)(
            seq_len_max=long, x=x, cs_prev=first, h_prev=first, w=w, b=b,
            **dict(zip(("wci", "wcf", "wco"), peepholes, strict=True)), **options,
        )  # fmt: skip
        if counted is not None:
            return {"y": found.h, "cells": found.cs}
        return {"y": found.h, "h": found.h[-1], "c": found.cs[-1]}

    spec = tf.TensorSpec([steps, batch, _FEATURES], tf.float32, name="x")
    return tf.function(call, input_signature=[spec], autograph=False)


@pytest.mark.parametrize(
    ("op", "steps", "options"),
    [
        ("BlockLSTM", 6, {"cell_clip": 0.0}),
        pytest.param("BlockLSTM", 6, {"use_peephole": True, "cell_clip": 0.4}, marks=pytest.mark.slow),
        ("BlockLSTMV2", None, {}),
        pytest.param("BlockLSTMV2", 6, {"use_peephole": True}, marks=pytest.mark.slow),
    ],
)
def test_a_whole_lstm_is_one_operator(op: str, steps: int | None, options: dict[str, Any]) -> None:
    lite = jfuse.convert(block_lstm(op, steps, None, **options))
    assert lite.report.operators["unidirectional_sequence_lstm"] == 1, str(lite.report)
    check_invokes(lite)


def test_steps_that_do_not_count_give_zeros() -> None:
    lite = jfuse.convert(block_lstm("BlockLSTM", 6, None, counted=4))
    check_invokes(lite)


def test_a_loop_over_a_gru_cell() -> None:
    w_ru, w_c = _drawn(_FEATURES + _UNITS, 2 * _UNITS), _drawn(_FEATURES + _UNITS, _UNITS)
    b_ru, b_c = _drawn(2 * _UNITS), _drawn(_UNITS)

    def call(x: Any) -> Any:
        def step(n: Any, h: Any, rows: Any) -> Any:
            h = tf.raw_ops.GRUBlockCell(x=x[:, n], h_prev=h, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c).h
            return n + 1, h, rows.write(n, h)

        rows = tf.TensorArray(tf.float32, 5)
        first = tf.zeros((tf.shape(x)[0], _UNITS))
        return tf.while_loop(lambda n, *_: n < 5, step, [0, first, rows])[2].stack()

    spec = tf.TensorSpec([None, 5, _FEATURES], tf.float32, name="x")
    lite = jfuse.convert(tf.function(call, input_signature=[spec], autograph=False))
    check_invokes(lite)
