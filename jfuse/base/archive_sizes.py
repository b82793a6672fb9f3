"""Archives that would fill the memory: small files whose members grow without measure when they are unpacked."""

from __future__ import annotations

import zipfile
from pathlib import Path

from jfuse.base.errors import ImportFailed
from jfuse.base.limits import Limits

_ALWAYS_FINE = 64 * 2**20  # bytes: below it no ratio is a danger


def need_honest_sizes(path: Path, archive: zipfile.ZipFile, limits: Limits) -> None:
    """Raise ImportFailed where the members of an archive take more than the limits, one of them or all together."""
    size = 0
    for member in archive.infolist():
        size += member.file_size
        is_bomb = member.file_size > max(_ALWAYS_FINE, limits.archive_ratio * max(1, member.compress_size))
        if is_bomb or size > limits.archive_bytes:
            raise ImportFailed(
                f"{path} would take {size:,} bytes",
                expected=f"at most {limits.archive_bytes:,}, and {limits.archive_ratio} times the size of each member",
                found=f"{member.filename!r}: {member.compress_size:,} bytes hold {member.file_size:,}",
            )
