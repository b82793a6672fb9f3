"""Models that take some inputs only: what their consumers say is drawn, what TensorFlow refuses is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.ir.graph import Signature
from jfuse.ir.trace import trace_graph
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.verification.inputs.redraw import Manner, Redraw
from tests.slow import slow_but

TABLE = np.arange(24, dtype=np.float32).reshape(6, 4)


def spec(name: str, *shape: int | None, dtype: Any = tf.int32) -> tf.TensorSpec:
    return tf.TensorSpec(shape, dtype, name=name)


def floats(name: str, *shape: int | None) -> tf.TensorSpec:
    return spec(name, *shape, dtype=tf.float32)


def traced(function: Callable[..., Any], *specs: tf.TensorSpec) -> Any:
    return tf.function(function, input_signature=specs, autograph=False)


def from_splits(values: Any, splits: Any) -> Any:
    """Sums of rows, as a ragged tensor has them, with the checks of its splits."""
    checks = [
        tf.debugging.assert_equal(splits[0], 0),
        tf.debugging.assert_equal(splits[-1], tf.size(values)),
        tf.debugging.assert_non_negative(splits[1:] - splits[:-1]),
    ]
    with tf.control_dependencies(checks):
        return tf.cast(splits[1:] - splits[:-1], tf.float32) * tf.reduce_sum(values)


def checked(x: Any, *checks: Any) -> Any:
    with tf.control_dependencies(checks):
        return tf.cast(x, tf.float32) * 2.0


def transposed(rank: int, **options: Any) -> Callable[[Any, Any], Any]:
    """A transposed convolution over images or volumes of 3 channels to 4, in the shape given."""
    kernel = np.random.default_rng(0).normal(size=(*(3,) * rank, 4, 3)).astype(np.float32)
    function = {1: tf.nn.conv1d_transpose, 2: tf.nn.conv2d_transpose, 3: tf.nn.conv3d_transpose}[rank]
    return lambda x, shape: function(x, kernel, shape, **{"strides": 2, "padding": "SAME", **options})


def grown_twice(x: Any, shape: Any) -> Any:
    """Two in a row, the second with a shape computed from the result of the first."""
    first = transposed(2)(x, shape)[..., :3]
    rows = tf.shape(first)
    return transposed(2)(first, tf.stack([rows[0], rows[1] * 2, rows[2] * 2, 4]))


SHAPES: dict[str, Any] = {
    "image": traced(transposed(2), floats("x", 2, 5, 6, 3), spec("s", 4)),
    "valid": traced(transposed(2, padding="VALID", strides=3), floats("x", 2, 5, 6, 3), spec("s", 4)),
    "open": traced(transposed(2), floats("x", None, None, None, 3), spec("s", 4)),
    "sequence": traced(transposed(1), floats("x", 2, 7, 3), spec("s", 3)),
    "volume": traced(transposed(3), floats("x", 1, 4, 5, 3, 3), spec("s", 5)),
    "sizes by themselves": traced(
        lambda x, h, w: transposed(2)(x, tf.stack([2, h, w, 4])), floats("x", 2, 5, 6, 3), spec("h"), spec("w")
    ),
    "sizes of the image": traced(
        lambda x, s: transposed(2)(x, tf.concat([tf.shape(x)[:1], s, [4]], 0)), floats("x", None, 5, 6, 3), spec("s", 2)
    ),
    "open kernel": traced(
        lambda x, w, s: tf.nn.conv2d_transpose(x, w, s, 2, "VALID"),
        floats("x", 2, 5, 6, 3),
        floats("w", 3, None, 4, 3),
        spec("s", 4),
    ),
    "twice": traced(grown_twice, floats("x", 2, 3, 4, 3), spec("s", 4)),
}
"""Transposed convolutions whose shape is an input."""


MODELS: dict[str, Any] = {
    "divisor": traced(lambda x, y: x // y, spec("x", 4), spec("y", 4)),
    "divisor truncated": traced(tf.truncatediv, spec("x", 4), spec("y", 4)),
    "divisor of a remainder": traced(lambda x, y: x % (y - 1), spec("x", 4), spec("y")),
    "shape": traced(lambda x, s: tf.reshape(x, s) * 2.0, floats("x", None, 6), spec("s", 2)),
    "part of a shape": traced(lambda x, n: tf.reshape(x, [n, -1]) * 2.0, floats("x", 2, 6), spec("n")),
    "shape of a constant": traced(tf.fill, spec("s", 3), floats("v")),
    "shape to broadcast to": traced(tf.broadcast_to, floats("x", 2, 1, 3), spec("s", 3)),
    "index": traced(lambda i: tf.gather(TABLE, i - 2), spec("i", 5)),
    "doubled index": traced(lambda i: tf.gather(TABLE, i * 2), spec("i", 5)),
    "index of an open table": traced(tf.gather, floats("x", None, 3), spec("i", 5)),
    "indices": traced(tf.gather_nd, floats("x", 4, 3), spec("i", 5, 2)),
    "places": traced(lambda i, u: tf.scatter_nd(i, u, [7]), spec("i", 3, 1), floats("u", 3)),
    "lengths": traced(lambda x, n: tf.reverse_sequence(x, n, 1), floats("x", None, None, 2), spec("n", None)),
    "row splits": traced(from_splits, floats("v", 6), spec("r", 4)),
    "row splits of two levels": traced(
        lambda v, a, b: tf.RaggedTensor.from_nested_row_splits(v, [a, b]).to_tensor() * 2.0,
        floats("v", 6),
        spec("a", 3),
        spec("b", 4),
    ),
    "segments": traced(tf.math.segment_sum, floats("x", 5), spec("i", 5)),
    "segments of an open number": traced(tf.math.segment_mean, floats("x", None, 2), spec("i", None)),
    "segments below an input": traced(
        lambda x, i, n: tf.math.unsorted_segment_sum(x, i, n * 2), floats("x", None), spec("i", None), spec("n")
    ),
    "rows of segments": traced(
        tf.sparse.segment_mean, floats("x", None, 2), spec("i", None), spec("s", None, dtype=tf.int64)
    ),
    "boxes and their scores": traced(
        lambda b, s: tf.gather(b, tf.image.non_max_suppression(b, s, 5)), floats("b", None, 4), floats("s", None)
    ),
    "mask of a length of its own": traced(tf.boolean_mask, floats("x", None, 2), spec("m", None, dtype=tf.bool)),
    "rows by their numbers": traced(
        lambda v, i: tf.RaggedTensor.from_value_rowids(v, i, nrows=4).to_tensor() * 2.0,
        floats("v", None),
        spec("i", None, dtype=tf.int64),
    ),
    "paddings with sizes of their own": traced(
        lambda x, p: tf.where(tf.broadcast_to(p > 0.5, tf.shape(x)), x, tf.zeros_like(x)),
        floats("x", None, None, 2),
        floats("p", None, None, 1),
    ),
    "rows that must be there": traced(lambda x: x[2] + x[1:][-2] + tf.math.top_k(x[0], 3)[0], floats("x", None, None)),
    "begin": traced(lambda x, b: tf.slice(x, b, [1, 2]) * 2.0, floats("x", 2, 6), spec("b", 2)),
    "begin and size": traced(lambda x, b, s: tf.slice(x, b, s) * 2.0, floats("x", 2, 6), spec("b", 2), spec("s", 2)),
    "count": traced(lambda x, k: tf.math.top_k(x, k)[0], floats("x", 2, 6), spec("k")),
    "checked integers": traced(
        lambda x: checked(x, tf.debugging.assert_less(x, 5), tf.debugging.assert_positive(x)), spec("x", 3)
    ),
    "checked floats": traced(
        lambda x: checked(x, tf.debugging.assert_less(x, 1.0), tf.debugging.assert_non_negative(x)), floats("x", 3)
    ),
}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_models_that_take_some_inputs_only(model: Any) -> None:
    report = jfuse.convert(model).report
    assert {d.pair for d in report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    assert all(d.samples >= 3 for d in report.differences)


@pytest.mark.parametrize("name", slow_but(lambda name: name in ("open", "volume"), list(SHAPES)))
def test_shapes_of_transposed_convolutions(name: str) -> None:
    test_models_that_take_some_inputs_only(SHAPES[name])


@pytest.mark.parametrize(
    "model",
    [
        traced(lambda a: tf.linalg.cholesky(a), floats("a", 3, 3)),
        traced(lambda a, b: tf.linalg.cholesky_solve(tf.linalg.cholesky(a), b), floats("a", 3, 3), floats("b", 3, 2)),
    ],
)
def test_matrices_that_are_not_definite_tell_nothing(model: Any) -> None:
    """TensorFlow's factor of one is NaN, with what happened to be in memory above the diagonal."""
    report = jfuse.convert(model).report
    assert {d.pair for d in report.differences} == {"tensorflow/xla", "tensorflow/litert"}
    assert not any("NaN" in note for note in report.notes)


