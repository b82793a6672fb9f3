"""Streaming models on forty calls in a row: LiteRT answers each as the source does (decoders: test_decoders.py)."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

import jfuse
from jfuse.running.interpreter import LiteRt
from tests.models.jax_streams import STREAMS, WIDTH

CALLS = 40
FAST = ("selective_space", "second_order_filter")
ERROR = 2e-5  # of the largest answer: sums of some terms in f32, through forty steps


def expect(result: Any, calls: list[np.ndarray], wanted: list[np.ndarray]) -> None:
    assert result.report.kept
    signature, runtime = result.signature(), LiteRt(result.to_bytes(), delegates=True)
    (name,) = signature.input_names
    largest = max(float(np.abs(w).max()) for w in wanted)
    for number, (x, w) in enumerate(zip(calls, wanted, strict=True)):
        found = runtime.run(signature.key, {name: x})[signature.output_names[0]]
        np.testing.assert_allclose(found, w, atol=ERROR * largest, rtol=0, err_msg=f"call {number}")


def drawn(shape: tuple[int, ...]) -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=shape).astype(np.float32) for _ in range(CALLS)]


@pytest.mark.parametrize(
    "make", [m if m.__name__ in FAST else pytest.param(m, marks=pytest.mark.slow) for m in STREAMS]
)
def test_a_stream_of_jax(make: Callable[[], Any]) -> None:
    step, state, shape = make()
    spec = jax.ShapeDtypeStruct(shape, np.float32)
    result = jfuse.convert(step, jfuse.Inputs([spec], params=state, mutable=True), verify=False)
    calls, wanted, eager = drawn(shape), [], jax.jit(step)
    for x in calls:
        y, state = eager(state, x)
        wanted.append(np.asarray(y))
    expect(result, calls, wanted)


TORCH = ("Ring", "Stream", "Mean", "Layers", "Selective", "Windowed")


@pytest.mark.slow
@pytest.mark.parametrize("name", TORCH)
def test_a_stream_of_pytorch(name: str) -> None:
    torch: Any = pytest.importorskip("torch")
    from tests.models.torch_modules import buffers

    module = getattr(buffers, name)().eval()
    shape = {"Stream": (1, 2, 4), "Mean": (5, 3), "Selective": (1, WIDTH), "Windowed": (1, WIDTH)}.get(name, (1, 3))
    result = jfuse.convert(module, [jax.ShapeDtypeStruct(shape, np.float32)], verify=False)
    calls, eager = drawn(shape), copy.deepcopy(module)
    with torch.no_grad():
        wanted = [eager(torch.from_numpy(x)).clone().numpy() for x in calls]
    expect(result, calls, wanted)


def streams_of_tf() -> dict[str, tuple[Any, tuple[int, ...]]]:
    import tensorflow as tf

    rng = np.random.default_rng(4)
    kernel = tf.constant(rng.normal(size=(3, WIDTH, WIDTH)) / 4, tf.float32)

    class Convolution(tf.Module):
        """A causal convolution whose past goes on."""

        def __init__(self) -> None:
            super().__init__()
            self.past = tf.Variable(tf.zeros([1, 2, WIDTH]))

        @tf.function(input_signature=[tf.TensorSpec([1, 3, WIDTH], name="x")])
        def call(self, x: Any) -> Any:
            """x: f32[1, 3, WIDTH]"""
            whole = tf.concat([self.past, x], 1)
            self.past.assign(whole[:, -2:])
            return tf.nn.relu(tf.nn.conv1d(whole, kernel, 1, "VALID"))

    class Window(tf.Module):
        """The largest of the last rows, in a ring that is scattered to."""

        def __init__(self) -> None:
            super().__init__()
            self.ring, self.at = tf.Variable(tf.zeros([5, WIDTH])), tf.Variable(0)

        @tf.function(input_signature=[tf.TensorSpec([1, WIDTH], name="x")])
        def call(self, x: Any) -> Any:
            """x: f32[1, WIDTH]"""
            self.ring.scatter_nd_update([[self.at]], x)
            self.at.assign((self.at + 1) % 5)
            return tf.reduce_max(self.ring, 0)

    class Average(tf.Module):
        """A leaky integrator over pieces of 32 steps."""

        def __init__(self) -> None:
            super().__init__()
            self.h = tf.Variable(tf.zeros([WIDTH]))

        @tf.function(input_signature=[tf.TensorSpec([32, WIDTH], name="x")])
        def call(self, x: Any) -> Any:
            """x: f32[32, WIDTH]"""
            y = tf.scan(lambda h, u: 0.9 * h + 0.1 * u, x, tf.identity(self.h))
            self.h.assign(y[-1])
            return y

    streams = (Convolution(), (1, 3, WIDTH)), (Window(), (1, WIDTH)), (Average(), (32, WIDTH))
    return dict(zip(("convolution", "window", "average"), streams, strict=True))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convolution", "window", "average"])
def test_a_stream_of_tensorflow(name: str) -> None:
    module, shape = streams_of_tf()[name]
    result = jfuse.convert(module.call, verify=False)
    calls = drawn(shape)
    expect(result, calls, [module.call(x).numpy() for x in calls])
