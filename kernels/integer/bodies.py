"""All integer bodies: the explicit list of modules that register them. A new module adds its line here."""

from __future__ import annotations

from jfuse.kernels.integer import (  # noqa: F401
    activation,
    arithmetic,
    convolution,
    lstm,
    matmul,
    resize,
    same_scale,
    scales,
    svdf,
    tables,
)
