"""The error for what TFLite cannot say: all of it at once, counted by the source's nodes, before any work is done."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import LowerError
from jfuse.ir.graph import Source
from jfuse.ir.trace import at_source, trace_graph
from jfuse.opaque_ops.tf_op import TfOp
from jfuse.passes.gates.alternatives import alternative_to
from jfuse.passes.gates.builtins_only import check_operators
from jfuse.passes.pipeline import PIPELINE
from jfuse.passes.states.layers import layer_of
from tests.tflite.programs import f32

spec = tf.TensorSpec


def message(call: Any, *specs: Any, **options: Any) -> str:
    function = tf.function(call, input_signature=list(specs), autograph=False)
    with pytest.raises(LowerError) as caught:
        jfuse.convert(function, **options)
    return str(caught.value)


def test_all_ops_with_counts_places_and_what_to_do() -> None:
    def call(x: Any) -> Any:
        with tf.name_scope("scores"):
            x = tf.math.special.dawsn(tf.math.special.dawsn(x))
        return tf.linalg.sqrtm(x) + tf.random.gamma([3, 3], 2.0)

    text = message(call, spec([3, 3], tf.float32, name="x"))
    assert text.startswith("3 ops have no TFLite spelling\n")
    assert "tf.Dawsn (2x, first at scores/dawsn/Dawsn (Dawsn), scope 'dawsn')" in text
    assert "tf.MatrixSquareRoot (1x, first at MatrixSquareRoot (MatrixSquareRoot))\n" in text
    assert "compute it once and keep the result" in text
    assert "make the random numbers an input" in text
    for way in ('@jfuse.lowers("Dawsn")', "select_tf_ops=True", 'custom_ops=["Dawsn"]', "unsupported.md"):
        assert way in text


def test_keras_layers_are_named() -> None:
    class Score(tf.keras.layers.Layer):
        def build(self, shape: Any) -> None:
            self.scale = self.add_weight(name="scale", shape=(shape[-1],))

        def call(self, x: Any) -> Any:
            return tf.math.special.dawsn(x * self.scale)

    model = tf.keras.Sequential([tf.keras.Input((4,)), Score(name="score"), Score(name="again")])
    with pytest.raises(LowerError, match=r"tf\.Dawsn \(2x, first at \S+ \(Dawsn\), layer 'score'\)"):
        jfuse.convert(model)


@pytest.mark.parametrize(
    ("path", "layer"),
    [
        ("model/dense/MatMul", "layer 'dense'"),
        ("model/dense_1/MatMul", "layer 'dense'"),
        ("model/dense/inner/MatMul", "layer 'dense'"),
        ("model/odd_1/MatMul", "scope 'odd_1'"),
        ("StatefulPartitionedCall/MatMul", ""),
        ("MatMul", ""),
    ],
)
def test_the_layer_of_a_path(path: str, layer: str) -> None:
    assert layer_of(Source(path, "MatMul"), ["dense/kernel", "block/other/bias"]) == layer


def test_a_repeated_node_counts_once() -> None:
    def call(x: Any) -> Any:
        for node in ("loop/Odd", "loop/Odd", "Odd"):
            with at_source(Source(node, "Odd")):
                (x,) = TfOp("Odd", (f32(2),), "no rule\nsecond line").run([x], {}, ())
        return x

    with pytest.raises(LowerError, match=r"tf\.Odd \(2x, first at loop/Odd \(Odd\), scope 'loop'\): no rule\n"):
        check_operators([trace_graph(call, [f32(2)])])


def test_what_a_rule_refuses_is_told_with_its_reason() -> None:
    @jfuse.lowers("Dawsn", default=False)
    def refuse(x: Any) -> Any:
        raise LowerError("no logarithm", expected="x > 0", found="x < 0", remedy="square\nthe operand")

    text = message(tf.math.special.dawsn, spec([4], tf.float32), rules=[refuse])
    assert (
        "tf.Dawsn (1x, first at dawsn/Dawsn (Dawsn), scope 'dawsn'): no logarithm (expected x > 0, found x < 0)\n"
        in text
    )
    assert "\n              square\n              the operand\n" in text


def test_nothing_is_proved_before_it() -> None:
    """A recurrence beside the op is not recovered first."""
    stages: list[str] = []

    def call(x: Any) -> Any:
        def step(h: Any, x: Any) -> Any:
            return tf.tanh(h + x)

        return tf.scan(step, x, tf.zeros([4])) + tf.math.special.dawsn(x)

    message(call, spec([5, 4], tf.float32), on_stage=stages.append)
    assert stages[-1] == "no_lost_ops"
    names = [step.__name__ for step in PIPELINE]
    assert names.index("no_lost_ops") < min(names.index(name) for name in ("reroll", "recover", "fuse", "simplify"))


def test_ops_within_a_composite_wait_for_its_fusion() -> None:
    @tf.function(experimental_implements="acme.odd", autograph=False)
    def odd(x: Any) -> Any:
        return tf.math.special.dawsn(x)

    @jfuse.fuses("acme.odd", default=False)
    def fuse_odd(x: Any) -> Any:
        return jfuse.ops.relu(x)

    stages: list[str] = []
    text = message(lambda x: odd(x), spec([3], tf.float32), rules=[fuse_odd], on_stage=stages.append)
    assert "tf.Dawsn (1x" in text
    assert stages[-1] == "only_operators"
    message(lambda x: odd(x), spec([3], tf.float32), on_stage=stages.append)
    assert stages[-1] == "no_lost_ops"


def test_dead_ops_are_no_matter() -> None:
    def call(x: Any) -> Any:
        def turn(i: Any, x: Any, unread: Any) -> Any:
            return i + 1, x * 2.0, tf.math.special.dawsn(unread)

        return tf.while_loop(lambda i, *_: i < 3, turn, [0, x, x])[1]

    function = tf.function(call, input_signature=[spec([3], tf.float32)], autograph=False)
    np.testing.assert_array_equal(jfuse.convert(function)(np.ones(3, np.float32)), [8, 8, 8])


def test_an_import_that_cannot_go_on_tells_of_the_other_ops() -> None:
    """A queue has no type that an equation could have, so the import ends there."""

    def call(x: Any) -> Any:
        queue = tf.raw_ops.FIFOQueueV2(component_types=[tf.float32])
        x = tf.cond(tf.reduce_sum(x) > 0.0, lambda: tf.math.special.dawsn(x), lambda: tf.math.log(x))
        return x + tf.raw_ops.QueueDequeueV2(handle=queue, component_types=[tf.float32])[0]

    text = message(call, spec([3], tf.float32))
    assert "Queue" in text.splitlines()[0]
    assert "besides, without a rule:" in text
    assert "tf.Dawsn (1x, first at cond/cond/dawsn/Dawsn)" in text
    assert "tf.Relu" not in text


@pytest.mark.parametrize(
    ("op", "advice"),
    [
        ("DecodeJpeg", "before the model"),
        ("RegexReplace", "text work"),
        ("StatelessRandomNormalV2", "random numbers"),
        ("ResourceApplyAdam", "training"),
        ("TruncateDiv", ""),
        ("Cosh", ""),
        ("Dawsn", ""),
    ],
)
def test_alternatives(op: str, advice: str) -> None:
    assert advice in alternative_to(op)
    assert bool(advice) == bool(alternative_to(op))


def test_what_cannot_leave_its_graph_is_said() -> None:
    bound, alone = (
        trace_graph(lambda x, node=node: TfOp("Odd", (f32(2),), node=node).run([x], {}, ())[0], [f32(2)])
        for node in (b"", b"a node")
    )
    with pytest.raises(LowerError, match="custom_ops= cannot take ops that refer to other nodes of their graph: Odd"):
        check_operators([bound])
    with pytest.raises(LowerError) as caught:
        check_operators([alone])
    assert "cannot leave" not in str(caught.value)
