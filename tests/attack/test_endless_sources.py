"""Loops without end in what TensorFlow runs: one clear error within the limit, and Ctrl-C ends them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.limits import Limits
from jfuse.verification.runners.in_tensorflow import called

SECONDS = 30.0  # on a busy machine; nothing here would end by itself
SPEC = tf.TensorSpec([None], tf.int32)


def halving(x: Any) -> Any:
    """How often an integer can be halved; never ends for negative ones, which stay below 0."""
    return {"turns": tf.while_loop(lambda n, x: tf.reduce_any(x != 0), lambda n, x: (n + 1, x // 2), [x * 0, x])[0]}


def nested(x: Any) -> Any:
    def body(n: Any, x: Any) -> Any:
        return n + 1, halving(x)["turns"] - 1

    return {"turns": tf.while_loop(lambda n, x: tf.reduce_any(x != 0), body, [x * 0, x])[0]}


def in_a_branch(x: Any) -> Any:
    return {"turns": tf.cond(tf.reduce_any(x < 0), lambda: halving(x)["turns"], lambda: x)}


ENDLESS: dict[str, Callable[[Any], Any]] = {"a loop": halving, "in a loop": nested, "in a branch": in_a_branch}


def test_a_loop_without_end(tmp_path: Path) -> None:
    module = tf.Module()
    module.__call__ = tf.function(halving, input_signature=[SPEC])
    tf.saved_model.save(module, str(tmp_path), signatures=module.__call__)
    model = jfuse.load(tmp_path, limits=Limits(seconds=0.5))
    endless = np.array([-5], np.int32)
    started = time.monotonic()
    with pytest.raises(
        jfuse.VerifyFailed, match=r"TensorFlow does not come to an end(.|\n)*within 0.5 s(.|\n)*seconds="
    ):
        jfuse.verify(model, inputs={"x": endless})
    with pytest.raises(jfuse.JfuseError, match=r"does not come to an end at the loop (.|\n)*within 0.5 s"):
        model(endless)  # on XLA
    assert time.monotonic() - started < SECONDS
    assert model(np.array([5, 9], np.int32)).tolist() == [4, 4]


@pytest.mark.parametrize("kind", ENDLESS)
def test_each_kind_of_loop_is_timed(kind: str) -> None:
    function = tf.function(ENDLESS[kind], input_signature=[SPEC]).get_concrete_function()
    started = time.monotonic()
    with pytest.raises(jfuse.VerifyFailed, match="TensorFlow does not come to an end in signature 'f'"):
        called(function, [tf.constant([-1])], "f", Limits(seconds=0.2))
    assert time.monotonic() - started < SECONDS
    assert called(function, [tf.constant([1])], "f", Limits())["turns"].numpy().tolist() == [1]


@pytest.mark.usefixtures("python_interrupts")
def test_ctrl_c_ends_a_call_of_tensorflow() -> None:
    function = tf.function(halving, input_signature=[SPEC]).get_concrete_function()
    endless = tf.constant([-1])
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        called(function, [endless], "f", Limits())
    assert time.monotonic() - started < SECONDS
    assert called(function, [tf.constant([4])], "f", Limits())["turns"].numpy().tolist() == [3]
