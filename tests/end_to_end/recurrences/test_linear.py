"""Linear recurrences from every source: without a loop where that is faster, and as right as the loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
import tensorflow as tf

import jfuse
from jfuse.base.measure import relative_error
from jfuse.running.interpreter import LiteRt

STEPS, WIDTH = 64, 6
RNG = np.random.default_rng(0)
KERNEL = RNG.standard_normal((WIDTH, 2 * WIDTH)).astype(np.float32)
SPEC = jax.ShapeDtypeStruct((2, STEPS, WIDTH), jnp.float32)


class Gated(keras.layers.Layer):
    """A minimal GRU: h' = (1 - z) h + z g, where z and g are computed from the input alone."""

    state_size = output_size = WIDTH

    def build(self, shape: Any) -> None:
        self.kernel = self.add_weight(shape=(WIDTH, 2 * WIDTH), name="kernel")

    def call(self, x: Any, states: Any) -> Any:
        z, g = keras.ops.split(x @ self.kernel, 2, axis=-1)
        z = keras.ops.sigmoid(z)
        h = (1 - z) * states[0] + z * g
        return h, [h]


def of_keras() -> Any:
    x = keras.Input((STEPS, WIDTH), batch_size=2)
    return keras.Model(x, keras.layers.RNN(Gated(), return_sequences=True)(x))


def gates_of_tf(x: Any) -> Any:
    """Gates and new values f32[STEPS, b, WIDTH] of x f32[b, STEPS, WIDTH]."""
    z, g = tf.split(tf.transpose(x, [1, 0, 2]) @ KERNEL, 2, -1)
    return tf.sigmoid(z), g


def of_tf_scan() -> Any:
    def call(x: Any) -> Any:
        z, g = gates_of_tf(x)
        return tf.scan(lambda h, v: (1 - v[0]) * h + v[1], (z, g), tf.ones_like(g[0]))

    return tf.function(call, input_signature=[tf.TensorSpec((None, STEPS, WIDTH), name="x")])


def of_tf_while() -> Any:
    def call(x: Any) -> Any:
        z, g = gates_of_tf(x)
        rows = tf.TensorArray(tf.float32, STEPS, element_shape=[2, WIDTH])

        def step(t: Any, h: Any, rows: Any) -> Any:
            h = z[t] * h + g[t]
            return t + 1, h, rows.write(t, h)

        return tf.while_loop(lambda t, *_: t < STEPS, step, (0, tf.zeros([2, WIDTH]), rows))[2].stack()

    return tf.function(call, input_signature=[tf.TensorSpec((2, STEPS, WIDTH), name="x")], autograph=False)


def of_jax_scan(x: Any) -> Any:
    """A state space of complex numbers (S4D, LRU)."""
    decay = jnp.exp(-jnp.linspace(0.01, 1, WIDTH) + 1j * jnp.linspace(0.1, 2, WIDTH))

    def step(h: Any, u: Any) -> Any:
        h = decay * h + u
        return h, h.real

    return jax.lax.scan(step, jnp.zeros((2, WIDTH), jnp.complex64), x.swapaxes(0, 1).astype(jnp.complex64))[1]


def selective(x: Any) -> Any:
    """A state space whose steps depend on the input (Mamba)."""
    rates = -jnp.exp(jnp.linspace(0, 1, 4))
    dt = jax.nn.softplus(x.swapaxes(0, 1))[..., None]

    def step(h: Any, v: Any) -> Any:
        dt, u = v
        h = jnp.exp(dt * rates) * h + dt * u[..., None]
        return h, h.sum(-1)

    return jax.lax.scan(step, jnp.zeros((2, WIDTH, 4)), (dt, x.swapaxes(0, 1)))[1]


def matrix_memory(x: Any) -> Any:
    """A memory with a decay for each row (RWKV, gated linear attention)."""
    k, v = jnp.split(x @ KERNEL / 4, 2, axis=-1)
    keep = jnp.exp(-jnp.exp(x))

    def step(s: Any, t: Any) -> Any:
        k, v, keep, q = t
        y = jnp.einsum("bi,bij->bj", q, s)
        return keep[..., None] * s + k[..., None] * v[:, None], y

    columns = [a.swapaxes(0, 1) for a in (k, v, keep, x)]
    return jax.lax.scan(step, jnp.zeros((2, WIDTH, WIDTH)), columns)[1]


