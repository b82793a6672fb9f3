"""Steps of streaming models in jax: functions of a state and of what comes, which give an answer and the next state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

WIDTH, PLACES = 6, 8
"""Features of what comes, and places of the rings; forty calls go around several times."""

Step = Callable[[Any, Any], tuple[Any, Any]]
RNG = np.random.default_rng(11)


def weights(*shape: int) -> np.ndarray:
    return np.asarray(RNG.normal(size=shape) / np.sqrt(shape[0]), np.float32)


def ring_mean() -> tuple[Step, Any, tuple[int, ...]]:
    """The mean of the last rows, at a place that goes around."""

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        ring = jax.lax.dynamic_update_slice(s["ring"], x, (s["at"], 0))
        return ring.mean(0), {"ring": ring, "at": (s["at"] + 1) % PLACES}

    return step, {"ring": jnp.zeros((PLACES, WIDTH)), "at": jnp.int32(0)}, (1, WIDTH)


def delay_line() -> tuple[Step, Any, tuple[int, ...]]:
    """An echo of what came five samples ago, several samples a call."""

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        line = jnp.concatenate([s, x])
        y = x + 0.5 * jax.lax.dynamic_slice(line, (line.shape[0] - 5 - x.shape[0],), x.shape)
        return y, line[-PLACES:]

    return step, jnp.zeros(PLACES), (3,)


def dilated_convolutions() -> tuple[Step, Any, tuple[int, ...]]:
    """Two causal convolutions with gaps, whose pasts go on."""
    kernels = [jnp.asarray(weights(3, WIDTH, WIDTH)) for _ in range(2)]

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        pasts = []
        for past, kernel, gap in zip(s, kernels, (1, 2), strict=True):
            whole = jnp.concatenate([past, x], 1)
            x = jax.nn.relu(
                jax.lax.conv_general_dilated(
                    whole, kernel, (1,), "VALID", rhs_dilation=(gap,), dimension_numbers=("NWC", "WIO", "NWC")
                )
            )
            pasts.append(whole[:, -2 * gap :])
        return x, pasts

    return step, [jnp.zeros((1, 2 * gap, WIDTH)) for gap in (1, 2)], (1, 4, WIDTH)


def selective_space() -> tuple[Step, Any, tuple[int, ...]]:
    """A step of Mamba: a short convolution, then a state space that depends on what comes."""
    taps, into, rates = weights(4, WIDTH), weights(WIDTH, 9), -np.exp(weights(WIDTH, 4))

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        window = jnp.concatenate([s["window"][1:], x])
        u = jax.nn.silu((window * taps).sum(0))
        dt, b, c = jnp.split(u @ into, [1, 5])
        dt = jax.nn.softplus(dt)
        h = jnp.exp(dt * rates) * s["h"] + dt * u[:, None] * b
        return h @ c + u, {"window": window, "h": h}

    return step, {"window": jnp.zeros((4, WIDTH)), "h": jnp.zeros((WIDTH, 4))}, (1, WIDTH)


def receptance() -> tuple[Step, Any, tuple[int, ...]]:
    """A step of RWKV-4: sums of exponentials beside their largest exponent."""
    k_, v_, r_ = (weights(WIDTH, WIDTH) for _ in range(3))
    decay, bonus = -np.exp(weights(WIDTH)), weights(WIDTH)

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        mixed = 0.5 * (x + s["x"])
        k, v, r = mixed @ k_, mixed @ v_, jax.nn.sigmoid(mixed @ r_)
        top = jnp.maximum(s["top"], bonus + k)
        old, new = jnp.exp(s["top"] - top), jnp.exp(bonus + k - top)
        y = r * (old * s["sum"] + new * v) / (old * s["count"] + new)
        top = jnp.maximum(s["top"] + decay, k)
        old, new = jnp.exp(s["top"] + decay - top), jnp.exp(k - top)
        return y, {"x": x, "top": top, "sum": old * s["sum"] + new * v, "count": old * s["count"] + new}

    zeros = jnp.zeros((1, WIDTH))
    return step, {"x": zeros, "top": zeros - 1e30, "sum": zeros, "count": zeros}, (1, WIDTH)


def matrix_memory() -> tuple[Step, Any, tuple[int, ...]]:
    """A step of an mLSTM: a matrix and a normalizer behind gates of exponentials."""
    q_, k_, v_ = (weights(WIDTH, WIDTH) for _ in range(3))
    gates = weights(WIDTH, 2)

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        q, k, v = x @ q_, x @ k_ / np.sqrt(WIDTH), x @ v_
        admit, keep = jnp.split(x @ gates, 2, -1)
        keep = jax.nn.log_sigmoid(keep)
        m = jnp.maximum(keep + s["m"], admit)
        admit, keep = jnp.exp(admit - m), jnp.exp(keep + s["m"] - m)
        c, n = keep * s["c"] + admit * v.T @ k, keep * s["n"] + admit * k
        y = (q @ c.T) / jnp.maximum(jnp.abs((n * q).sum(-1, keepdims=True)), 1.0)
        return y, {"c": c, "n": n, "m": m}

    state = {"c": jnp.zeros((WIDTH, WIDTH)), "n": jnp.zeros((1, WIDTH)), "m": jnp.zeros((1, 1))}
    return step, state, (1, WIDTH)


def windowed_attention() -> tuple[Step, Any, tuple[int, ...]]:
    """Attention over the last places of a ring, which forget the oldest."""
    q_, k_, v_ = (weights(WIDTH, WIDTH) for _ in range(3))

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        at = s["step"] % PLACES
        keys, values = s["keys"].at[at].set((x @ k_)[0]), s["values"].at[at].set((x @ v_)[0])
        scores = jnp.where(jnp.arange(PLACES) <= s["step"], (x @ q_) @ keys.T, -1e9)
        return jax.nn.softmax(scores) @ values, {"keys": keys, "values": values, "step": s["step"] + 1}

    rows = jnp.zeros((PLACES, WIDTH))
    return step, {"keys": rows, "values": rows, "step": jnp.int32(0)}, (1, WIDTH)


def running_norm() -> tuple[Step, Any, tuple[int, ...]]:
    """What comes less the mean of all that came, by their deviation (Welford)."""

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        count, mean, spread = s
        count = count + 1
        new = mean + (x - mean) / count
        spread = spread + (x - mean) * (x - new)
        return (x - new) * jax.lax.rsqrt(spread / count + 1e-3), (count, new, spread)

    return step, (jnp.float32(0), jnp.zeros((1, WIDTH)), jnp.zeros((1, WIDTH))), (1, WIDTH)


def second_order_filter() -> tuple[Step, Any, tuple[int, ...]]:
    """A filter of two poles over pieces of 32 samples: a linear recurrence within a call and from call to call."""

    def sample(s: Any, x: Any) -> tuple[Any, Any]:
        y = 0.2 * x + s[0]
        return (0.3 * x + 1.2 * y + s[1], 0.1 * x - 0.5 * y), y

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        s, y = jax.lax.scan(sample, s, x)
        return y, s

    return step, (jnp.zeros(WIDTH), jnp.zeros(WIDTH)), (32, WIDTH)


def complex_space() -> tuple[Step, Any, tuple[int, ...]]:
    """A diagonal state space of complex numbers (S4D) over pieces of 40 steps; its two parts go on."""
    poles = np.exp(-np.linspace(0.05, 1, WIDTH) + 1j * np.linspace(0.1, 2, WIDTH)).astype(np.complex64)

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        def one(h: Any, u: Any) -> tuple[Any, Any]:
            h = poles * h + u
            return h, h.real

        h, y = jax.lax.scan(one, jax.lax.complex(*s), x.astype(jnp.complex64))
        return y, (h.real, h.imag)

    return step, (jnp.zeros(WIDTH), jnp.zeros(WIDTH)), (40, WIDTH)


def overlapping_frames() -> tuple[Step, Any, tuple[int, ...]]:
    """Spectra of frames that overlap by a half, added up again behind a gain."""
    window = np.hanning(17)[:16].astype(np.float32)

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        frame = jnp.concatenate([s["in"], x])
        spectrum = jnp.fft.rfft(frame * window) * np.linspace(1, 0.2, 9, dtype=np.float32)
        total = jnp.fft.irfft(spectrum, 16) + jnp.concatenate([s["out"], jnp.zeros(8)])
        return total[:8], {"in": x, "out": total[8:]}

    return step, {"in": jnp.zeros(8), "out": jnp.zeros(8)}, (8,)


def own_words() -> tuple[Step, Any, tuple[int, ...]]:
    """A recurrence that reads its own last answer, as one that writes text does."""
    table, into, back, out = (
        jnp.asarray(weights(9, WIDTH)),
        weights(WIDTH, WIDTH),
        weights(WIDTH, WIDTH),
        weights(WIDTH, 9),
    )

    def step(s: Any, x: Any) -> tuple[Any, Any]:
        h = jnp.tanh(table[s["word"]] @ into + s["h"] @ back + x)
        logits = h @ out * 3
        return logits, {"h": h, "word": jnp.argmax(logits, -1).astype(jnp.int32)}

    return step, {"h": jnp.zeros((1, WIDTH)), "word": jnp.zeros(1, jnp.int32)}, (1, WIDTH)


STREAMS = (
    ring_mean,
    delay_line,
    dilated_convolutions,
    selective_space,
    receptance,
    matrix_memory,
    windowed_attention,
    running_norm,
    second_order_filter,
    complex_space,
    overlapping_frames,
    own_words,
)
