"""The JSON of a verification: valid, as its schema says, and whole."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest

from jfuse.base.errors import JfuseError
from jfuse.base.measure import Measure
from jfuse.records.conversion import CustomOperators, KeptState, LoopForm, Report
from jfuse.records.verification import EquationError, Verification
from jfuse.reports import to_json, write_json
from jfuse.reports.as_json import FORMAT
from jfuse.reports.page import page_data
from tests.json_schemas import schema
from tests.reports.shape import misfits
from tests.reports.small import blocks, difference, errors, loop, report, verification

SCHEMA = schema(FORMAT)
APART = Measure(math.inf, math.inf, math.nan, 0.0, -math.inf)


def full() -> tuple[Verification, Report]:
    """One of everything."""
    equations = errors(loop())
    told = verification(equations, difference(1e-7), replace(difference(math.inf, "tensorflow/xla"), measure=APART))
    told.first = replace(
        equations[1], measure=APART, own=0.25, layer="lstm", steps=(3,), state="h", call=1, first="a/b"
    )
    told.first = replace(told.first, operands=("x: f32[1,4] in [0, 1]",))
    told.notes, told.failing, told.command = ["one output is random"], Path("failing.npz"), "jfuse verify model.tflite"
    made = report(2)
    made.loops = [LoopForm("net/while (While)", "3 steps", "while")]
    made.kept = [KeptState("h", "f32[1,4]", "a variable tensor")]
    made.custom = [CustomOperators("FlexErf", "Erf", 2, "net/Erf", "the Flex delegate")]
    made.notes = ["an assert was dropped"]
    return told, made


def written(folder: Path, told: Verification, made: Report | None = None) -> Any:
    text = write_json(told, folder / "report.json", made).read_text(encoding="ascii")

    def refuse(word: str) -> Any:
        raise AssertionError(f"{word} is not JSON")

    return json.loads(text, parse_constant=refuse)


def test_everything_fits_the_schema(tmp_path: Path) -> None:
    assert misfits(written(tmp_path, *full()), SCHEMA) == []
    assert misfits(written(tmp_path, Verification("a", "b")), SCHEMA) == []


@pytest.mark.parametrize(
    ("field", "value"),
    [("version", 2), ("passed", "yes"), ("samples", -1), ("first", {}), ("seconds", {"XLA": None}), ("more", 1)],
)
def test_the_schema_refuses_what_is_not_so(field: str, value: object) -> None:
    told, made = full()
    assert misfits({**to_json(told, made), field: value}, SCHEMA)


def test_every_field_is_told() -> None:
    """A field that someone adds must be written, or be named here with the reason."""
    told = to_json(*full())
    left_out = {"inputs", "before", "after"}  # arrays, which the file named in `failing` has, and graphs
    assert {f.name for f in fields(Verification)} - left_out <= told.keys()
    assert {f.name for f in fields(EquationError)} <= told["first"].keys()
    assert {f.name for f in fields(Measure)} == told["first"]["measure"].keys()
    assert {f.name for f in fields(Report)} - {"differences"} == told["conversion"].keys()


def test_numbers_that_json_lacks_are_texts() -> None:
    told = to_json(*full())
    assert told["version"] == FORMAT.version
    assert told["differences"][1]["error"] == "inf"
    assert told["first"]["measure"] == {
        "absolute": "inf",
        "relative": "inf",
        "ulp": "nan",
        "cosine": 0.0,
        "snr": "-inf",
    }
    assert told["first"]["own"] == 0.25
    assert told["differences"][0]["measure"]["relative"] == 1e-7


def test_verdicts() -> None:
    told = to_json(*full())
    assert [d["passed"] for d in told["differences"]] == [True, False]
    assert told["passed"] is False
    assert told["conversion"]["refused"][0]["remedy"], "refusals.md knows trip_count_unknown"


def test_nothing_is_left_half_written(tmp_path: Path) -> None:
    place = tmp_path / "report.json"
    place.mkdir()
    with pytest.raises(JfuseError, match="cannot be written"):
        write_json(verification(), place)
    assert [p.name for p in tmp_path.iterdir()] == ["report.json"]


def test_names_of_any_kind_survive(tmp_path: Path) -> None:
    name = "</script>\u2028\"'\\ \N{SNOWMAN} \udc80"
    told = verification(errors(blocks(1, True)), difference(output=name))
    assert written(tmp_path, told)["differences"][0]["output"] == name


def test_an_error_that_is_not_known_is_no_number(tmp_path: Path) -> None:
    """Neither in JSON, nor on the page, nor in words: a zero would be a claim."""
    known, unknown, *others = errors(blocks(1, True))
    unknown = replace(unknown, measure=None, own=1e-7)
    told = verification([known, unknown, *others], difference())
    as_json = written(tmp_path, told)
    assert not misfits(as_json, SCHEMA)
    assert as_json["equations"][1]["measure"] is None
    (shown,) = [
        e
        for graph in page_data(None, blocks(1, True), told)["sides"]["after"]["graphs"]
        for e in graph["errors"]
        if e["own"] == 1e-7
    ]
    assert not {"relative", "absolute", "ulp"} & shown.keys()
    assert "by itself differs by 1e-07; with all before it by what is not known" in unknown.detail
