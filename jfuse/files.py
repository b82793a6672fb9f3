"""Writing a file so that nothing is left half written."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from jfuse.errors import JfuseError


def write_atomic(path: str | os.PathLike[str], data: bytes | Iterable[Any]) -> None:
    """Write a file under a temporary name beside it, then rename.   data: bytes, or buffers that follow each other"""
    target = Path(path)
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}")
    try:
        with temporary.open("xb") as file:
            parts: Iterable[Any] = (data,) if isinstance(data, bytes) else data
            for part in parts:
                file.write(part)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except OSError as error:
        raise JfuseError("the file cannot be written", where=str(target), found=error.strerror or str(error)) from error
    finally:
        with suppress(OSError):
            temporary.unlink()
