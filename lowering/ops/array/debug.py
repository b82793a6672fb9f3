"""Ops that watch values and let them pass: they mean nothing in a file."""

from __future__ import annotations

from typing import Any

from jfuse.kernels.core.op import Array
from jfuse.lowering.rules import lowers


@lowers("Print")
def lower_print(x: Array, *data: Array, message: str = "", first_n: int = -1, summarize: int = 3) -> Array:
    """The first operand; nothing is printed."""
    return x


@lowers("DebugIdentity", "DebugIdentityV2", "DebugIdentityV3")
def lower_debug_identity(x: Array, **watched: Any) -> Array:
    """The operand; gradients and debuggers mean nothing here."""
    return x
