"""A decoder as a module of PyTorch: rotary positions, grouped queries, a cache in buffers, an optional window."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.models.jax_decoder import GROUPS, HEADS, SIZE, STEPS, WIDTH, WORDS


class Attention(nn.Module):
    def __init__(self, window: int | None, *, spelled_out: bool) -> None:
        super().__init__()
        self.q, self.o = nn.Linear(WIDTH, HEADS * SIZE, bias=False), nn.Linear(HEADS * SIZE, WIDTH, bias=False)
        self.k, self.v = (nn.Linear(WIDTH, GROUPS * SIZE, bias=False) for _ in range(2))
        self.register_buffer("keys", torch.zeros(1, GROUPS, STEPS, SIZE))
        self.register_buffer("values", torch.zeros(1, GROUPS, STEPS, SIZE))
        self.window, self.spelled_out = window, spelled_out

    def forward(self, x: Any, steps: Any) -> Any:
        count = x.shape[1]
        q = rotated(self.q(x).view(1, count, HEADS, SIZE).transpose(1, 2), steps)
        k = rotated(self.k(x).view(1, count, GROUPS, SIZE).transpose(1, 2), steps)
        v = self.v(x).view(1, count, GROUPS, SIZE).transpose(1, 2)
        self.keys.index_copy_(2, steps, k)
        self.values.index_copy_(2, steps, v)
        seen = torch.arange(STEPS)[None] <= steps[:, None]
        if self.window is not None:
            seen = seen & (torch.arange(STEPS)[None] > steps[:, None] - self.window)
        if self.spelled_out:
            keys, values = (b.repeat_interleave(HEADS // GROUPS, 1) for b in (self.keys, self.values))
            scores = (q @ keys.transpose(2, 3) / SIZE**0.5).masked_fill(~seen, float("-inf"))
            read = scores.softmax(-1) @ values
        else:
            read = F.scaled_dot_product_attention(q, self.keys, self.values, attn_mask=seen, enable_gqa=True)
        return self.o(read.transpose(1, 2).reshape(1, count, HEADS * SIZE))


class Block(nn.Module):
    def __init__(self, window: int | None, *, spelled_out: bool) -> None:
        super().__init__()
        self.attention = Attention(window, spelled_out=spelled_out)
        self.before, self.between = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.gate, self.up = (nn.Linear(WIDTH, 24, bias=False) for _ in range(2))
        self.down = nn.Linear(24, WIDTH, bias=False)

    def forward(self, x: Any, steps: Any) -> Any:
        x = x + self.attention(self.before(x), steps)
        y = self.between(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


class Decoder(nn.Module):
    """Ids i64[1, T] and their places i64[T] -> logits f32[1, T, WORDS]"""

    def __init__(self, window: int | None = None, *, spelled_out: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(WORDS, WIDTH)
        self.blocks = nn.ModuleList([Block(window, spelled_out=spelled_out) for _ in range(2)])
        self.norm = nn.RMSNorm(WIDTH)

    def forward(self, ids: Any, steps: Any) -> Any:
        x = self.table(ids)
        for block in self.blocks:
            x = block(x, steps)
        return self.norm(x) @ self.table.weight.T


def rotated(x: Any, steps: Any) -> Any:
    half = SIZE // 2
    angles = steps[:, None] * 10000.0 ** (-torch.arange(half) / half)
    cos, sin = torch.cos(angles), torch.sin(angles)
    first, second = x.chunk(2, -1)
    return torch.cat([first * cos - second * sin, first * sin + second * cos], -1)
