"""Models of Flax (linen, nnx), Equinox, Haiku and plain jax: a function, what it takes, its params, and what fuses."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import equinox as eqx
import flax.linen as nn
import haiku as hk
import jax
import jax.numpy as jnp
import numpy as np
from flax import nnx
from jax import lax

from tests.frontends.jax_functions.rows import B, T, f32, i32

KEY = jax.random.key(0)
W = np.random.default_rng(0).normal(size=(5, 5)).astype(np.float32)


@dataclass(frozen=True)
class JaxModel:
    """A function with its specs and params.   fuses: the names of the composites that become one operator"""

    function: Callable[..., Any]
    specs: tuple[Any, ...]
    params: Any = None
    fuses: tuple[str, ...] = ()


def linen(module: Any, *specs: Any, fuses: tuple[str, ...] = ()) -> JaxModel:
    """A linen module with fresh variables."""
    inputs = [jnp.ones([d if isinstance(d, int) else 2 for d in s.shape], s.dtype) for s in specs]
    return JaxModel(module.apply, specs, jax.jit(module.init)(KEY, *inputs), fuses)


class Convolutions(nn.Module):
    """Convolutions, pools, a dense layer."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,h,w,c] -> f32[b,10]"""
        x = nn.avg_pool(nn.relu(nn.Conv(8, (3, 3))(x)), (2, 2), (2, 2))  # type: ignore[no-untyped-call]
        x = nn.max_pool(nn.relu(nn.Conv(16, (3, 3), strides=(2, 2))(x)), (2, 2), (2, 2))  # type: ignore[no-untyped-call]
        return nn.Dense(10)(x.reshape(x.shape[0], -1))


class Residual(nn.Module):
    """A block of a ResNet with batch norms."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,h,w,c] -> f32[b,8]"""
        y = nn.relu(nn.BatchNorm(use_running_average=True)(nn.Conv(8, (3, 3), use_bias=False)(x)))
        y = nn.BatchNorm(use_running_average=True)(nn.Conv(8, (3, 3), use_bias=False)(y))
        return nn.relu(y + nn.Conv(8, (1, 1))(x)).mean((1, 2))


class Encoder(nn.Module):
    """A transformer's encoder block."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,t,8] -> f32[b,t,8]"""
        y = nn.LayerNorm()(x)
        x = x + nn.MultiHeadDotProductAttention(2)(y, y)
        return x + nn.Dense(8)(nn.gelu(nn.Dense(16)(nn.LayerNorm()(x))))


class Decoder(nn.Module):
    """Causal self-attention."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,t,8] -> f32[b,t,8]"""
        return nn.MultiHeadDotProductAttention(2)(x, x, mask=nn.make_causal_mask(jnp.ones(x.shape[:2])))


class Language(nn.Module):
    """Embedding, LSTM, the embedding again."""

    @nn.compact
    def __call__(self, ids: Any) -> Any:
        """i32[b,t] -> f32[b,t,11]"""
        embed = nn.Embed(11, 8)
        return embed.attend(nn.RNN(nn.OptimizedLSTMCell(8))(embed(ids)))


class Pooled(nn.Module):
    """An LSTM over half as many steps as the input has."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,t,5] -> f32[b,t/2,6]"""
        return nn.RNN(nn.OptimizedLSTMCell(6))(nn.max_pool(x, (2,), (2,)))  # type: ignore[no-untyped-call]


class UNet(nn.Module):
    """Down, up, joined."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,h,w,1] -> f32[b,h,w,1]"""
        a = nn.relu(nn.Conv(4, (3, 3))(x))
        b = nn.ConvTranspose(4, (2, 2), strides=(2, 2))(nn.relu(nn.Conv(8, (3, 3), strides=(2, 2))(a)))
        return nn.Conv(1, (1, 1))(jnp.concatenate([a, b], -1))


class Separable(nn.Module):
    """A depthwise convolution, a group norm, swish."""

    @nn.compact
    def __call__(self, x: Any) -> Any:
        """f32[b,h,w,4] -> f32[b,h,w,8]"""
        return nn.swish(nn.GroupNorm(2)(nn.Conv(8, (3, 3), feature_group_count=4)(x)))


def with_lengths() -> JaxModel:
    """A recurrence over sequences of their own lengths."""
    rnn = nn.RNN(nn.OptimizedLSTMCell(6))
    variables = jax.jit(rnn.init)(KEY, jnp.ones((2, 7, 5)))
    return JaxModel(lambda p, x, n: rnn.apply(p, x, seq_lengths=n), (f32(B, 7, 5), i32(B)), variables, ("jfuse.lstm",))


