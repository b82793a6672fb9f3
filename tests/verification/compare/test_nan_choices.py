"""Choices among NaNs that drawn inputs make: other inputs are drawn, and what is wrong there is found."""

from __future__ import annotations

from typing import Any

import pytest
import tensorflow as tf

import jfuse


def function(body: Any) -> Any:
    """Of probabilities x f32[b,4]."""
    return tf.function(lambda x: {"y": body(x)}, input_signature=[tf.TensorSpec([None, 4], name="x")], autograph=False)


def best(x: Any) -> Any:
    return tf.argmax(tf.math.log(x), -1)


def test_other_inputs_are_drawn_where_a_choice_is_made_among_nans() -> None:
    notes = jfuse.convert(function(best)).report.notes
    assert "y of 'serving_default': a choice among NaNs at random inputs, so that x was drawn between 0 and 1" in notes


@pytest.mark.parametrize(
    "other",
    [lambda x: tf.argmax(-tf.math.log(x), -1), lambda x: tf.argmax(tf.math.log(x - 2.0), -1)],
    ids=["another-choice", "NaN-everywhere"],
)
def test_what_differs_beside_nans_is_found(other: Any) -> None:
    with pytest.raises(jfuse.VerifyFailed, match="output 'y'"):
        jfuse.verify(jfuse.convert(function(other), verify=False), function(best))


def test_nans_that_no_choice_meets_excuse_nothing() -> None:
    def beside(x: Any, sign: float) -> Any:
        return tf.math.log(x) + tf.cast(tf.argmax(sign * x, -1)[:, None], tf.float32)

    wrong = jfuse.convert(function(lambda x: beside(x, -1.0)), verify=False)
    with pytest.raises(jfuse.VerifyFailed, match="output 'y'"):
        jfuse.verify(wrong, function(lambda x: beside(x, 1.0)))
