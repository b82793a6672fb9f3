"""The modules that hold the rules for jax's primitives, each once."""

from __future__ import annotations

from jfuse.lowering.from_jax import (  # noqa: F401
    convolution,
    elementwise,
    indexing,
    linalg,
    reductions,
    scatter,
    shapes,
)