def equinox_scan(cell: Any, state: Any, *fuses: str) -> JaxModel:
    """A cell over a sequence, over the batch by vmap."""

    def one(x: Any) -> Any:
        final, _ = lax.scan(lambda carry, row: (cell(row, carry), None), state, x)
        return final[0] if isinstance(final, tuple) else final

    return JaxModel(jax.vmap(one), (f32(B, 7, 5),), None, fuses)


def haiku(forward: Callable[..., Any], example: tuple[int, ...], spec: Any, *fuses: str) -> JaxModel:
    """A transformed function with fresh params."""
    pure = hk.without_apply_rng(hk.transform(forward))
    return JaxModel(pure.apply, (spec,), pure.init(KEY, jnp.ones(example)), fuses)  # type: ignore[attr-defined]


def haiku_unroll(make: Callable[[], Any], *fuses: str) -> JaxModel:
    """A haiku core over f32[7,b,5]."""

    def forward(x: Any) -> Any:
        core = make()
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]  # type: ignore[no-untyped-call]

    return haiku(forward, (7, 2, 5), f32(7, B, 5), *fuses)


def masked_cell() -> JaxModel:
    """A cell of Equinox in a scan that keeps its states from the length of each sequence on."""
    cell = eqx.nn.LSTMCell(5, 6, key=KEY)

    def one(x: Any, length: Any) -> Any:
        def step(carry: Any, numbered: Any) -> Any:
            number, row = numbered
            carry = jax.tree.map(lambda new, old: jnp.where(number < length, new, old), cell(row, carry), carry)
            return carry, carry[0]

        return lax.scan(step, (jnp.zeros(6), jnp.zeros(6)), (jnp.arange(x.shape[0]), x))

    return JaxModel(jax.vmap(one), (f32(B, 7, 5), i32(B)), None, ("jfuse.lstm",))


def cached(x: Any, keys: Any, place: Any) -> Any:
    """Attention to a cache of keys, one of which is written."""
    keys = lax.dynamic_update_slice(keys, x[:, None] @ W, (0, place, 0))
    scores = jnp.where(jnp.arange(8) <= place, jnp.einsum("bd,btd->bt", x, keys), -1e9)
    return jnp.einsum("bt,btd->bd", jax.nn.softmax(scores), keys), keys


def both_ways(x: Any) -> Any:
    """A tanh recurrence forwards and backwards."""

    def cell(h: Any, row: Any) -> Any:
        h = jnp.tanh(row @ W + h @ W.T)
        return h, h

    zero, xs = jnp.zeros((x.shape[0], 5)), jnp.swapaxes(x, 0, 1)
    return jnp.concatenate([lax.scan(cell, zero, xs)[1], lax.scan(cell, zero, xs, reverse=True)[1]], -1)


def newton(x: Any) -> Any:
    """A square root by eight steps."""
    size = jnp.abs(x) + 0.1
    return lax.while_loop(lambda s: s[1] < 8, lambda s: ((s[0] + size / s[0]) / 2, s[1] + 1), (jnp.ones_like(x), 0))[0]


def kalman(seen: Any) -> Any:
    """A filter that inverts a matrix in each step.   f32[t, 2] -> f32[t, 3]"""
    change, view = jnp.eye(3) + 0.1 * jnp.eye(3, k=1), jnp.eye(2, 3) + 0.2

    def step(state: Any, row: Any) -> Any:
        mean, spread = change @ state[0], change @ state[1] @ change.T + 0.01 * jnp.eye(3)
        gain = spread @ view.T @ jnp.linalg.inv(view @ spread @ view.T + 0.1 * jnp.eye(2))
        mean = mean + gain @ (row - view @ mean)
        return (mean, (jnp.eye(3) - gain @ view) @ spread), mean

    return lax.scan(step, (jnp.zeros(3), jnp.eye(3)), seen)[1]


def viterbi(scores: Any) -> Any:
    """The best path, by a scan and one back.   f32[t, 5] -> i32[t], f32[]"""

    def step(best: Any, row: Any) -> Any:
        each = best[:, None] + W
        return each.max(0) + row, each.argmax(0)

    best, before = lax.scan(step, scores[0], scores[1:])
    last = best.argmax()
    path = lax.scan(lambda place, row: (row[place], row[place]), last, before, reverse=True)[1]
    return jnp.append(path, last), best.max()


def sampled(key: Any, x: Any) -> Any:
    """A sample of what an encoder gives, drawn by a key that is an input."""
    mean = x @ W
    return mean + jnp.exp(0.1 * mean) * jax.random.normal(key.astype(jnp.uint32), mean.shape)


