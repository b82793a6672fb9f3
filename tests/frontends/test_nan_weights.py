"""Weights that hold NaNs are named, wherever a source keeps them; a lone NaN that an author wrote is not."""

from __future__ import annotations

import logging
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf

import jfuse

KERNEL = np.ones((4, 2), np.float32)
KERNEL[1, 1] = np.nan
X = tf.TensorSpec([None, 4], tf.float32, name="x")


def function(body: Any) -> Any:
    return tf.function(body, input_signature=[X], autograph=False)


def of_nans(source: Any, *specs: Any, **options: Any) -> list[str]:
    return [note for note in jfuse.load(source, *specs, **options).report.notes if "NaN" in note]


def told(what: str) -> list[str]:
    return [f"{what} holds 1 NaN among 8 numbers: values computed from it are NaN"]


def test_constants_of_tensorflow(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "jfuse"):
        assert of_nans(function(lambda x: x @ tf.constant(KERNEL, name="table"))) == told("the constant 'table'")
    assert [r.getMessage() for r in caplog.records] == told("the constant 'table'")


def test_constants_of_tensorflow_in_a_loop_beside_a_state() -> None:
    count = tf.Variable(0.0)

    def body(x: Any) -> Any:
        count.assign_add(1.0)
        return tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, y @ tf.constant(KERNEL @ KERNEL.T)), [0, x])[1]

    (note,) = of_nans(function(body))
    assert note.startswith("the constant ")


def test_params_of_jax() -> None:
    params = {"dense": {"w": jnp.asarray(KERNEL)}, "numpy": [KERNEL.copy()], "unread": KERNEL.copy()}
    specs = [np.zeros((1, 4), np.float32)]
    found = of_nans(lambda p, x: x @ p["dense"]["w"] + x @ p["numpy"][0], specs, params=params)
    assert sorted(found) == [*told("params['dense']['w']"), *told("params['numpy'][0]")]


def test_constants_of_jax() -> None:
    specs = [np.zeros((1, 4), np.float32)]
    assert of_nans(lambda x: x @ KERNEL, specs) == told("a constant f32[4,2] of the function")


def test_constants_of_a_file() -> None:
    data = jfuse.convert(function(lambda x: x @ tf.constant(KERNEL, name="table")), verify=False).to_bytes()
    assert of_nans(data) == told("the tensor 'matmul/weights'")


def test_a_lone_nan_is_meant() -> None:
    assert of_nans(function(lambda x: tf.where(x > 0, x, np.nan))) == []
    assert of_nans(lambda x: jnp.where(x > 0, x, np.nan), [np.zeros((1, 4), np.float32)]) == []
