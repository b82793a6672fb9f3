"""Models with channels first cost no more transposes than their twins with channels last, which turn what they take."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import jfuse

RNG = np.random.default_rng(0)


class Layout:
    """The operators of a network, for channels first or last."""

    def __init__(self, *, first: bool) -> None:
        self.first = first
        self.axis = 1 if first else 3
        self.seed = np.random.default_rng(1)

    def sized(self, *channels_height_width: Any) -> tuple[Any, ...]:
        """A size along each axis of one image, the batch's is 1."""
        c, h, w = channels_height_width
        return (1, c, h, w) if self.first else (1, h, w, c)

    def conv(self, x: Any, channels: int, kernel: int = 3, stride: int = 1, groups: int = 1) -> Any:
        """A convolution with a bias."""
        shape = (kernel, kernel, x.shape[self.axis] // groups, channels)
        weights = self.seed.normal(size=shape).astype(np.float32) / np.sqrt(np.prod(shape[:3]))
        kinds = ("NCHW", "HWIO", "NCHW") if self.first else ("NHWC", "HWIO", "NHWC")
        y = lax.conv_general_dilated(
            x, weights, (stride, stride), "SAME", dimension_numbers=kinds, feature_group_count=groups
        )
        return y + self.seed.normal(size=channels).astype(np.float32).reshape(self.sized(channels, 1, 1))

    def means(self, x: Any) -> Any:
        """The mean of each channel, over the image."""
        return x.mean((2, 3) if self.first else (1, 2), keepdims=True)

    def pool(self, x: Any) -> Any:
        """Maxima of two by two."""
        window = self.sized(1, 2, 2)
        return lax.reduce_window(x, -jnp.inf, lax.max, window, window, "VALID")

    def larger(self, x: Any) -> Any:
        """Twice the size."""
        n = x.shape[0]
        c, h, w = x.shape[1:] if self.first else (x.shape[3], *x.shape[1:3])
        return jax.image.resize(x, (n, c, 2 * h, 2 * w) if self.first else (n, 2 * h, 2 * w, c), "nearest")

    def joined(self, *parts: Any) -> Any:
        """Along the channels."""
        return jnp.concatenate(parts, self.axis)


def plain(at: Layout, x: Any) -> Any:
    """Convolutions and pools."""
    return at.pool(jax.nn.relu(at.conv(at.pool(jax.nn.relu(at.conv(x, 8))), 16)))


def residual(at: Layout, x: Any) -> Any:
    """Two blocks with shortcuts."""
    x = jax.nn.relu(at.conv(x, 8))
    for stride in (1, 2):
        y = at.conv(jax.nn.relu(at.conv(x, 8, stride=stride)), 8)
        x = jax.nn.relu(y + (x if stride == 1 else at.conv(x, 8, 1, 2)))
    return x


def separable(at: Layout, x: Any) -> Any:
    """Windows along each channel, products of channels, swish."""
    x = jax.nn.silu(at.conv(x, 8))
    for _ in range(2):
        x = jax.nn.silu(at.conv(jax.nn.silu(at.conv(x, 8, groups=8)), 8, 1))
    return x


def scaled(at: Layout, x: Any) -> Any:
    """Channels scaled by what their means say, a norm of channels after."""
    x = jax.nn.relu(at.conv(x, 8))
    x = x * jax.nn.sigmoid(at.conv(jax.nn.relu(at.conv(at.means(x), 4, 1)), 8, 1))
    centred = x - x.mean(at.axis, keepdims=True)
    return at.conv(centred * lax.rsqrt((centred**2).mean(at.axis, keepdims=True) + 1e-3), 4)


def unet(at: Layout, x: Any) -> Any:
    """Down, up, joined."""
    fine = jax.nn.relu(at.conv(x, 8))
    coarse = jax.nn.relu(at.conv(at.pool(fine), 16))
    return at.conv(jax.nn.relu(at.conv(at.joined(at.larger(coarse), fine), 8)), 2, 1)


ARCHITECTURES: tuple[Callable[[Layout, Any], Any], ...] = (plain, residual, separable, scaled, unet)


@pytest.mark.slow
@pytest.mark.parametrize("network", ARCHITECTURES, ids=lambda network: network.__name__)
def test_channels_first_costs_no_more_transposes(network: Callable[[Layout, Any], Any]) -> None:
    (batch,) = jax.export.symbolic_shape("batch")
    spec = jax.ShapeDtypeStruct((batch, 3, 16, 16), jnp.float32)

    def first(x: Any) -> Any:
        return network(Layout(first=True), x)

    def twin(x: Any) -> Any:
        return jnp.transpose(network(Layout(first=False), jnp.transpose(x, (0, 2, 3, 1))), (0, 3, 1, 2))

    x = RNG.normal(size=(2, 3, 16, 16)).astype(np.float32)
    np.testing.assert_allclose(first(x), twin(x), atol=1e-4)
    ours, theirs = (jfuse.convert(f, [spec]).report.operators for f in (first, twin))
    assert ours.get("transpose", 0) <= theirs.get("transpose", 0) <= 2
