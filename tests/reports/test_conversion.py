"""Reports of a real conversion, by the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.api import verify as api_verify
from jfuse.base.errors import VerifyFailed
from jfuse.cli import app as cli
from jfuse.records.verification import Verification
from jfuse.reports import write_model_explorer
from tests.browser import Browser
from tests.reports.shape import misfits
from tests.reports.small import difference
from tests.reports.test_as_json import SCHEMA


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dense layer and a composite that nothing fuses, in two scopes."""
    import tensorflow as tf

    @tf.function(experimental_implements="acme.swish")
    def swish(x: Any) -> Any:
        return x * tf.sigmoid(x)

    @tf.function(input_signature=[tf.TensorSpec([None, 3], tf.float32, name="x")])
    def net(x: Any) -> dict[str, Any]:
        with tf.name_scope("dense"):
            y = tf.nn.bias_add(tf.matmul(x, [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), [0.5, -0.5])
        with tf.name_scope("head"):
            return {"y": tf.nn.softmax(swish(y))}

    folder = tmp_path_factory.mktemp("source") / "model"
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": net})
    return folder


@pytest.fixture(scope="module")
def reports(saved_model: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reports")
    words = [
        "convert",
        saved_model,
        "-o",
        folder / "m.tflite",
        "--html",
        folder / "m.html",
        "--json",
        folder / "m.json",
    ]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    return folder


def test_the_json_tells_of_the_conversion_and_of_the_errors(reports: Path) -> None:
    told = json.loads((reports / "m.json").read_text(encoding="ascii"))
    assert misfits(told, SCHEMA) == []
    assert told["passed"]
    assert told["subject"] == "m.tflite"
    assert {d["pair"] for d in told["differences"]} >= {"tensorflow/xla", "tensorflow/litert"}
    assert told["equations"], "the page asks for the error along the graph"
    assert told["conversion"]["operators"]["fully_connected"] == 1
    assert told["conversion"]["size_bytes"] == (reports / "m.tflite").stat().st_size


def test_the_page_shows_both_graphs_with_errors(reports: Path, browser: Browser) -> None:
    tab = browser.open(reports / "m.html")
    assert "acme.swish" in tab.texts("#pane-before .name")
    assert "fully_connected" in tab.texts("#pane-after .name")
    assert tab.texts("#pane-after .size"), "no operation has an error"
    assert tab.texts("#verdict") == ["✓ within tolerance"]
    assert tab.complaints == []
    assert tab.requests == [(reports / "m.html").as_uri()]
    tab.close()


def test_model_explorer_has_every_operator(reports: Path) -> None:
    model = jfuse.load(reports / "m.tflite")
    found = jfuse.verify(model, options=jfuse.Verify(calls=1, each_equation=True))
    file = write_model_explorer(found, model, reports / "nodes.json")
    ((graph, data),) = json.loads(file.read_text(encoding="ascii")).items()
    assert graph == model.signature().graph.name
    assert data["results"].keys() == {str(i) for i in range(len(model.signature().graph.eqns))}


def test_where_outputs_differ_the_reports_are_written_and_the_file_is_not(
    saved_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The report is that of `jfuse.convert`, which leaves it in the error."""

    def differs(*_: object, **__: object) -> Verification:
        failed = VerifyFailed("output 'hidden' differs")
        failed.verification = Verification("a", "b", [difference(0.5)], after=jfuse.load(saved_model).program)
        raise failed

    monkeypatch.setattr(api_verify, "verify_sides", differs)
    words = ["convert", saved_model, "-o", tmp_path / "m.tflite", "--json", tmp_path / "m.json"]
    done = CliRunner().invoke(cli.app, [str(word) for word in (*words, "--html", tmp_path / "m.html")])
    assert done.exit_code == 1
    told = json.loads((tmp_path / "m.json").read_text(encoding="ascii"))
    assert told["passed"] is False
    assert [r["what"] for r in told["conversion"]["refused"]] == ["acme.swish"], "of the conversion"
    assert "acme.swish" in (tmp_path / "m.html").read_text(encoding="utf-8")
    assert not (tmp_path / "m.tflite").exists()


def test_a_quantized_model_is_reported_with_its_noise_and_the_time_of_the_comparison(
    saved_model: Path, tmp_path: Path
) -> None:
    """With reports as without them: `jfuse.convert` compares in either case."""
    words = ["convert", saved_model, "-o", tmp_path / "m.tflite", "--json", tmp_path / "m.json"]
    done = CliRunner().invoke(
        cli.app, [str(word) for word in (*words, "--quantize", "int8", "--calibration", "random")]
    )
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "m.json").read_text(encoding="ascii"))["conversion"]
    assert [noise["output"] for noise in told["noise"]][:1] == ["y"]
    assert told["seconds"]["verify"] > 0
    assert "dB in LiteRT" in done.output


def test_a_conversion_keeps_what_it_compared(saved_model: Path) -> None:
    result = jfuse.convert(saved_model, verify=jfuse.Verify(each_equation=True))
    assert result.verification is not None
    assert result.verification.differences == result.report.differences
    assert {e.pair for e in result.verification.equations}, "the error along the graph"
    assert jfuse.convert(saved_model, verify=False).verification is None


def test_without_verification_the_report_is_of_the_conversion(saved_model: Path, tmp_path: Path) -> None:
    words = ["convert", saved_model, "-o", tmp_path / "m.tflite", "--no-verify", "--json", tmp_path / "m.json"]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    told = json.loads((tmp_path / "m.json").read_text(encoding="ascii"))
    assert told["differences"] == []
    assert told["conversion"]["operators"]
