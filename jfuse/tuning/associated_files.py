"""Files that a .tflite file carries behind its last byte, as TFLite's metadata has them: vocabularies and labels."""

from __future__ import annotations

import io
import zipfile


def with_files_of(old: bytes, new: bytes) -> bytes:
    """The new file with the associated files of the old one; as it is where that has none."""
    if not zipfile.is_zipfile(io.BytesIO(old)):
        return new
    target = io.BytesIO(new)
    with zipfile.ZipFile(io.BytesIO(old)) as carried, zipfile.ZipFile(target, "a", zipfile.ZIP_STORED) as out:
        for entry in carried.infolist():
            out.writestr(entry, carried.read(entry), zipfile.ZIP_STORED)
    return target.getvalue()
