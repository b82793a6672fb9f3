"""Differences that a comparison must see: states, types, sizes and integers; and comparisons of nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.api.sides import sides_of
from jfuse.base.errors import JfuseError
from jfuse.verification.options import Verify
from jfuse.verification.runners.in_litert import InLiteRt
from jfuse.verification.subject import Arrays, Calls
from jfuse.verification.verify import verify_sides

X = tf.TensorSpec([None, 4], tf.float32, name="x")


def function(body: Callable[[Any], Any], spec: Any = X) -> Any:
    return tf.function(lambda x: {"y": body(x)}, input_signature=[spec], autograph=False)


def file(source: Any) -> bytes:
    return jfuse.convert(source, verify=False).to_bytes()


class Counter(tf.Module):
    """Adds how often it was called."""

    def __init__(self) -> None:
        super().__init__()
        self.count = tf.Variable(0.0, name="count")

    @tf.function(input_signature=[X], autograph=False)
    def __call__(self, x: Any) -> Any:
        y = x + self.count
        self.count.assign_add(1.0)
        return {"y": y}


@pytest.mark.parametrize("first", ["source", "file"])
@pytest.mark.parametrize("second", ["source", "file"])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_state_on_one_side_differs(first: str, second: str, swapped: bool) -> None:
    counter = Counter()
    keeps, plain = counter.__call__, function(lambda x: x + 0.0)
    sides = [file(keeps) if first == "file" else keeps, file(plain) if second == "file" else plain]
    a, b = sides[::-1] if swapped else sides
    with pytest.raises(jfuse.VerifyFailed, match=r"kept between calls by .* alone, not by .*: 'count'"):
        jfuse.verify(a, b, edges="none")


def test_a_state_on_one_side_that_changes_nothing_is_noted() -> None:
    class Seeded(Counter):
        @tf.function(input_signature=[X], autograph=False)
        def __call__(self, x: Any) -> Any:
            self.count.assign_add(1.0)
            return {"y": x * 2.0 + 0.0 * self.count}

    seeded = Seeded()
    found = jfuse.verify(file(function(lambda x: x * 2.0)), seeded.__call__, edges="none")
    assert "kept between calls by TensorFlow alone, not by XLA and LiteRT: 'count'" in found.notes


def test_states_that_were_asked_for_are_compared_by_first_calls() -> None:
    counter = Counter()
    lite = jfuse.convert(counter.__call__, state="reset")
    assert jfuse.verify(lite, edges="none").passed
    with pytest.raises(jfuse.VerifyFailed, match="by TensorFlow alone"):
        jfuse.verify(lite.to_bytes(), counter.__call__, edges="none")


NOTHING: list[Any] = [
    {"inputs": []},
    {"inputs": iter(())},
    {"inputs": tf.data.Dataset.from_tensor_slices(np.zeros((0, 1, 4), np.float32))},
    {"inputs": np.zeros((0, 4), np.float32)},
    {"inputs": [np.zeros((0, 4), np.float32)] * 2},
    {"sizes": {"B": 0}},
    {"sizes": [{"B": 0}, {"B": 0}]},
]


@pytest.mark.parametrize("options", NOTHING, ids=lambda o: f"{next(iter(o))}-{type(next(iter(o.values()))).__name__}")
def test_comparing_nothing_is_an_error(options: Any) -> None:
    with pytest.raises(JfuseError, match="compare nothing"):
        jfuse.verify(function(lambda x: x), function(lambda x: x * 2.0), **options)


def test_a_file_without_arrays_and_no_samples_are_errors(tmp_path: Path) -> None:
    np.savez(tmp_path / "none.npz")
    given: list[Any] = [str(tmp_path / "none.npz"), []]
    for inputs in given:
        with pytest.raises(JfuseError, match="compare nothing"):
            jfuse.convert(function(lambda x: x), verify=jfuse.Verify(inputs=inputs))


def test_empty_rows_beside_others_are_compared() -> None:
    rows = [np.zeros((0, 4), np.float32), np.ones((1, 4), np.float32)]
    assert jfuse.verify(function(lambda x: x), function(lambda x: x * 1.0), inputs=rows).samples == 2


@pytest.mark.parametrize(
    ("one", "other", "types"),
    [
        (lambda x: tf.argmax(x, 1), lambda x: tf.argmax(x, 1, tf.int32), "int32.*int64"),
        (lambda x: x > 0.0, lambda x: tf.cast(x > 0.0, tf.int32), "int32.*bool"),
        (lambda x: x, lambda x: tf.cast(x, tf.float64), "float64.*float32"),
    ],
    ids=["i64-i32", "bool-i32", "f32-f64"],
)
def test_outputs_of_other_types_are_an_error(one: Any, other: Any, types: str) -> None:
    for a in (function(one), file(function(one))):
        with pytest.raises(JfuseError, match=rf"(?s)'y' .* another type on the two sides.*{types}"):
            jfuse.verify(a, function(other), edges="none")


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("limit", [8, 64])
def test_one_call_is_longer(axis: int, limit: int) -> None:
    spec = tf.TensorSpec([None, None, 3], tf.float32, name="x")
    other = function(lambda x: tf.where(tf.shape(x)[axis] > limit, -x, x), spec)
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(function(lambda x: x, spec), other, jfuse.Verify(shrink=0), edges="none")


def test_a_table_that_ends_before_the_longer_call_is_no_difference() -> None:
    table = np.random.default_rng(0).standard_normal((20, 3)).astype(np.float32)
    spec = tf.TensorSpec([1, None, 3], tf.float32, name="x")
    source = function(lambda x: x + tf.gather(table, tf.range(tf.shape(x)[1])), spec)
    notes = jfuse.convert(source).report.notes
    assert "inputs of longer sizes: TensorFlow refuses them" in notes
    assert jfuse.verify(file(source), edges="none").passed


INTEGERS: dict[str, tuple[Any, Any, Any]] = {
    "negative": (tf.int32, tf.abs, lambda i: i),
    "above 127": (tf.uint8, lambda i: tf.cast(i, tf.float32), lambda i: tf.cast(tf.minimum(i, 127), tf.float32)),
    "16 bits": (tf.int16, lambda i: tf.cast(i, tf.float32), lambda i: tf.cast(tf.cast(i, tf.int8), tf.float32)),
    "64 bits": (tf.int64, lambda i: i * 2, lambda i: tf.cast(tf.cast(i, tf.int32) * 2, tf.int64)),
}


@pytest.mark.parametrize(("dtype", "one", "other"), INTEGERS.values(), ids=INTEGERS)
def test_integers_are_drawn_over_their_type(dtype: Any, one: Any, other: Any) -> None:
    spec = tf.TensorSpec([None, 8], dtype, name="i")
    with pytest.raises(jfuse.VerifyFailed, match="differs"):
        jfuse.verify(function(one, spec), function(other, spec), jfuse.Verify(shrink=0), edges="none")


class _WrongAfterOtherSizes:
    """LiteRT, whose answers are wrong after a call with another batch, though it keeps nothing."""

    def __init__(self, calls: Calls) -> None:
        self._calls, self._sizes = calls, set[int]()
        self.states: Arrays = {}

    def reset(self) -> None:
        self._calls.reset()

    def run(self, inputs: Arrays, key: str | None = None) -> dict[str, np.ndarray]:
        self._sizes.add(len(inputs["x"]))
        return {n: a + (len(self._sizes) > 1) for n, a in self._calls.run(inputs, key).items()}


class _Wrong(InLiteRt):
    def start(self) -> Calls:
        return _WrongAfterOtherSizes(super().start())


def test_all_calls_that_a_fault_needs_are_saved(tmp_path: Path) -> None:
    source = function(lambda x: x * 2.0)
    sides = sides_of(file(source), source)
    right = sides.subjects[1]
    assert isinstance(right, InLiteRt)
    sides = replace(sides, subjects=(sides.subjects[0], _Wrong(right.data, right.program)))
    options = Verify(edges="none")
    with pytest.raises(jfuse.VerifyFailed, match="tensorflow/litert") as failed:
        verify_sides(sides, replace(options, save_failing=tmp_path))
    found = failed.value.verification
    assert found is not None
    assert len({len(inputs["x"]) for _, inputs in found.inputs}) == 2
    with pytest.raises(jfuse.VerifyFailed, match="tensorflow/litert"):
        verify_sides(sides, replace(options, inputs=found.failing))
