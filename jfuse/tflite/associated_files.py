"""Files that a .tflite file carries behind its last byte, as TFLite's metadata has them: vocabularies and labels."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from jfuse.base.archive_sizes import need_honest_sizes
from jfuse.base.errors import ImportFailed, shown
from jfuse.base.limits import DEFAULT_LIMITS, Limits

_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that the format has: the bytes must not depend on the clock


def with_files_of(old: bytes, new: bytes, path: Path, limits: Limits = DEFAULT_LIMITS) -> bytes:
    """The new file with the associated files of the old one; as it is where that has none.

    path: where the old one is from. Raises ImportFailed for associated files that cannot be read, or that take more
    than the limits.
    """
    if not zipfile.is_zipfile(io.BytesIO(old)):
        return new
    target = io.BytesIO(new)
    try:
        with zipfile.ZipFile(io.BytesIO(old)) as carried, zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as out:
            need_honest_sizes(path, carried, limits)
            for entry in carried.infolist():
                out.writestr(entry, carried.read(entry), zipfile.ZIP_STORED)
    except (zipfile.BadZipFile, zlib.error, RuntimeError, NotImplementedError, EOFError) as error:
        raise ImportFailed(
            "the files that a model carries cannot be read",
            where=str(path),
            found=shown(error),
            remedy="write the model without them, or pack them again",
        ) from error
    return target.getvalue()


def with_files(data: bytes, files: Mapping[str, bytes]) -> bytes:
    """The file with these files behind its last byte, by name; equal contents give equal bytes."""
    if not files:
        return data
    target = io.BytesIO(data)
    with zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as out:
        for name, content in sorted(files.items()):
            out.writestr(zipfile.ZipInfo(name, _NO_DATE), content)
    return target.getvalue()