def ctc(scores: Any, labels: Any) -> Any:
    """The loss of connectionist temporal classification, class 0 the blank.   f32[b, t, k], i32[b, n] -> f32[b]"""
    (b, t, _), n = scores.shape, 2 * labels.shape[1] + 1
    spread = jnp.zeros((b, n), labels.dtype).at[:, 1::2].set(labels)  # a blank before each label, and the last one
    emitted = jnp.take_along_axis(jax.nn.log_softmax(scores), jnp.broadcast_to(spread[:, None], (b, t, n)), axis=2)
    skips = (spread[:, 2:] != spread[:, :-2]) & (spread[:, 2:] != 0)
    skips = jnp.concatenate([jnp.zeros((b, 2), bool), skips], 1)

    def step(before: Any, row: Any) -> Any:
        one, two = (jnp.pad(before, ((0, 0), (k, 0)), constant_values=-1e5)[:, :n] for k in (1, 2))
        every = jnp.logaddexp(jnp.logaddexp(before, one), jnp.where(skips, two, -1e5))
        return every + row, None

    first = jnp.full((b, n), -1e5).at[:, :2].set(emitted[:, 0, :2])
    last = lax.scan(step, first, jnp.swapaxes(emitted[:, 1:], 0, 1))[0]
    return -jnp.logaddexp(last[:, -1], last[:, -2])


