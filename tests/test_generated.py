"""The command that writes the generated files. That each of them is up to date their own tests say."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.generated import GENERATED, ROOT, main


def test_the_files_are_there() -> None:
    assert [path for path in GENERATED if not (ROOT / path).exists()] == []


def test_only_stale_files_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = {"same.txt": lambda: "same\n", "old.txt": lambda: "new\n", "none.txt": lambda: "first\n"}
    (tmp_path / "same.txt").write_text("same\n")
    (tmp_path / "old.txt").write_text("old\n")

    assert main(["--check"], made, tmp_path) == 1
    assert capsys.readouterr().out == "stale: old.txt\nstale: none.txt\n"
    assert (tmp_path / "old.txt").read_text() == "old\n"

    assert main([], made, tmp_path) == 0
    assert capsys.readouterr().out == "written: old.txt\nwritten: none.txt\n"
    assert (tmp_path / "old.txt").read_text() == "new\n"
    assert main(["--check"], made, tmp_path) == 0


def test_other_arguments_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--all"], {}) == 2
    assert "python -m tests.generated --check" in capsys.readouterr().err
