"""The public API is typed: a user's script passes `mypy --strict`, and its planted mistakes do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "tests" / "typed_script.py"
MISTAKE = "  # a mistake"


@pytest.mark.slow
def test_mypy_takes_a_script_and_finds_each_planted_mistake(tmp_path: Path) -> None:
    pytest.importorskip("mypy")
    words = [sys.executable, "-m", "mypy", "--strict", "--follow-imports=silent"]
    script = tmp_path / "script.py"
    script.write_text(SCRIPT.read_text(encoding="utf-8").replace(MISTAKE, ""), encoding="utf-8")
    done = subprocess.run([*words, str(script)], cwd=ROOT, capture_output=True, text=True, check=False)
    told = {int(line) for line in re.findall(r"script\.py:(\d+): error", done.stdout)}
    lines = SCRIPT.read_text(encoding="utf-8").splitlines()
    assert told == {number for number, line in enumerate(lines, 1) if line.endswith(MISTAKE)}, done.stdout
