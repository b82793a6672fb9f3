"""The summary that the command line prints."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from jfuse.cli.console import show_columns, show_rows
from jfuse.cli.tables import summary
from jfuse.records.conversion import Fusion, Refusal, Report


def printed(report: Report, capsys: pytest.CaptureFixture[str]) -> list[str]:
    show_rows(summary(report, Path("m.tflite"), 2.0))
    return [line.rstrip() for line in capsys.readouterr().out.splitlines()]


def test_refusals_are_printed_with_condition_detail_and_place(capsys: pytest.CaptureFixture[str]) -> None:
    """The condition is what jfuse/refusals.md explains; brackets are types, not markup."""
    detailed = Refusal("acme.cell", "fuse_cell", "input_rank", "net[b]/cell (PartitionedCall)", "want 2, got f32[b]")
    bare = Refusal("loop", "loops", "trip_count_unknown", "while (While)")
    lines = printed(Report(refused=[detailed, bare]), capsys)
    assert lines[:4] == [
        "not fused      acme.cell at net[b]/cell (PartitionedCall)",
        "               input_rank: want 2, got f32[b]",
        "not fused      loop at while (While)",
        "               trip_count_unknown",
    ]


def test_nothing_is_cut_or_folded(capsys: pytest.CaptureFixture[str]) -> None:
    place = "/".join(["a_layer_with_a_long_name"] * 20)
    fusion = Fusion("jfuse.lstm", "fuse_lstm", place, ("UNIDIRECTIONAL_SEQUENCE_LSTM", "STRIDED_SLICE"), 131, 1e-15)
    lines = printed(Report(fused=[fusion]), capsys)
    assert lines[0] == f"fused          jfuse.lstm at {place}"
    assert lines[1].startswith("               into UNIDIRECTIONAL_SEQUENCE_LSTM, STRIDED_SLICE; tested on")
    show_columns(("output", "error"), [(place, "1e-7"), ("y\n[red]", "2e-7")])
    header, first, second = capsys.readouterr().out.splitlines()
    assert first == f"{place}  1e-7"
    assert header.index("error") == first.index("1e-7") == second.index("2e-7")


def test_the_time_is_that_of_the_clock(capsys: pytest.CaptureFixture[str]) -> None:
    lines = printed(Report(seconds={"import": 0.5, "fuse": 0.25}), capsys)
    assert "time           2.0 s (start-up 1.2, import 0.5, fuse 0.2)" in lines


def test_refusals_as_text() -> None:
    assert str(Refusal("acme.cell", "fuse_cell", "input_rank", "net/cell", "want 2")) == (
        "fuse_cell: input_rank failed at net/cell: want 2"
    )
    assert str(Refusal("loop", "loops", "no_steps", "")) == "loops: no_steps failed"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs a shell that replaces itself")
def test_the_time_of_the_shell_before_is_not_the_commands() -> None:
    program = "import jfuse.cli, time; from jfuse.cli.clock import elapsed_s; time.sleep(0.2); print(elapsed_s())"
    started = time.perf_counter()
    words = ["bash", "-c", 'sleep 0.6; exec "$0" -c "$1"', sys.executable, program]
    told = float(subprocess.run(words, capture_output=True, text=True, check=True).stdout)
    assert 0.2 < told <= time.perf_counter() - started - 0.6
