"""Modules with channels first cost no more transposes than the same networks in Keras, whose channels are last."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import jfuse

torch = pytest.importorskip("torch")
keras = pytest.importorskip("keras")

from torch import nn  # noqa: E402

from tests.frontends.torch_modules.rows import Of, f32  # noqa: E402

LAYERS = keras.layers
ACROSS = (2, 3, 1)


class Network:
    """The layers of a network: of Keras on its tensors, or of PyTorch, with weights of their own.

    parts: the layers of PyTorch, in the order of their first calls.
    """

    def __init__(self, *, first: bool) -> None:
        self.first = first
        self.parts: list[Any] = []
        self.called = 0

    def layer(self, of_torch: Callable[[], Any], of_keras: Callable[[], Any]) -> Any:
        """The next layer."""
        if not self.first:
            return of_keras()
        if self.called == len(self.parts):
            self.parts.append(of_torch().eval())
        self.called += 1
        return self.parts[self.called - 1]

    def conv(self, x: Any, channels: int, kernel: int = 3, stride: int = 1, *, along: bool = False) -> Any:
        """A convolution, a batch norm and a relu; `along` each channel for itself."""
        inputs = x.shape[1 if self.first else 3]
        groups, pad = inputs if along else 1, kernel // 2
        kind = LAYERS.DepthwiseConv2D if along else LAYERS.Conv2D
        options = {"strides": stride, "padding": "same", "use_bias": False}
        made = kind(kernel, **options) if along else None
        x = self.layer(
            lambda: nn.Conv2d(inputs, channels, kernel, stride, pad, groups=groups, bias=False),
            lambda: made or kind(channels, kernel, **options),
        )(x)
        return self.relu(self.layer(lambda: nn.BatchNorm2d(channels), LAYERS.BatchNormalization)(x))

    def relu(self, x: Any) -> Any:
        """Negative numbers as 0."""
        return x.relu() if self.first else LAYERS.ReLU()(x)

    def pool(self, x: Any) -> Any:
        """Maxima of two by two."""
        return self.layer(lambda: nn.MaxPool2d(2), lambda: LAYERS.MaxPooling2D(2))(x)

    def larger(self, x: Any) -> Any:
        """Twice the size."""
        of_keras = lambda: LAYERS.UpSampling2D(2, interpolation="bilinear")  # noqa: E731
        return self.layer(lambda: nn.Upsample(scale_factor=2, mode="bilinear"), of_keras)(x)

    def joined(self, *parts: Any) -> Any:
        """Along the channels."""
        return torch.cat(parts, 1) if self.first else LAYERS.Concatenate()(parts)

    def means(self, x: Any) -> Any:
        """The mean of each channel."""
        return x.mean((2, 3)) if self.first else LAYERS.GlobalAveragePooling2D()(x)

    def attended(self, x: Any) -> Any:
        """Attention among pixels, and their mean."""
        if not self.first:
            rows = LAYERS.Reshape((-1, x.shape[3]))(x)
            return LAYERS.GlobalAveragePooling1D()(LAYERS.MultiHeadAttention(2, x.shape[3] // 2)(rows, rows))
        rows = x.flatten(2).transpose(1, 2)
        layer = self.layer(lambda: nn.MultiheadAttention(rows.shape[2], 2, batch_first=True), lambda: None)
        return layer(rows, rows, rows, need_weights=False)[0].mean(1)


def residual(at: Network, x: Any) -> Any:
    """Blocks of a ResNet, one of which halves the image."""
    x = at.pool(at.conv(x, 8, 7, 1))
    x = at.conv(at.conv(x, 8), 8) + x
    return at.means(at.conv(at.conv(x, 16, 3, 1), 16) + at.conv(x, 16, 1))


def unet(at: Network, x: Any) -> Any:
    """Down, up by interpolation, joined."""
    fine = at.conv(x, 8)
    coarse = at.conv(at.pool(fine), 16)
    return at.means(at.conv(at.joined(at.larger(coarse), fine), 8))


def mobilenet(at: Network, x: Any) -> Any:
    """Wide, along each channel, narrow."""
    x = at.conv(x, 8)
    for _ in range(2):
        x = x + at.conv(at.conv(at.conv(x, 24, 1), 24, along=True), 8, 1)
    return at.means(x)


def attention(at: Network, x: Any) -> Any:
    """Attention over what convolutions give."""
    return at.attended(at.conv(at.pool(at.conv(x, 8)), 8))


NETWORKS = (residual, unet, mobilenet, attention)


@pytest.mark.slow
@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network.__name__)
def test_channels_first_costs_no_more_transposes(network: Callable[[Network, Any], Any]) -> None:
    module_layers = Network(first=True)

    def forward(x: Any) -> Any:
        module_layers.called = 0
        return network(module_layers, x)

    forward(torch.zeros(1, 3, 16, 16))  # makes the layers
    module = Of(forward)
    module.layers = nn.ModuleList(module_layers.parts)
    image = keras.Input((3, 16, 16))
    twin = keras.Model(image, network(Network(first=False), LAYERS.Permute(ACROSS)(image)))
    ours = jfuse.convert(module.eval(), [f32(None, 3, 16, 16)]).report.operators
    theirs = jfuse.convert(twin, verify=False).report.operators
    assert ours.get("transpose", 0) <= theirs.get("transpose", 0)


def normed(*layers: Any) -> Any:
    """Layers in a row, their weights drawn."""
    torch.manual_seed(0)
    module = nn.Sequential(*layers).eval()
    for weights in module.parameters():
        weights.data += 0.3 * torch.randn(weights.shape)
    return module


@pytest.mark.parametrize(
    ("layers", "shape", "transposes"),
    [
        ((nn.GroupNorm(2, 4), nn.ReLU()), (2, 4, 5, 5), 0),
        ((nn.GroupNorm(2, 4),), (2, 4, 9), 0),
        ((nn.GroupNorm(1, 4),), (1, 4, 3, 4, 4), 0),
        ((nn.Linear(9, 6), nn.GroupNorm(2, 4)), (2, 4, 9), 0),
        ((nn.GroupNorm(2, 4), nn.Conv2d(4, 4, 3), nn.GroupNorm(2, 4), nn.ReLU(), nn.Conv2d(4, 4, 3)), (2, 4, 9, 9), 2),
        ((nn.Conv2d(4, 4, 3), nn.MaxPool2d(2), nn.ReLU(), nn.GroupNorm(2, 4), nn.SiLU()), (2, 4, 9, 9), 2),
        ((nn.Conv1d(4, 4, 3), nn.GroupNorm(4, 4), nn.GELU(), nn.Conv1d(4, 4, 3)), (2, 4, 9), 2),
    ],
)
def test_group_norms_take_channels_where_they_are(layers: Any, shape: tuple[int, ...], transposes: int) -> None:
    module = normed(*layers)
    x = torch.randn(shape, generator=torch.Generator().manual_seed(1))
    result = jfuse.lower(jfuse.load(module, [x]))
    assert result.report.operators.get("transpose", 0) == transposes
    np.testing.assert_allclose(result(x.numpy()), module(x).detach().numpy(), atol=1e-5)  # sums of 100 terms near 1
