"""Recognize sources of PyTorch without importing PyTorch."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

SUFFIX = ".pt2"


def is_torch_source(source: Any) -> bool:
    """Whether this is a module or an exported program of PyTorch, a path of one, or a mapping of such."""
    if isinstance(source, str | Path):
        return Path(source).suffix == SUFFIX
    if isinstance(source, Mapping):
        return bool(source) and all(is_torch_module(part) for part in source.values())
    return is_torch_module(source)


def is_torch_module(source: Any) -> bool:
    """Whether this is a module or an exported program of PyTorch, which is not imported to find out."""
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(torch, "nn"):
        return False
    return isinstance(source, torch.nn.Module) or is_exported_program(source)


def is_exported_program(source: Any) -> bool:
    """Whether this is a result of torch.export.export."""
    return type(source).__name__ == "ExportedProgram" and type(source).__module__.startswith("torch.")
