"""Modules that show what a source may be."""

from __future__ import annotations

from typing import Any

import torch

from tests.frontends.torch_modules.rows import Of


class Nested(torch.nn.Module):
    """Nested arguments and results, some of which are no tensors."""

    def forward(self, x: Any, *, state: dict[str, Any], scale: float = 2.0, flag: Any = None) -> Any:
        """The arguments under other names."""
        h, c = state["pair"]
        return {"sum": x + h, "rest": (c * scale, None, x.shape[0])}


class Unknown(torch.nn.Module):
    """Operators without a rule, two of them in a part."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = Of(lambda x: torch.special.bessel_j0(x) + torch.special.bessel_j0(x + 1))

    def forward(self, x: Any) -> Any:
        """Two operators that no rule takes."""
        return torch.special.bessel_y0(self.inner(x))


class Positions(torch.nn.Module):
    """A sum of ids' vectors and of those of their positions, of which there are 40."""

    def __init__(self) -> None:
        super().__init__()
        self.of_ids, self.of_positions = torch.nn.Embedding(9, 4), torch.nn.Embedding(40, 4)
        self.register_buffer("positions", torch.arange(40)[None])

    def forward(self, ids: Any) -> Any:
        """i64[b, t] -> f32[b, t, 4]"""
        return self.of_ids(ids) + self.of_positions(self.positions[:, : ids.shape[1]])


class Same(torch.nn.Module):
    """The argument as it is."""

    def forward(self, x: Any) -> Any:
        """x"""
        return x