def test_batches_of_samples_have_the_sizes_that_agree() -> None:
    model = jfuse.convert(MODELS["paddings with sizes of their own"])
    assert jfuse.verify(model, samples=8, edges="none").passed


def test_samples_whose_outputs_have_sizes_of_their_own_are_refused() -> None:
    model = jfuse.convert(MODELS["mask of a length of its own"])
    with pytest.raises(
        jfuse.JfuseError, match=r"has another shape for each sample(.|\n)*try +options=jfuse.Verify.calls=…"
    ):
        jfuse.verify(model, samples=8, edges="none")
    assert jfuse.verify(model, options=jfuse.Verify(calls=8), edges="none").passed


def test_batches_of_samples_are_drawn_as_calls_are() -> None:
    model = jfuse.convert(MODELS["row splits"])
    found = jfuse.verify(model, samples=40, edges="none", sizes={})
    assert found.samples == 40 + 3
    found = jfuse.verify(model)
    assert "inputs of ones: TensorFlow refuses them" not in found.notes  # the splits among them stay splits


def test_a_model_that_takes_nothing_drawn_says_what_helps(tmp_path: Path) -> None:
    def guarded(x: Any) -> Any:
        return checked(x, tf.debugging.assert_equal(x, [3, 14, 15]))

    model = traced(guarded, spec("x", 3))
    with pytest.raises(jfuse.VerifyFailed, match=r"fails on the inputs of .*\n.*\n.*try +jfuse.Verify\(inputs="):
        jfuse.convert(model)
    right = np.array([3, 14, 15], np.int32)
    np.savez(tmp_path / "data.npz", x=right)
    for samples in (right, {"x": right}, [right, right], tmp_path / "data.npz"):
        found = jfuse.convert(model, verify=jfuse.Verify(inputs=samples)).report.differences
        assert [d.samples for d in found] == [2 if isinstance(samples, list) else 1] * 2
    with pytest.raises(jfuse.VerifyFailed, match="TensorFlow fails on the inputs of"):
        jfuse.convert(model, verify=jfuse.Verify(inputs=right + 1))