LSTM, RNN = ("jfuse.lstm",), ("jfuse.rnn",)
FEW: dict[str, Callable[[], JaxModel]] = {
    "linen-optimized-lstm-open-time": lambda: linen(nn.RNN(nn.OptimizedLSTMCell(6)), f32(B, T, 5), fuses=LSTM),
    "plain-cache": lambda: JaxModel(cached, (f32(2, 5), f32(2, 8, 5), i32())),
}
MORE: dict[str, Callable[[], JaxModel]] = {
    "nnx-rnn-lstm": lambda: JaxModel(
        nnx.RNN(nnx.OptimizedLSTMCell(5, 6, rngs=nnx.Rngs(0))), (f32(B, 7, 5),), fuses=LSTM
    ),
    "linen-encoder": lambda: linen(Encoder(), f32(B, 6, 8)),
    "equinox-lstm": lambda: equinox_scan(eqx.nn.LSTMCell(5, 6, key=KEY), (jnp.zeros(6), jnp.zeros(6)), *LSTM),
    "haiku-lstm": lambda: haiku_unroll(lambda: hk.LSTM(6), *LSTM),
    "linen-mlp": lambda: linen(nn.Sequential([nn.Dense(8), nn.relu, nn.Dense(3)]), f32(B, 5)),
    "linen-convolutions": lambda: linen(Convolutions(), f32(B, 16, 16, 3)),
    "linen-residual": lambda: linen(Residual(), f32(B, 12, 12, 3)),
    "linen-lstm": lambda: linen(nn.RNN(nn.LSTMCell(6)), f32(B, 7, 5), fuses=LSTM),
    "linen-pooled-lstm": lambda: linen(Pooled(), f32(B, T, 5), fuses=LSTM),
    "linen-gru": lambda: linen(nn.RNN(nn.GRUCell(6)), f32(B, 7, 5)),
    "linen-simple": lambda: linen(nn.RNN(nn.SimpleCell(6)), f32(B, 7, 5), fuses=RNN),
    "linen-minimal-gated": lambda: linen(nn.RNN(nn.MGUCell(6)), f32(B, 7, 5)),
    "linen-both-ways": lambda: linen(
        nn.Bidirectional(nn.RNN(nn.OptimizedLSTMCell(6)), nn.RNN(nn.OptimizedLSTMCell(6))),
        f32(B, 7, 5),
        fuses=LSTM * 2,
    ),
    "linen-lengths": with_lengths,
    "linen-decoder": lambda: linen(Decoder(), f32(2, 6, 8)),
    "linen-language": lambda: linen(Language(), i32(B, 6), fuses=LSTM),
    "linen-unet": lambda: linen(UNet(), f32(B, 8, 8, 1)),
    "linen-separable": lambda: linen(Separable(), f32(B, 8, 8, 4)),
    "linen-convolutional-lstm": lambda: linen(nn.RNN(nn.ConvLSTMCell(3, (3, 3))), f32(2, 4, 6, 6, 2)),
    "nnx-mlp": lambda: JaxModel(
        nnx.Sequential(nnx.Linear(5, 8, rngs=nnx.Rngs(0)), nnx.relu, nnx.Linear(8, 3, rngs=nnx.Rngs(1))), (f32(B, 5),)
    ),
    "nnx-rnn-gru": lambda: JaxModel(nnx.RNN(nnx.GRUCell(5, 6, rngs=nnx.Rngs(0))), (f32(B, 7, 5),)),
    "nnx-attention": lambda: JaxModel(nnx.MultiHeadAttention(2, 8, 8, decode=False, rngs=nnx.Rngs(0)), (f32(B, 6, 8),)),
    "equinox-mlp": lambda: JaxModel(jax.vmap(eqx.nn.MLP(5, 3, 8, 2, key=KEY)), (f32(B, 5),)),
    "equinox-convolutions": lambda: JaxModel(
        jax.vmap(
            eqx.nn.Sequential(
                [
                    eqx.nn.Conv2d(3, 8, 3, padding=1, key=KEY),
                    eqx.nn.Lambda(jax.nn.relu),
                    eqx.nn.MaxPool2d(2, 2),
                    eqx.nn.Conv2d(8, 4, 3, key=KEY),
                ]
            )
        ),
        (f32(2, 3, 12, 12),),
    ),
    "equinox-gru": lambda: equinox_scan(eqx.nn.GRUCell(5, 6, key=KEY), jnp.zeros(6)),
    "haiku-mlp": lambda: haiku(lambda x: hk.nets.MLP([8, 3])(x), (2, 5), f32(B, 5)),
    "haiku-deep": lambda: haiku_unroll(lambda: hk.DeepRNN([hk.LSTM(6), jax.nn.relu, hk.LSTM(4)]), *LSTM * 2),
    "equinox-masked": masked_cell,
    "haiku-gru": lambda: haiku_unroll(lambda: hk.GRU(6)),
    "haiku-vanilla": lambda: haiku_unroll(lambda: hk.VanillaRNN(6), *RNN),
    "haiku-convolution-norm": lambda: haiku(
        lambda x: hk.LayerNorm(-1, True, True)(jax.nn.relu(hk.Conv2D(8, 3, stride=2)(x))), (2, 8, 8, 3), f32(B, 8, 8, 3)
    ),
    "plain-top-k": lambda: JaxModel(lambda x: lax.top_k(x @ W, 3), (f32(B, 5),)),
    "plain-sort-and-sum": lambda: JaxModel(lambda x: jnp.cumsum(jnp.sort(x @ W, -1), -1), (f32(B, 5),)),
    "plain-spectrum": lambda: JaxModel(lambda x: jnp.abs(jnp.fft.rfft(x)), (f32(B, 16),)),
    "plain-cond": lambda: JaxModel(
        lambda x: lax.cond(jnp.sum(x) > 0, lambda y: y @ W, lambda y: jnp.tanh(y), x), (f32(B, 5),)
    ),
    "plain-newton": lambda: JaxModel(newton, (f32(B, 5),)),
    "plain-scan": lambda: JaxModel(
        lambda x: lax.scan(
            lambda c, row: (0.9 * c + row, jnp.max(c)), jnp.zeros((x.shape[0], 5)), jnp.swapaxes(x, 0, 1)
        ),
        (f32(B, 7, 5),),
    ),
    "plain-associative-scan": lambda: JaxModel(
        lambda x: lax.associative_scan(jnp.multiply, x, axis=1), (f32(B, 8, 5),)
    ),
    "plain-both-ways": lambda: JaxModel(both_ways, (f32(B, 7, 5),), fuses=RNN * 2),
    "plain-even-sizes": lambda: JaxModel(lambda x: x.reshape(x.shape[0], -1, 2, 5).max(2), (f32(B, 2 * T, 5),)),
    "plain-open-sizes": lambda: JaxModel(
        lambda x: jnp.concatenate([x, jnp.zeros((x.shape[0], 1, 5))], 1).mean(1), (f32(B, T, 5),)
    ),
    "plain-kalman": lambda: JaxModel(kalman, (f32(6, 2),)),
    "plain-ctc": lambda: JaxModel(ctc, (f32(2, 5, 4), i32(2, 2))),
    "plain-viterbi": lambda: JaxModel(viterbi, (f32(6, 5),)),
    "plain-sampled": lambda: JaxModel(sampled, (i32(2), f32(3, 5))),
    "plain-resize": lambda: JaxModel(
        lambda x: jax.image.resize(x, (x.shape[0], 8, 8, 2), "bilinear"), (f32(B, 4, 4, 2),)
    ),
}
