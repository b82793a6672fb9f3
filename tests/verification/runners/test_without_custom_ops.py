"""Files with custom operators: everything but these runs in LiteRT, and what differs there is found."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.errors import VerifyFailed
from jfuse.ir.graph import Graph
from jfuse.kernels import ops
from jfuse.passes.rewrite import rewrite
from jfuse.verification.runners.without_custom_ops import AroundCustom, can_be_cut, has_custom, results_by_chance

spec = tf.TensorSpec


def converted(call: Any, *specs: Any, **options: Any) -> jfuse.Model:
    function = tf.function(call, input_signature=list(specs), autograph=False)
    return jfuse.convert(function, **{"select_tf_ops": True, **options})


def chain(x: Any) -> Any:
    """An operand that is an input, a result that is an output, one read twice, and one that nobody reads."""
    first = tf.math.special.dawsn(x)
    s, u, _ = tf.linalg.svd(tf.tanh(first) + 1.0)
    return {"first": first, "y": s * 2.0, "u": u * u}


def test_operands_and_results_are_compared() -> None:
    result = converted(chain, spec([2, None, 2], tf.float32, name="x"))
    pairs = {(d.output, d.pair) for d in result.report.differences}
    assert {("y", "tensorflow/xla"), ("y", "xla/litert"), ("first", "xla/litert")} <= pairs
    assert ("operand 0 of custom.FlexSvd 1", "xla/litert") in pairs
    assert "LiteRT ran the file without its custom operators, and was given their results" in result.report.notes


def test_a_file_without_them_takes_and_gives_what_they_do() -> None:
    result = converted(chain, spec([2, None, 2], tf.float32, name="x"), verify=False)
    assert has_custom(result.program)
    assert can_be_cut(result.program)
    x = np.random.default_rng(0).uniform(1, 2, (2, 3, 2)).astype(np.float32)
    found, wanted = AroundCustom(result.program).run("serving_default", {"x": x}, {})
    assert found.keys() == wanted.keys() >= {"first", "y", "u"}
    first = tf.math.special.dawsn(x).numpy()
    np.testing.assert_array_equal(found["first"], first)
    np.testing.assert_allclose(found["operand 0 of custom.FlexSvd 1"], np.tanh(first) + 1.0, rtol=1e-6)  # one tanh


def wrong(graph: Graph) -> Graph:
    """tanh in place of each logistic."""
    return rewrite(graph, lambda e: [ops.tanh(e.inputs[0])] if e.op is ops.logistic else None)


def test_a_difference_before_an_operator_is_found() -> None:
    given = spec([3], tf.float32, name="x")
    result = converted(lambda x: tf.math.special.dawsn(tf.sigmoid(x) + 1.0), given, verify=False)
    broken = jfuse.Model(result.program.with_graphs(wrong), result.imported, result.report)
    with pytest.raises(VerifyFailed, match=r"tensorflow/xla(.|\n)*tanh"):
        jfuse.verify(broken)


def test_a_difference_in_litert_names_the_operand(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cut file computes something else than XLA."""
    from jfuse.verification.runners import without_custom_ops as around

    cut = around._cut
    monkeypatch.setattr(around, "_cut", lambda s: replace(cut(s), graph=wrong(cut(s).graph)))
    with pytest.raises(VerifyFailed, match=r"output 'operand 0 of custom.FlexDawsn 0'(.|\n)*\(xla/litert\)"):
        converted(lambda x: tf.math.special.dawsn(tf.sigmoid(x)), spec([3], tf.float32, name="x"))


def test_random_numbers_are_compared_in_litert_alone() -> None:
    def call(x: Any) -> Any:
        return {"noisy": tf.random.gamma([3], 2.0) * x, "plain": tf.math.special.dawsn(x)}

    result = converted(call, spec([3], tf.float32, name="x"))
    pairs = {(d.output, d.pair) for d in result.report.differences}
    assert ("noisy", "xla/litert") in pairs
    assert ("noisy", "tensorflow/xla") not in pairs
    assert ("plain", "tensorflow/xla") in pairs
    graph = result.signature().graph
    assert [result.signature().output_names[i] for i in results_by_chance(graph)] == ["noisy"]
    assert any(note.startswith("noisy depend on random numbers") for note in result.report.notes)


def test_states_go_on_around_them() -> None:
    total = tf.Variable(tf.ones([3]), name="total")

    def call(x: Any) -> Any:
        return total.assign_add(tf.math.special.dawsn(x + 2.0)) * 2.0

    result = converted(call, spec([3], tf.float32, name="x"))
    assert {d.pair for d in result.report.differences if d.output == "state total"} == {"tensorflow/xla"}
    stream = result.stream()
    x = np.ones(3, np.float32)
    step = tf.math.special.dawsn(x + 2.0).numpy()
    np.testing.assert_allclose([stream(x), stream(x)], [(1 + step) * 2, (1 + 2 * step) * 2], rtol=1e-6)  # two sums


def test_texts_go_around_as_well() -> None:
    result = converted(lambda x: tf.strings.regex_replace(x, "a+", "b"), spec([None], tf.string, name="x"))
    assert result(np.array([b"caat", b""], object)).tolist() == [b"cbt", b""]
