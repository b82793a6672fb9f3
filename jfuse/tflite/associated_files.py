"""Files that a .tflite file carries behind its last byte, as TFLite's metadata has them: vocabularies and labels."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping

_NO_DATE = (1980, 1, 1, 0, 0, 0)  # the first that the format has: the bytes must not depend on the clock


def with_files_of(old: bytes, new: bytes) -> bytes:
    """The new file with the associated files of the old one; as it is where that has none."""
    if not zipfile.is_zipfile(io.BytesIO(old)):
        return new
    target = io.BytesIO(new)
    with zipfile.ZipFile(io.BytesIO(old)) as carried, zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as out:
        for entry in carried.infolist():
            out.writestr(entry, carried.read(entry), zipfile.ZIP_STORED)
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
