"""The modules that hold the rules for PyTorch's operators, each once."""

from __future__ import annotations

from jfuse.lowering.from_torch import (  # noqa: F401
    activation,
    convolution,
    creation,
    detection,
    elementwise,
    fake_quantize,
    indexing,
    normalization,
    pools,
    products,
    recurrent,
    reductions,
    resize,
    sampling,
    shapes,
    signal,
    tables,
)
