"""The parsed source of a file, once for all tests that read the code."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path


@cache
def parsed(path: Path) -> ast.Module:
    """Parse a file at its first use: all of the product takes seconds."""
    return ast.parse(path.read_text(encoding="utf-8"))
