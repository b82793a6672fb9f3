"""Flex and custom operators by choice: what is let in, under which name and options, and what the report says."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from flatbuffers import flexbuffers

import jfuse
from jfuse.opaque_ops.custom_options import flex_node
from jfuse.tf_nodes.single_node import run_node
from tests.opaque_ops.test_custom_options import custom

spec = tf.TensorSpec


def two_ops(x: Any) -> Any:
    return {"y": tf.math.igamma(tf.abs(x), tf.abs(tf.math.special.dawsn(x))) + tf.math.special.dawsn(x + 1.0)}


@pytest.fixture(scope="module")
def function() -> Any:
    return tf.function(two_ops, input_signature=[spec([None, 3], tf.float32, name="x")], autograph=False)


def codes(model: jfuse.Model) -> list[str]:
    return [code for code, *_ in custom(model.to_bytes())]


def options(model: jfuse.Model) -> list[bytes]:
    return [row[-1] for row in custom(model.to_bytes())]


def test_ops_without_a_rule_become_flex_operators(function: Any) -> None:
    result = jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True))
    assert sorted(codes(result)) == ["FlexDawsn", "FlexDawsn", "FlexIgamma"]
    x = np.random.default_rng(0).uniform(0.5, 2.0, (4, 3)).astype(np.float32)
    np.testing.assert_allclose(result(x), two_ops(x)["y"], rtol=1e-6)  # a sum of two results
    dawsn = next(o for c, *_, o in custom(result.to_bytes()) if c == "FlexDawsn")
    np.testing.assert_array_equal(run_node(flex_node(dawsn), [x])[0], tf.math.special.dawsn(x))


def test_the_report_says_what_they_cost(function: Any) -> None:
    found = {
        c.code: c
        for c in jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True), verify=False).report.custom
    }
    assert (found["FlexDawsn"].count, found["FlexDawsn"].op) == (2, "Dawsn")
    assert "needs a runtime with the Flex delegate" in str(found["FlexIgamma"])
    own = jfuse.convert(
        function, pipeline=jfuse.Pipeline(custom_ops={"Dawsn": None, "Igamma": None}), verify=False
    ).report.custom
    assert all("needs a kernel of this name" in c.cost for c in own)


def test_both_ways_in_one_model(function: Any) -> None:
    result = jfuse.convert(
        function, pipeline=jfuse.Pipeline(select_tf_ops=True, custom_ops={"Igamma": {"a": 1}}), verify=False
    )
    assert sorted(codes(result)) == ["FlexDawsn", "FlexDawsn", "Igamma"]


@pytest.mark.parametrize("given", [None, True])
def test_attributes_of_the_node(function: Any, given: bool | None) -> None:
    result = jfuse.convert(
        function, pipeline=jfuse.Pipeline(custom_ops={"Dawsn": given, "Igamma": given}), verify=False
    )
    assert [flexbuffers.Loads(o) for o in options(result)] == [{"T": 0}] * 3


def test_other_options(function: Any) -> None:
    def change(attributes: Mapping[str, Any]) -> Any:
        return {**attributes, "scale": 2}

    result = jfuse.convert(
        function, pipeline=jfuse.Pipeline(custom_ops={"Dawsn": change, "Igamma": b"raw"}), verify=False
    )
    assert [b"raw" if o == b"raw" else flexbuffers.Loads(o) for o in sorted(options(result))] == [
        {"T": 0, "scale": 2},
        {"T": 0, "scale": 2},
        b"raw",
    ]
    wrong: Any = lambda attributes: 7  # noqa: E731
    with pytest.raises(jfuse.JfuseError, match=r"custom_ops\['Igamma'\] gives no options(.|\n)*found +7"):
        jfuse.convert(function, pipeline=jfuse.Pipeline(custom_ops={"Dawsn": None, "Igamma": wrong}), verify=False)


def test_a_name_goes_before_its_rule() -> None:
    call = tf.function(lambda x: tf.nn.relu(x) + 1.0, input_signature=[spec([2], tf.float32)], autograph=False)
    result = jfuse.convert(call, pipeline=jfuse.Pipeline(custom_ops={"Relu": {"slope": 0.5}}), verify=False)
    assert codes(result) == ["Relu"]
    assert result.report.operators == {"custom.Relu": 1, "add": 1}


def test_unknown_names_are_refused(function: Any) -> None:
    with pytest.raises(jfuse.JfuseError, match=r"custom_ops= names Relu, but(.|\n)*are Dawsn, Igamma"):
        jfuse.convert(function, pipeline=jfuse.Pipeline(custom_ops={"Relu": None}))


def test_what_is_not_let_in_is_still_refused(function: Any) -> None:
    with pytest.raises(jfuse.LowerError, match=r"1 op has no TFLite spelling(.|\n)*tf\.Igamma \(1x"):
        jfuse.convert(function, pipeline=jfuse.Pipeline(custom_ops={"Dawsn": None}))


def test_operators_in_loops_and_branches() -> None:
    def call(x: Any) -> Any:
        def turn(i: Any, x: Any) -> Any:
            return i + 1, tf.cond(tf.reduce_sum(x) > 3.0, lambda: tf.math.special.dawsn(x), lambda: x + 1.0)

        return tf.while_loop(lambda i, x: i < tf.cast(x[0], tf.int32) + 3, turn, [0, x])[1]

    function = tf.function(call, input_signature=[spec([3], tf.float32)], autograph=False)
    result = jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True))
    assert codes(result) == ["FlexDawsn"]
    assert "LiteRT did not run the file: custom operators stand in a loop or branch" in result.report.notes
    x = np.array([1.0, 2.0, 0.25], np.float32)
    np.testing.assert_allclose(result(x), call(x), rtol=1e-6)  # a few integrals in a row


def test_what_cannot_leave_its_graph_is_no_custom_operator() -> None:
    def call(x: Any) -> Any:
        queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32])
        tf.raw_ops.QueueEnqueueV2(handle=queue, components=[x])
        return tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0] + tf.math.special.dawsn(x)

    function = tf.function(call, input_signature=[spec([3], tf.float32)], autograph=False)
    with pytest.raises(jfuse.LowerError, match=r"Queue\w+ (.|\n)*tf\.Dawsn \(1x, first at dawsn/Dawsn\)"):
        jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True))


def test_the_same_source_gives_the_same_bytes(function: Any) -> None:
    again = [
        jfuse.convert(function, pipeline=jfuse.Pipeline(select_tf_ops=True), verify=False).to_bytes() for _ in range(2)
    ]
    assert again[0] == again[1]
