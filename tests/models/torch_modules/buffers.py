"""Modules that write their buffers in forward."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn


class Ring(nn.Module):
    """The mean of the last four rows."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("ring", torch.zeros(4, 3))
        self.register_buffer("at", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        """x: f32[1, 3]"""
        self.ring[self.at] = x
        self.at.add_(1).remainder_(4)
        return self.ring.mean(0)


class Stream(nn.Module):
    """A convolution that keeps the last steps, in a buffer that no checkpoint has."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Conv1d(2, 3, 3)
        self.register_buffer("past", torch.zeros(1, 2, 2), persistent=False)

    def forward(self, x: Any) -> Any:
        """x: f32[1, 2, steps]"""
        steps = torch.cat([self.past, x], 2)
        self.past.copy_(steps[..., -2:])
        return self.layer(steps)


class Mean(nn.Module):
    """x less the mean of all that came; one buffer is written, the other replaced."""

    def __init__(self) -> None:
        super().__init__()
        self.mean: Any
        self.register_buffer("mean", torch.ones(3))
        self.register_buffer("count", torch.tensor(0.0))

    def forward(self, x: Any) -> Any:
        """x: f32[n, 3]"""
        self.count += 1
        self.mean = self.mean + (x.mean(0) - self.mean) / self.count
        return x - self.mean


class Scattered(nn.Module):
    """Elements written at places, then a part of them changed."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("table", torch.arange(12.0).reshape(3, 4))

    def forward(self, places: Any, x: Any) -> Any:
        """places: i64[3, n]; x: f32[3, n]"""
        self.table.scatter_(1, places, x)
        self.table[:, 1:3] *= 0.5
        return self.table.sum(1)


class Layers(nn.Module):
    """Two layers with a state each."""

    class Layer(nn.Module):
        """tanh(l(x) + h), which is kept."""

        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.register_buffer("h", torch.zeros(1, 3))

        def forward(self, x: Any) -> Any:
            """x: f32[1, 3]"""
            self.h.copy_(torch.tanh(self.linear(x) + self.h))
            return self.h * 1

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(1)
        self.layers = nn.Sequential(self.Layer(), self.Layer())

    def forward(self, x: Any) -> Any:
        """x: f32[1, 3]"""
        return self.layers(x)


class SharedNames(nn.Module):
    """Buffers that are called as an input and an output are."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("x", torch.zeros(2))
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: Any) -> Any:
        """x: f32[2]"""
        self.total += x
        self.x += 1
        return {"total": self.total * self.x}


class Seen(nn.Module):
    """Which elements were above 0, and for how many calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("calls", torch.zeros(3, dtype=torch.int32))

    def forward(self, x: Any) -> Any:
        """x: f32[3]"""
        self.seen |= x > 0
        self.calls += self.seen
        return self.calls.float() + x


class Attention(nn.Module):
    """Attention over a cache of 16 places."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(4, 4) for _ in range(3))
        self.register_buffer("keys", torch.zeros(1, 16, 4))
        self.register_buffer("values", torch.zeros(1, 16, 4))

    def forward(self, x: Any, at: Any) -> Any:
        """x: f32[1, n, 4]; at: i64[n], its places"""
        self.keys.index_copy_(1, at, self.k(x))
        self.values[:, at] = self.v(x)
        mask = (torch.arange(16)[None] <= at[:, None])[None]
        return nn.functional.scaled_dot_product_attention(self.q(x), self.keys, self.values, mask)


class Cleared(nn.Module):
    """Another module's cache, emptied."""

    def __init__(self, cache: Attention) -> None:
        super().__init__()
        self.cache = cache

    def forward(self, x: Any) -> Any:
        """x: f32[1]"""
        self.cache.keys.zero_()
        self.cache.values.fill_(0)
        return x + 0


class Viewed(nn.Module):
    """Another module's cache, read."""

    def __init__(self, cache: Attention) -> None:
        super().__init__()
        self.inner = cache

    def forward(self, x: Any) -> Any:
        """x: f32[4]"""
        return self.inner.keys.sum(1) + x


class Selective(nn.Module):
    """A step of Mamba: a window for a short convolution, and a state space that depends on what comes."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.taps, self.into = nn.Parameter(torch.randn(4, width) / 2), nn.Linear(width, 9, bias=False)
        self.rates = nn.Parameter(torch.randn(width, 4))
        self.register_buffer("window", torch.zeros(4, width))
        self.register_buffer("h", torch.zeros(width, 4))

    def forward(self, x: Any) -> Any:
        """x: f32[1, width]"""
        self.window.copy_(torch.cat([self.window[1:], x]))
        u = nn.functional.silu((self.window * self.taps).sum(0))
        dt, b, c = self.into(u).split([1, 4, 4])
        dt = nn.functional.softplus(dt)
        self.h.copy_(torch.exp(-dt * torch.exp(self.rates)) * self.h + dt * u[:, None] * b)
        return self.h @ c + u


class Windowed(nn.Module):
    """Attention over the last eight rows, in a ring whose place is a buffer."""

    def __init__(self, width: int = 6) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.q, self.k, self.v = (nn.Linear(width, width, bias=False) for _ in range(3))
        self.register_buffer("keys", torch.zeros(8, width))
        self.register_buffer("values", torch.zeros(8, width))
        self.register_buffer("step", torch.zeros(1, dtype=torch.int64))

    def forward(self, x: Any) -> Any:
        """x: f32[1, width]"""
        at = self.step % 8
        self.keys.index_copy_(0, at, self.k(x))
        self.values.index_copy_(0, at, self.v(x))
        scores = (self.q(x) @ self.keys.T).masked_fill(torch.arange(8) > self.step, float("-inf"))
        self.step.add_(1)
        return scores.softmax(-1) @ self.values