def test_the_tolerance_of_a_conversion() -> None:
    model = traced(lambda x: tf.tanh(x @ tf.transpose(x)), floats("x", 8, 8))
    (on_xla, _) = jfuse.convert(model, verify=jfuse.Verify(tolerance=0.5)).report.differences
    assert (on_xla.tolerance, on_xla.reason) == (0.5, "as asked for")
    with pytest.raises(jfuse.VerifyFailed, match="of at most 1e-12"):
        jfuse.convert(model, verify=jfuse.Verify(tolerance=1e-12))


GENERATOR = np.random.default_rng(0)
OTHERS = {"x": np.zeros((4, 6)), "v": np.zeros(9)}


@pytest.mark.parametrize(
    ("manner", "holds"),
    [
        (Manner("splits", "v", 0), lambda a: a[0] == 0 and a[-1] == 9 and (np.diff(a) >= 0).all()),
        (Manner("rows", "v", 0), lambda a: a[0] == 0 and a[-1] == 8 and (np.diff(a) >= 0).all()),
        (Manner("parts", "v", 0), lambda a: a.sum() == 9 and (a >= 0).all()),
        (Manner("factors", "x"), lambda a: a.prod() == 24),
        (Manner("shape", "x"), lambda a: a.tolist() == [2, 4, 6]),
        (Manner("order"), lambda a: sorted(a) == [0, 1, 2]),
        (Manner("below", "x", 0), lambda a: 0 <= a.min() <= a.max() < 4),
        (Manner("range", least=-2, end=1), lambda a: -2 <= a.min() <= a.max() < 1),
        (Manner("few"), lambda a: 1 <= a.min() <= a.max() <= 3),
    ],
    ids=lambda value: value.kind if isinstance(value, Manner) else "",
)
def test_manners(manner: Manner, holds: Callable[[np.ndarray], bool]) -> None:
    for _ in range(20):
        found = manner.draw(GENERATOR, np.zeros(3, np.int32), OTHERS)
        assert found.shape == (3,)
        assert found.dtype == np.int32
        assert holds(found)


