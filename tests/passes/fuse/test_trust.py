"""Rules that are trusted where no proof can be run, and proven where one can."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.types import DType
from jfuse.lowering.rules import fuses


def marked(body: Any) -> Any:
    """A function of x f32[n] that calls a composite with this body."""
    inner = tf.function(body, experimental_implements="test.trusted", autograph=False)
    return tf.function(lambda x: inner(x) * 2.0, input_signature=[tf.TensorSpec([None], name="x")], autograph=False)


def incomplete_gamma(x: Any) -> Any:
    """1 - exp(-x), by an op without a rule."""
    return tf.math.igamma(tf.ones_like(x), x)


def fuse_gamma(x: Any) -> Any:
    """The same for x above 0."""
    return jfuse.ops.sub(np.float32(1), jfuse.ops.exp(jfuse.ops.neg(x)))


@pytest.mark.parametrize("trust", [False, True])
def test_a_body_with_ops_without_a_rule_fuses_by_trust(trust: bool) -> None:
    rule = fuses("test.trusted", trust=trust, default=False)(fuse_gamma)
    samples = [np.array([0.5, 1.5, 3.0], np.float32)]
    if not trust:
        with pytest.raises(jfuse.LowerError, match=r"tf\.Igamma[^@]*trust=True on fuse_gamma, .* 'test\.trusted' at"):
            jfuse.convert(marked(incomplete_gamma), rules=[rule], verify=jfuse.Verify(inputs=samples))
        return
    lite = jfuse.convert(marked(incomplete_gamma), rules=[rule], verify=jfuse.Verify(inputs=samples))
    (fusion,) = lite.report.fused
    assert (fusion.samples, fusion.unproven.split(" (")[0]) == (0, "body not executable")
    assert "igamma" in fusion.unproven.lower()


@pytest.mark.parametrize("factor", [1.0, 1.01])
def test_a_body_that_tensorflow_alone_computes_is_proven_against_it(factor: float) -> None:
    """Also where the rule is to be trusted, as it need not be."""

    def fuse(x: Any) -> Any:
        return fuse_gamma(jfuse.ops.abs_(x))

    rule = fuses("test.trusted", trust=True, default=False)(fuse)
    body = marked(lambda x: incomplete_gamma(tf.abs(x)) * factor)
    if factor != 1:
        with pytest.raises(jfuse.LowerError, match=r"another rule than fuse, which .* 'test\.trusted' .*: not_equal"):
            jfuse.convert(body, rules=[rule])
        return
    (fusion,) = jfuse.convert(body, rules=[rule]).report.fused
    assert (fusion.samples > 50, fusion.error < 1e-12, fusion.unproven) == (True, True, "")


@pytest.mark.parametrize("least", [0.0, 0.5])
def test_a_result_as_long_as_data_decide_is_proven(least: float) -> None:
    """The rule is that for 0."""

    def fuse(x: Any) -> Any:
        return jfuse.ops.gather_nd(x, jfuse.ops.where(jfuse.ops.greater(x, np.float32(0))))

    rule = fuses("test.trusted", default=False)(fuse)
    lite = jfuse.convert(marked(lambda x: tf.boolean_mask(x, x > least)), rules=[rule])  # compared with TensorFlow
    assert [f.samples > 0 and not f.unproven for f in lite.report.fused] == [True] * (least == 0)
    assert [r.condition for r in lite.report.refused] == ["not_equal"] * (least != 0)


def test_a_size_that_is_a_value_is_proven() -> None:
    """The length of a range of floats is rounded up to an integer, which the rule claims."""

    def fuse(x: Any) -> Any:
        limit = jfuse.ops.cast(jfuse.ops.ceil(jfuse.ops.sum_(x, [0])), out_data_type=DType.i32)
        counted = jfuse.ops.cast(jfuse.ops.range_(np.int32(0), limit, np.int32(1)), out_data_type=DType.f32)
        return jfuse.ops.add(counted, counted)

    rule = fuses("test.trusted", claims={"round", "cast"}, default=False)(fuse)
    doubled = marked(lambda x: tf.range(tf.reduce_sum(x)) * 2.0)
    lite = jfuse.convert(doubled, rules=[rule], verify=jfuse.Verify(inputs=[np.array([2.5, 1, 1], np.float32)]))
    assert [f.samples > 0 and not f.unproven for f in lite.report.fused] == [True]


def test_a_body_that_runs_is_proven_all_the_same() -> None:
    rule = fuses("test.trusted", trust=True, default=False)(lambda x: jfuse.ops.exp(x))
    lite = jfuse.convert(marked(lambda x: tf.exp(x) + 1.0), rules=[rule])
    assert [r.condition for r in lite.report.refused] == ["not_equal"]
