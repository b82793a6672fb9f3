"""Files that change while a model that was loaded from them is used: an error, or the model as it was."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import jfuse
from jfuse.tflite import mapped_file
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs

X = np.ones((2, 8), np.float32)


def cut(path: Path) -> None:
    os.truncate(path, 100)


def overwritten(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(600)
        file.write(bytes(range(200)))
    os.utime(path, ns=(1, 1))


def replaced(path: Path) -> None:
    other = path.with_suffix(".other")
    other.write_bytes(bytes(path.stat().st_size))
    other.replace(path)


def removed(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize("change", [cut, overwritten, replaced, removed])
@pytest.mark.parametrize("is_mapped", [True, False])
def test_a_file_that_changes(
    change: Callable[[Path], None], is_mapped: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mapped_file, "COPIED", 0 if is_mapped else 2**28)
    path = tmp_path / "model.tflite"
    path.write_bytes(to_bytes(programs.dense()))
    model = jfuse.load(path)
    wanted = [model(X), str(model), model.to_bytes()]
    again = jfuse.load(path)
    change(path)
    if is_mapped and change in (cut, overwritten):
        for use in (lambda: again(X), lambda: str(again), again.to_bytes, lambda: again.save(tmp_path / "b.tflite")):
            with pytest.raises(jfuse.ImportFailed, match=f"has changed since it was loaded at {path}(.|\n)*load it"):
                use()
        assert not (tmp_path / "b.tflite").exists()
    else:
        found = [again(X), str(again), again.to_bytes()]
        np.testing.assert_equal(found[0], wanted[0])
        assert found[1:] == wanted[1:]
