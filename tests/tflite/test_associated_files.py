"""Files that a .tflite file carries stay in what is made of it, unless they would do harm."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path

import pytest

import jfuse
from jfuse.base.errors import ImportFailed
from jfuse.base.limits import Limits
from jfuse.tflite.associated_files import with_files, with_files_of
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import dense

LABELS = {"labels.txt": b"yes\nno\n"}


def test_a_quantized_file_carries_them(tmp_path: Path) -> None:
    path = tmp_path / "in.tflite"
    path.write_bytes(with_files(to_bytes(dense()), LABELS))
    result = jfuse.quantize(path, "float16", verify=False)
    data = result.save(tmp_path / "out.tflite").read_bytes()
    assert zipfile.ZipFile(io.BytesIO(data)).read("labels.txt") == LABELS["labels.txt"]
    assert result.report.size_bytes == len(data)


def test_a_file_without_them_stays_as_it_is() -> None:
    assert with_files_of(to_bytes(dense()), b"new", Path("m.tflite")) == b"new"


def _bomb() -> bytes:
    target = io.BytesIO(b"file" * 8)
    with zipfile.ZipFile(target, "a", zipfile.ZIP_DEFLATED) as out:
        out.writestr("zeros", bytes(1 << 20))
    return target.getvalue()


def _encrypted() -> bytes:
    data = bytearray(with_files(b"file" * 8, LABELS))
    for signature, flags in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        data[data.index(signature) + flags] |= 1
    return bytes(data)


def _damaged() -> bytes:
    data = bytearray(with_files(b"file" * 8, LABELS))
    data[data.index(b"yes")] ^= 1
    return bytes(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (_bomb(), "would take 1,048,576 bytes"),
        (_encrypted(), "cannot be read at m.tflite"),
        (_damaged(), "cannot be read at m.tflite"),
    ],
    ids=["bomb", "encrypted", "damaged"],
)
def test_what_cannot_be_carried_is_one_error(data: bytes, message: str) -> None:
    with pytest.raises(ImportFailed, match=message):
        with_files_of(data, b"new", Path("m.tflite"), Limits(archive_bytes=2**19))