def totals(x: Any) -> Any:
    def step(h: Any, u: Any) -> Any:
        return h + u, h

    return jax.lax.scan(step, jnp.ones((2, WIDTH)), x.swapaxes(0, 1))


def of_torch() -> Any:
    torch: Any = pytest.importorskip("torch")

    class Leaky(torch.nn.Module):
        def forward(self, x: Any) -> Any:
            """A leaky integrator, step by step."""
            h, rows = torch.zeros_like(x[:, 0]), []
            for t in range(STEPS):
                h = torch.lerp(h, x[:, t], 0.2)
                rows.append(h)
            return torch.stack(rows, 1)

    return Leaky().eval()


PARALLEL, SUMS, STRAIGHT = "parallel scan", "running sums", "unrolled"
SOURCES: dict[str, tuple[Callable[[], Any], Any, str]] = {
    "keras": (of_keras, None, PARALLEL),
    "tf.scan": (of_tf_scan, None, PARALLEL),
    "tf.while_loop": (of_tf_while, None, PARALLEL),
    "lax.scan": (lambda: of_jax_scan, [SPEC], PARALLEL),
    "selective": (lambda: selective, [SPEC], PARALLEL),
    "matrix memory": (lambda: matrix_memory, [SPEC], STRAIGHT),
    "totals": (lambda: totals, [SPEC], SUMS),
    "torch": (of_torch, [SPEC], PARALLEL),
}
FAST = ("keras", "lax.scan", "totals")


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in SOURCES])
def test_every_source(name: str) -> None:
    """`convert` compares with the source on several calls."""
    make, specs, form = SOURCES[name]
    result = jfuse.convert(*([make()] if specs is None else [make(), specs]))
    (loop,) = result.report.loops
    assert loop.form.startswith(form)
    (refusal,) = [r for r in result.report.refused if r.condition == "no_builtin_op"]
    assert "a linear recurrence h' = a*h + b" in refusal.detail or "SRU" in refusal.detail


@pytest.mark.parametrize("form", ["log16", "x4", "unrolled"])
def test_forms_of_complex_numbers(form: str) -> None:
    (loop,) = jfuse.lower(jfuse.load(of_jax_scan, [SPEC])).report.loops
    result = jfuse.convert(of_jax_scan, [SPEC], forms=jfuse.Forms(by_source={loop.source: form}))
    assert result.report.operators.get("while", 0) == (form == "x4")
    x = RNG.standard_normal(SPEC.shape).astype(np.float32)
    (name,) = result.signature().input_names
    found = LiteRt(result.to_bytes(), delegates=True).run("serving_default", {name: x})["output_0"]
    assert relative_error(found, np.asarray(of_jax_scan(x))) <= 1e-5  # sums of 64 terms in f32


def test_an_associative_scan_is_levels_already() -> None:
    def call(x: Any) -> Any:
        def joined(left: Any, right: Any) -> Any:
            return left[0] * right[0], right[0] * left[1] + right[1]

        return jax.lax.associative_scan(joined, (jax.nn.sigmoid(x), x), axis=1)[1]

    result = jfuse.convert(call, [SPEC])
    assert not result.report.loops
    assert "while" not in result.report.operators


@pytest.mark.slow
def test_weights_of_8_bits_are_as_near_as_with_the_loop() -> None:
    """Integers between the operators keep the loop (`test_integers_keep_the_loop`)."""
    x = RNG.standard_normal((16, *SPEC.shape)).astype(np.float32)
    wanted = np.stack([np.asarray(matrix_memory(v)) for v in x])
    ratios = []
    for loop in ("auto", "while"):
        result = jfuse.convert(matrix_memory, [SPEC], forms=jfuse.Forms(loop=loop), quantize="dynamic")
        runtime, (name,) = LiteRt(result.to_bytes(), delegates=True), result.signature().input_names
        found = np.stack([runtime.run("serving_default", {name: v})["output_0"] for v in x])
        ratios.append(10 * np.log10((wanted**2).mean() / ((found - wanted) ** 2).mean()))
    assert ratios[0] >= ratios[1] - 0.5
