"""Random numbers from seeds: TensorFlow's, in LiteRT, call after call, with seeds and sizes that are inputs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from tests.end_to_end.invokes import check_invokes
from tests.slow import slow_but

stateless = tf.random.experimental
SEED = tf.TensorSpec([2], tf.int32, name="seed")
X = tf.TensorSpec([None, 3], name="x")


def drawn(function: Callable[..., Any], *specs: Any) -> Any:
    return tf.function(function, input_signature=specs or [X, SEED], autograph=False)


def draw(n: int) -> dict[str, np.ndarray]:
    """Sizes that grow and shrink, and seeds of any sign."""
    seed = np.random.default_rng(n).integers(-(2**31), 2**31, 2).astype(np.int32)
    return {"x": np.full(((3, 1, 6, 2)[n % 4], 3), n, np.float32), "seed": seed}


DRAWN: dict[str, Callable[..., Any]] = {
    "uniform": lambda x, seed: {"y": x + tf.random.stateless_uniform(tf.shape(x), seed)},
    "normal": lambda x, seed: {"y": x + tf.random.stateless_normal(tf.shape(x), seed, 1.0, 2.0)},
    "integers": lambda x, seed: {"y": tf.random.stateless_uniform(tf.shape(x), seed, -5, 2**30, tf.int32)},
    "fold_in": lambda x, seed: {"y": tf.random.stateless_uniform([5], stateless.stateless_fold_in(seed, 3)) + x[0, 0]},
    "64 bits": lambda x, seed: {"y": tf.random.stateless_uniform([3], seed, None, None, tf.int64), "x": x * 2.0},
    "split": lambda x, seed: {"y": x + tf.random.stateless_normal([3], stateless.stateless_split(seed, 3)[1])},
}


@pytest.mark.parametrize("name", slow_but(("normal", "integers", "fold_in").__contains__, DRAWN))
def test_numbers_are_those_of_tensorflow(name: str) -> None:
    check_invokes(jfuse.convert(drawn(DRAWN[name])), draw)


def test_a_constant_seed_with_an_open_size() -> None:
    source = drawn(lambda x: {"y": x * tf.random.stateless_uniform(tf.shape(x), [1, 2])}, X)
    check_invokes(jfuse.convert(source))


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x, s: tf.random.stateless_uniform([3], s, dtype=tf.float64) + tf.cast(x[0], tf.float64), "of f64"),
        (lambda x, s: tf.random.stateless_uniform([3], s, 0, 9, tf.int64), "of i64 within a range"),
        (lambda x, s: tf.random.stateless_uniform([3], s, alg="threefry") + x[0], "another algorithm than Philox"),
    ],
)
def test_what_has_no_spelling_is_refused(function: Callable[..., Any], reason: str) -> None:
    with pytest.raises(LowerError, match=reason):
        jfuse.convert(drawn(function), verify=False)
