"""PyTorch's exporter in a process that has TensorFlow: without triton, whose import would end the process."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import cast


@contextmanager
def triton_hidden() -> Iterator[None]:
    """Hide triton from imports of PyTorch if the process has TensorFlow.

    triton is there with PyTorch for CUDA; its import ends in a segmentation fault after TensorFlow (triton 3.8,
    TensorFlow 2.21). Nothing that exports needs it. PyTorch remembers that it is not there.
    """
    modules = cast(dict[str, object], sys.modules)
    hidden = "tensorflow" in modules and "triton" not in modules
    if hidden:
        modules["triton"] = None  # as the import system has it for what is not to be found
    try:
        yield
    finally:
        if hidden:
            del modules["triton"]
