"""The work of a first conversion in a process of its own: files of jfuse that are entered, and calls in them."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import keras

import jfuse

MOST_FILES = 275  # 273 were counted
MOST_CALLS = 111_500  # 109,720 were counted; versions of jax differ in some hundreds

_COUNTED = """
import sys
from collections import Counter

import jfuse

jfuse.convert
calls = Counter()


def note(frame, event, argument):
    calls[frame.f_code.co_filename] += event == "call"


sys.setprofile(note)
result = jfuse.convert(sys.argv[1], verify=False)
sys.setprofile(None)
assert result.report.operators["unidirectional_sequence_lstm"] == 1, result.report.operators
ours = [n for file, n in calls.items() if n and file.startswith(sys.argv[2]) and "site-packages" not in file]
print([len(ours), sum(ours)], "tensorflow" in sys.modules)
"""


def test_few_files_and_calls_make_an_lstm(tmp_path: Path) -> None:
    source = keras.Input((20, 8))
    keras.Model(source, keras.layers.LSTM(16)(source)).export(tmp_path / "lstm", verbose=False)
    ours = Path(jfuse.__file__).parent
    command = [sys.executable, "-c", _COUNTED, str(tmp_path / "lstm"), str(ours.parent)]
    run = subprocess.run(command, capture_output=True, text=True, check=True, cwd=ours.parent)
    counted, _, with_tensorflow = run.stdout.strip().rpartition(" ")
    files, calls = ast.literal_eval(counted)
    print(f"an LSTM without verification: {files} files, {calls:,} calls")
    assert with_tensorflow == "False"
    assert files <= MOST_FILES
    assert calls <= MOST_CALLS