def test_sizes_of_another_input() -> None:
    """Along the same axis, or along another one; the numbers stay those that were drawn."""
    drawn = np.array([5, 3, 7], np.int32)
    assert Manner("sizes", "v", axes=((0, 0),)).draw(GENERATOR, drawn, OTHERS).tolist() == [5, 3, 7] * 3
    assert Manner("ascending", "x", axes=((0, 1),)).draw(GENERATOR, drawn, OTHERS).tolist() == [3, 3, 5, 5, 7, 7]


def test_matrices_are_definite() -> None:
    found = Manner("definite").draw(GENERATOR, np.zeros((2, 3, 3), np.float32), OTHERS)
    np.testing.assert_allclose(found, np.swapaxes(found, -1, -2))
    assert np.linalg.eigvalsh(found).min() > 0


def test_what_the_message_says_comes_first() -> None:
    types = [TensorType((3,), DType.i32)] * 2
    signature = Signature("main", trace_graph(ops.add, types), ("a", "b"), ("y",))
    drawn = {"a": np.array([57, 3, 8], np.int32), "b": np.array([4, 4, 4], np.int32)}
    manners, found = next(Redraw().others(signature, drawn, "indices[0] = 57 is not in [2, 5)"))
    assert manners == {"a": Manner("range", least=2, end=5)}
    assert 2 <= found["a"].min() <= found["a"].max() < 5
    assert found["b"] is drawn["b"]


def test_the_tries_come_to_an_end() -> None:
    types = [TensorType((3,), DType.i32)] * 3
    signature = Signature("main", trace_graph(lambda *x: ops.add_n(*x), types), ("a", "b", "c"), ("y",))
    drawn = {name: np.arange(3, dtype=np.int32) for name in "abc"}
    redraw = Redraw()
    count = sum(len(list(redraw.others(signature, drawn, ""))) for _ in range(5))
    assert 50 < count <= 200


def test_inputs_with_a_promise_stay_as_they_are() -> None:
    types = [TensorType((3,), DType.i32)] * 2
    signature = Signature("main", trace_graph(ops.add, types), ("a", "b"), ("y",))
    drawn = {"a": np.array([57, 3, 8], np.int32), "b": np.array([57, 4, 4], np.int32)}
    tried = list(Redraw({"main": {"b"}}).others(signature, drawn, "57 is not in [2, 5)"))
    assert len(tried) > 5
    assert all(found["b"] is drawn["b"] for _, found in tried)


@pytest.mark.parametrize(
    ("function", "specs"),
    [
        (lambda x: tf.batch_to_space(x, [2], [[1, 0]]), [floats("x", None, 3, 2)]),
        (lambda x: tf.batch_to_space(x, [3, 3], [[0, 1], [0, 0]]), [floats("x", None, None, 3, 2)]),
        (lambda x: x[tf.shape(x)[0] % 2], [floats("x", None, 4)]),
        (lambda x, y: tf.reshape(x, [-1, 6])[:1] + tf.reduce_sum(y), [floats("x", None, 4), floats("y", None, 2)]),
    ],
    ids=["blocks", "blocks of two axes", "a place within", "rows of two inputs"],
)
def test_open_sizes_that_the_source_takes(function: Callable[..., Any], specs: list[tf.TensorSpec]) -> None:
    assert jfuse.convert(traced(function, *specs)).verification is not None
