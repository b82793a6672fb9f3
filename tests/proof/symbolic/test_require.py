"""`require="proven"`: fusions that are only tested are refused, and say where the prover stopped."""

from __future__ import annotations

import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.cli.spelling import as_options
from tests.cells import weights

W, R, B = weights(3, 4), weights(4, 4), weights(4)


class Recurrence(tf.Module):
    """A simple RNN, and one whose tanh is spelled by exponentials, which is not proven."""

    @tf.function(input_signature=[tf.TensorSpec([2, 5, 3])])
    def spelled(self, x: tf.Tensor) -> tf.Tensor:
        """The state after the last step."""
        h = tf.zeros([2, 4])
        for t in range(5):
            z = x[:, t] @ W + h @ R + B
            h = (tf.exp(z) - tf.exp(-z)) / (tf.exp(z) + tf.exp(-z))
        return h

    @tf.function(input_signature=[tf.TensorSpec([2, 5, 3])])
    def plain(self, x: tf.Tensor) -> tf.Tensor:
        """The state after the last step."""
        h = tf.zeros([2, 4])
        for t in range(5):
            h = tf.tanh(x[:, t] @ W + h @ R + B)
        return h


def test_what_is_proven_fuses_under_the_requirement() -> None:
    report = jfuse.convert(Recurrence().plain, forms=jfuse.Forms(require="proven"), verify=False).report
    assert [f.proof for f in report.fused] == ["proven"]


def test_what_is_only_tested_is_refused_under_it() -> None:
    (fusion,) = jfuse.convert(Recurrence().spelled, verify=False).report.fused
    assert fusion.proof == "tested"
    assert fusion.stopped
    report = jfuse.convert(Recurrence().spelled, forms=jfuse.Forms(require="proven"), verify=False).report
    assert report.fused == []
    (refusal,) = (r for r in report.refused if r.condition == "only_tested")
    assert fusion.stopped in refusal.detail


def test_another_requirement_is_an_error() -> None:
    with pytest.raises(JfuseError, match="require"):
        jfuse.convert(Recurrence().plain, forms=jfuse.Forms(require="tested"))  # type: ignore[arg-type]


def test_remedies_spell_it_as_the_command_line_does() -> None:
    assert as_options('without require="proven"') == "without --require proven"
