"""Variables of the file: what one signature writes the others read, from their first values on, invoke after invoke."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.running.interpreter import LiteRt
from jfuse.verification.runners.in_tensorflow import run_tensorflow, variables_restored

VECTOR = tf.TensorSpec((3,), tf.float32, name="x")


class Shared(tf.Module):
    """Signatures that read and write the same variables, and share a weight."""

    def __init__(self) -> None:
        super().__init__()
        self.total = tf.Variable([1.0, -2.0, 0.5], name="total")
        self.calls = tf.Variable(40, name="calls", dtype=tf.int64)
        self.open = tf.Variable(True, name="open")
        self.weight = tf.Variable(np.arange(9, dtype=np.float32).reshape(3, 3) / 5, name="weight")

    @tf.function(input_signature=[VECTOR], autograph=False)
    def add(self, x: Any) -> Any:
        """Adds to the total unless it is closed."""
        self.calls.assign_add(1)
        change = tf.where(self.open, tf.linalg.matvec(self.weight, x), tf.zeros_like(x))
        return self.total.assign_add(change) * 2.0

    @tf.function(input_signature=[VECTOR], autograph=False)
    def read(self, x: Any) -> Any:
        """What there is by now."""
        return {"sum": tf.linalg.matvec(self.weight, x) + self.total, "calls": self.calls + 0}

    @tf.function(input_signature=[VECTOR], autograph=False)
    def switch(self, x: Any) -> Any:
        """Closes or opens, by the sign of the input."""
        before = tf.identity(self.open)
        self.open.assign(tf.reduce_sum(x) > 0.0)
        return before

    @tf.function(input_signature=[VECTOR], autograph=False)
    def replace(self, x: Any) -> Any:
        """Some elements, by their places."""
        self.total.scatter_nd_update([[0], [2]], x[:2])
        self.total.scatter_nd_add([[1]], x[2:])
        return self.total.sparse_read([2, 0])


ORDER = ("read", "add", "add", "read", "switch", "add", "replace", "read", "switch", "add", "switch", "read", "add")


@pytest.mark.parametrize("delegates", [True, False])
@pytest.mark.parametrize("saved", [False, True])
def test_signatures_share_what_they_write(tmp_path: Path, saved: bool, delegates: bool) -> None:
    module = Shared()
    functions = {name: getattr(module, name) for name in ("add", "read", "switch", "replace")}
    source: Any = functions
    if saved:
        source = tmp_path / "model"
        tf.saved_model.save(module, str(source), signatures=functions)
    lite = jfuse.convert(source)
    assert lite.imported is not None
    assert sorted(kept.name for kept in lite.report.kept) == ["calls", "open", "total"]
    runtime = LiteRt(lite.to_bytes(), delegates=delegates)
    rng = np.random.default_rng(0)
    with variables_restored(lite.imported):
        for name in ORDER:
            x = {"x": rng.normal(size=3).astype(np.float32)}
            wanted = run_tensorflow(lite.imported.functions[name], x)
            found = runtime.run(name, x)
            assert found.keys() == wanted.keys()
            assert all(relative_error(found[key], wanted[key]) < 1e-6 for key in wanted), name


def test_a_weight_of_several_signatures_is_in_the_file_once() -> None:
    module = Shared()
    weight = module.weight.numpy().tobytes()
    both = jfuse.convert({"add": module.add, "read": module.read}, verify=False).to_bytes()
    assert both.count(weight) == 1


def test_a_new_interpreter_starts_anew() -> None:
    module = Shared()
    data = jfuse.convert({"add": module.add, "read": module.read}, verify=False).to_bytes()
    x = {"x": np.ones(3, np.float32)}
    first, second = LiteRt(data), LiteRt(data)
    start = second.run("read", x)
    first.run("add", x)
    assert first.run("read", x)["calls"] == start["calls"] + 1
    assert second.run("read", x)["calls"] == start["calls"] == 40


FILTERS = np.random.default_rng(0).standard_normal((5, 4, 3)).astype(np.float32)
REDUCTIONS = {
    "sum": lambda b: tf.reduce_sum(b, 1),
    "maximum": lambda b: tf.reduce_max(b, 1),
    "dense": lambda b: tf.tanh(tf.einsum("btc,tco->bo", b, FILTERS[: b.shape[1]])),
    "depthwise": lambda b: tf.einsum("btc,tc->bc", b, FILTERS[: b.shape[1], :, 0]),
}


class Ring(tf.Module):
    """The last `steps` inputs are kept, the newest at the end; `late`: the buffer is read with the newest beside it."""

    def __init__(self, steps: int, reduce: Any, late: bool) -> None:
        super().__init__()
        self.kept = tf.Variable(tf.zeros([1, steps, 4]), name="kept")
        self.reduce, self.late = reduce, late

    @tf.function(input_signature=[tf.TensorSpec((1, 4), tf.float32, name="x")], autograph=False)
    def __call__(self, x: Any) -> Any:
        joined = tf.concat([self.kept if self.late else self.kept[:, 1:], x[:, None]], 1)
        self.kept.assign(joined[:, 1:] if self.late else joined)
        return self.reduce(joined)


@pytest.mark.parametrize(("steps", "late"), [(0, True), (1, False), (2, True), (4, True), (5, False)])
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_ring_buffers_stream(reduction: str, steps: int, late: bool) -> None:
    module = Ring(steps, REDUCTIONS[reduction], late)
    lite = LiteRt(jfuse.convert(module.__call__, verify=False).to_bytes())
    for seed in range(8):
        x = np.random.default_rng(seed).standard_normal((1, 4)).astype(np.float32)
        (found,) = lite.run("serving_default", {"x": x}).values()
        assert relative_error(found, module(x).numpy()) < 1e-6  # sums of 20 terms in another order
