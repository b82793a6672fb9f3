"""The command line: exit codes, messages, and that nothing is left behind when it refuses."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from jfuse.kernels import ops
from jfuse.reports import coverage
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

Run = Callable[..., Any]


@pytest.fixture(scope="module")
def run() -> Run:
    runner = CliRunner()
    return lambda *words: runner.invoke(cli.app, [str(w) for w in words])


@pytest.fixture(scope="module")
def demo(run: Run, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("demo")
    done = run("demo", "--folder", folder)
    assert done.exit_code == 0, done.output
    return folder, done.output


@pytest.fixture(scope="module")
def unknown_op(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import tensorflow as tf

    folder = tmp_path_factory.mktemp("unknown") / "model"
    module = tf.Module()
    function = tf.function(lambda x: {"y": tf.math.special.dawsn(x)}, input_signature=[tf.TensorSpec([2], tf.float32)])
    tf.saved_model.save(module, str(folder), signatures={"serving_default": function})
    return folder


def test_the_help_lists_commands_by_their_use(run: Run) -> None:
    names = re.findall(r"^[ │]+([a-z][a-z-]*)  +[A-Z]", run("--help").output, flags=re.MULTILINE)
    assert names[:5] == ["convert", "explain", "quantize", "verify", "check"]
    assert len(names) == len(cli.app.registered_commands)


def test_demo_shows_what_fused_and_how_fast(demo: tuple[Path, str]) -> None:
    folder, output = demo
    assert str(folder / "lstm_classifier") in output
    assert "into UNIDIRECTIONAL_SEQUENCE_LSTM, STRIDED_SLICE; proven" in output
    assert "1 unidirectional_sequence_lstm" in output
    assert not re.search(r"\d while", output)
    assert re.search(r"^latency +\d+\.\d+ ms", output, re.MULTILINE)


MAIN = [sys.executable, "-c", "from jfuse.cli import main; main()"]


def test_the_exit_code_of_the_process() -> None:
    for words, code in ((["--version"], 0), (["convert", "--loop", "c"], 2)):
        assert subprocess.run([*MAIN, *words], capture_output=True, check=False).returncode == code


def test_a_new_process_gives_the_same_bytes_and_shows_the_conversion_alone(
    demo: tuple[Path, str], tmp_path: Path
) -> None:
    """No lines of TensorFlow's, absl's or LiteRT's; no boxes, nothing cut."""
    folder, _ = demo
    words = ["convert", str(folder / "lstm_classifier"), "-o", str(tmp_path / "again.tflite")]
    program = [*MAIN, *words]
    environment = {name: value for name, value in os.environ.items() if name != "TF_CPP_MIN_LOG_LEVEL"}
    started = time.perf_counter()
    done = subprocess.run(program, capture_output=True, text=True, env=environment, check=False)
    took = time.perf_counter() - started
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "again.tflite").read_bytes() == (folder / "lstm_classifier.tflite").read_bytes()
    assert str(tmp_path / "again.tflite") in done.stdout
    assert done.stdout.isascii()
    printed = re.search(r"^time +(\S+) s \(", done.stdout, re.MULTILINE)
    assert printed is not None
    assert 0 < float(printed[1]) <= took + 0.1


def test_explain_tells_of_each_recurrence(run: Run, demo: tuple[Path, str]) -> None:
    folder, _ = demo
    done = run("explain", folder / "lstm_classifier")
    assert done.exit_code == 0, done.output
    assert re.search(r"LSTM of \d+ units, \d+ inputs, .* steps at ", done.output)
    assert re.search(r"proven +for all inputs, states, lengths and batches", done.output)
    assert "becomes    UNIDIRECTIONAL_SEQUENCE_LSTM" in done.output


def test_no_verify_says_so(run: Run, demo: tuple[Path, str], tmp_path: Path) -> None:
    done = run("convert", demo[0] / "lstm_classifier", "-o", tmp_path / "m.tflite", "--no-verify")
    assert done.exit_code == 0, done.output
    assert "not compared" in done.output


def test_inspect_prints_text_that_parses(run: Run, demo: tuple[Path, str]) -> None:
    done = run("inspect", demo[0] / "lstm_classifier.tflite")
    assert done.exit_code == 0, done.output
    assert "unidirectional_sequence_lstm" in done.output
    assert done.output.strip() == str(jfuse.load(demo[0] / "lstm_classifier.tflite")).strip()


def test_inspect_after_a_pass(run: Run, demo: tuple[Path, str], tmp_path: Path) -> None:
    source = demo[0] / "lstm_classifier"
    done = run("inspect", source, "--stage", "while_to_scan", "--html", tmp_path / "page.html")
    assert done.exit_code == 0, done.output
    assert " = scan" in done.output
    assert " = while " not in done.output
    assert "while_to_scan" not in (page := (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert "scan" in page
    refused = run("inspect", source, "--stage", "melt")
    assert refused.exit_code == 2
    assert "simplify" in refused.output


def test_inspect_as_tables(run: Run, demo: tuple[Path, str]) -> None:
    done = run("inspect", demo[0] / "lstm_classifier.tflite", "--table")
    assert done.exit_code == 0, done.output
    assert re.search(r"serving_default +input +\S+ +f32\[", done.output)
    assert re.search(
        r"UNIDIRECTIONAL_SEQUENCE_LSTM +1 +[1-9][\d,]* +[1-9][\d,]* +[1-9][\d,]*$", done.output, re.MULTILINE
    )
    assert " = while" not in done.output


def test_a_source_is_quantized_with_sizes_and_labelled_data(run: Run, demo: tuple[Path, str], tmp_path: Path) -> None:
    of = jfuse.load(demo[0] / "lstm_classifier.tflite").signature()
    (name,), steps = of.input_names, [int(d) for d in of.graph.inputs[0].type.shape[1:]]
    x = np.random.default_rng(0).standard_normal((8, *steps)).astype(np.float32)
    arrays: dict[str, Any] = {name: x, "label": np.zeros(8, np.int64)}
    np.savez(tmp_path / "data.npz", **arrays)
    words = ("-o", tmp_path / "small.tflite", "--recipe", "int8", "--calibration", tmp_path / "data.npz")
    sizes = ("--batch", "1", "--shape", f"{name}=1,?,?")
    source = demo[0] / "lstm_classifier"
    refused = run("quantize", source, *words, *sizes)
    assert refused.exit_code == 1
    assert "label" in refused.output
    done = run("quantize", source, *words, *sizes, "--labels-key", "label", "--import", "json")
    assert done.exit_code == 0, done.output
    assert jfuse.load(tmp_path / "small.tflite").program.signatures[0].graph.inputs[0].type.is_static
    wrong = run("quantize", source, *words, "--labels-key", "nothing")
    assert wrong.exit_code == 1
    assert "no array 'nothing'" in wrong.output


def test_costs_are_sorted_measured_and_written(run: Run, demo: tuple[Path, str], tmp_path: Path) -> None:
    file, words = demo[0] / "lstm_classifier.tflite", ("--by", "operator", "--sort", "weights", "--measure")
    done = run("inspect", file, "--table", *words, "--json", tmp_path / "cost.json")
    assert done.exit_code == 0, done.output
    cost, *_ = json.loads((tmp_path / "cost.json").read_text())["signatures"]
    assert cost["macs"] == sum(row["macs"] for row in cost["operators"]) > 0
    assert any(row["us"] for row in cost["operators"])
    assert done.output.index("UNIDIRECTIONAL") < done.output.index("FULLY_CONNECTED")
    assert run("inspect", file, "--table", "--sort", "names").exit_code == 2


def test_inspect_of_a_source_shows_the_loop(run: Run, demo: tuple[Path, str]) -> None:
    done = run("inspect", demo[0] / "lstm_classifier", "--signature", "serving_default")
    assert done.exit_code == 0, done.output
    assert " = while " in done.output


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no-such-folder"], "does not exist"),
        (["{empty}"], "is not a SavedModel"),
        (["{corrupt}"], "cannot be read as a SavedModel"),
        (["{demo}", "--signature", "absent"], "has no signature 'absent'"),
        (["{unknown}"], "tf.Dawsn"),
        (["{text}"], "is of no known kind"),
    ],
)
def test_refusals_exit_with_1_and_leave_no_file(
    run: Run, demo: tuple[Path, str], unknown_op: Path, tmp_path: Path, words: list[str], message: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "corrupt").mkdir()
    (tmp_path / "corrupt" / "saved_model.pb").write_bytes(b"not a protocol buffer")
    (tmp_path / "text.txt").write_text("no model")
    places = {
        "{empty}": tmp_path / "empty",
        "{corrupt}": tmp_path / "corrupt",
        "{demo}": demo[0] / "lstm_classifier",
        "{unknown}": unknown_op,
        "{text}": tmp_path / "text.txt",
    }
    output = tmp_path / "out" / "model.tflite"
    output.parent.mkdir()
    done = run("convert", *(places.get(w, w) for w in words), "-o", output)
    assert done.exit_code == 1
    assert message in done.output
    assert list(output.parent.iterdir()) == []


def test_an_output_folder_that_is_not_there_exits_with_2(run: Run, demo: tuple[Path, str], tmp_path: Path) -> None:
    done = run("convert", demo[0] / "lstm_classifier", "-o", tmp_path / "absent" / "m.tflite", "--no-verify")
    assert done.exit_code == 2
    assert not (tmp_path / "absent").exists()


@pytest.mark.parametrize("words", [["convert"], ["convert", "x", "-o", "y", "--sideways"], ["sideways"]])
def test_wrong_usage_exits_with_2(run: Run, words: list[str]) -> None:
    assert run(*words).exit_code == 2


def test_ops_without_a_rule_can_be_let_in(run: Run, unknown_op: Path, tmp_path: Path) -> None:
    done = run("convert", unknown_op, "-o", tmp_path / "flex.tflite", "--select-tf-ops")
    assert done.exit_code == 0, done.output
    assert "custom operators: 1 FlexDawsn for Dawsn (first at" in " ".join(done.output.split())
    assert "needs a runtime with the Flex delegate" in " ".join(done.output.split())
    done = run("convert", unknown_op, "-o", tmp_path / "own.tflite", "--custom-op", "Dawsn", "--no-verify")
    assert done.exit_code == 0, done.output
    assert "custom.Dawsn" in str(jfuse.load(tmp_path / "own.tflite"))
    done = run("convert", unknown_op, "-o", tmp_path / "no.tflite", "--custom-op", "Lgama")
    assert done.exit_code == 1
    assert "--custom-op names Lgama" in done.output


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that takes 3, 14 and 15 alone."""
    import tensorflow as tf

    def call(x: Any) -> Any:
        with tf.control_dependencies([tf.debugging.assert_equal(x, [3, 14, 15])]):
            return {"y": tf.cast(x, tf.float32) * 2.0}

    folder = tmp_path_factory.mktemp("guarded") / "model"
    function = tf.function(call, input_signature=[tf.TensorSpec([3], tf.int32, name="x")], autograph=False)
    tf.saved_model.save(tf.Module(), str(folder), signatures={"serving_default": function})
    return folder


def test_samples_and_the_tolerance_are_the_users(run: Run, guarded: Path, tmp_path: Path) -> None:
    words = ["convert", guarded, "-o", tmp_path / "m.tflite"]
    done = run(*words)
    assert done.exit_code == 1
    assert "--inputs data.npz" in done.output
    np.savez(tmp_path / "data.npz", x=np.array([3, 14, 15], np.int32))
    given = ["--inputs", tmp_path / "data.npz", "--tolerance", "0.25"]
    for reports in ([], ["--json", tmp_path / "report.json"]):
        done = run(*words, *given, *reports)
        assert done.exit_code == 0, done.output
        assert "of at most 2e-01" in done.output
    assert run(*words, *given, "--no-verify").exit_code == 2


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("def f(:", "SyntaxError: invalid syntax (broken_rules.py, line 1)"),
        ("import jfuse\n\njfuse.fuse", "broken_rules.py, line 3); did you mean 'fuses'?"),
        ("1 / 0", "ZeroDivisionError: division by zero ("),
    ],
)
@pytest.mark.parametrize("option", ["--rules", "--import"])
def test_code_of_the_user_that_fails_is_one_message(
    run: Run, option: str, text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "broken_rules.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = run("rules", option, "broken_rules.py" if option == "--rules" else "broken_rules")
    sys.modules.pop("broken_rules", None)
    assert done.exit_code == 1
    assert done.output.startswith("JfuseError: broken_rules")
    assert told in " ".join(done.output.split())


@pytest.mark.parametrize("chosen", [None, "1"])
def test_onednn_is_off_unless_the_user_chose(chosen: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "TF_ENABLE_ONEDNN_OPTS"
    monkeypatch.delenv(name, raising=False)
    if chosen is not None:
        monkeypatch.setenv(name, chosen)
    started = []
    monkeypatch.setattr(cli, "app", lambda: started.append(os.environ[name]))
    cli.main()
    assert started == [chosen or "0"]


def test_tensorflow_is_not_imported_before_that() -> None:
    program = "import sys, jfuse.cli; sys.exit('tensorflow' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_ops_tells_about_one_or_all(run: Run) -> None:
    assert "rule      lowering/ops/nn/conv.py lower_conv_2d" in run("ops", "Conv2D").output
    assert re.search(r"^Relu: .*RELU", run("ops").output, re.MULTILINE)
    assert run("ops", "--markdown").output == coverage.markdown()


def test_the_version(run: Run) -> None:
    done = run("--version")
    assert (done.exit_code, done.output) == (0, f"jfuse {jfuse.__version__}\n")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--state", "kept"), "source, reset, keep, io"),
        (("--loop", "for"), "auto, while, unroll"),
        (("--prefer", "bytes"), "auto, fused, speed, size"),
        (("--machine", "vax"), "any, zen4"),
        (("--padding", "up"), "right, left"),
        (("--json", "no/such/folder.json"), "no such folder"),
        (("--tolerance", "-1"), "greater than or equal to 0"),
        (("--inputs", "no_such.npz"), "does not exist"),
        (("--quantize", "int9"), "none of float16, dynamic"),
        (("--quantize", "no_such.json"), "no file 'no_such.json'"),
        (("--quantize", "int8", "--calibration", "no_such.npz"), "no file or folder 'no_such.npz'"),
        (("--calibration", "random"), "--calibration needs --quantize try --quantize int8"),
    ],
)
def test_wrong_values_are_told_before_anything_is_read(
    words: tuple[str, ...], message: str, run: Run, tmp_path: Path
) -> None:
    done = run("convert", "not_there", "-o", tmp_path / "m.tflite", *words)
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("quantize", "m.tflite", "-o", "{out}", "--recipe", "int9"), "none of float16, dynamic"),
        (("quantize", "m.tflite", "-o", "{out}", "--recipe", "int8", "--calibration", "no.npz"), "no file or folder"),
        (("quantize-report", "m.tflite", "--against", "f.tflite", "--data", "no.npz"), "no file or folder"),
    ],
)
def test_wrong_values_of_quantization_are_told_first(
    words: tuple[str, ...], message: str, run: Run, tmp_path: Path
) -> None:
    done = run(*(str(tmp_path / "q.tflite") if word == "{out}" else word for word in words))
    assert done.exit_code == 2
    assert message in " ".join(done.output.split())


@pytest.mark.parametrize("output", ["lstm_classifier", "lstm_classifier/m.tflite", "lstm_classifier/saved_model.pb"])
def test_a_source_is_never_its_own_target(output: str, run: Run, demo: tuple[Path, str]) -> None:
    folder, _ = demo
    before = (folder / "lstm_classifier" / "saved_model.pb").read_bytes()
    done = run("convert", folder / "lstm_classifier", "-o", folder / output)
    assert done.exit_code == 2
    assert (folder / "lstm_classifier" / "saved_model.pb").read_bytes() == before


def test_code_in_a_source_runs_where_that_is_asked_for(run: Run, tmp_path: Path) -> None:
    import keras

    path = tmp_path / "model.keras"
    keras.Sequential([keras.Input((3,)), keras.layers.Lambda(lambda x: x + 1)]).save(path)
    refused = run("inspect", path)
    assert refused.exit_code == 1
    assert "--unsafe" in refused.output
    assert run("inspect", path, "--unsafe").exit_code == 0
    assert run("convert", path, "-o", tmp_path / "m.tflite", "--unsafe").exit_code == 0


def test_an_unknown_op_is_an_error(run: Run) -> None:
    done = run("ops", "Conv2")
    assert done.exit_code == 1
    assert "near are Conv2D" in done.output
    assert "--custom-op Conv2 writes it" in done.output
    assert "--select-tf-ops writes it" in done.output


def test_a_target_takes_a_file_or_says_why_not(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "tile.tflite"
    path.write_bytes(to_bytes(program(lambda x: ops.tile(ops.neg(x), [1, 2]), f32(1, 3))))
    refused = run("check", path, "--target", "tflite-micro")
    assert refused.exit_code == 1
    assert "1 x TILE v1 f32: tflite-micro has no TILE" in refused.output
    assert run("check", path, "--target", "litert").exit_code == 0
    everywhere = run("check", path)
    assert everywhere.exit_code == 0
    assert "litert         takes the file" in everywhere.output
    both = run("check", path, "--target", "litert,tflite-micro")
    assert both.exit_code == 1
    assert "litert: takes the file" in both.output
    assert "tflite-micro: does not take the file" in both.output
    assert run("check", path, "--target", "litert,compiled-model").exit_code == 0
    unknown = run("check", path, "--target", "litert,tflite")
    assert unknown.exit_code == 2
    assert "litert>=X.Y" in unknown.output

    converted = tmp_path / "micro.tflite"
    made = run(
        "convert",
        path,
        "-o",
        converted,
        "--target",
        "litert,tflite-micro",
        "--c-array",
        tmp_path / "m.cc",
        "--no-verify",
    )
    assert made.exit_code == 0, made.output
    assert {p.name for p in tmp_path.iterdir()} == {"tile.tflite", "micro.tflite", "m.cc", "m.h", "m_ops.h"}
    assert "AddConcatenation()" in (tmp_path / "m_ops.h").read_text()
    assert run("check", converted, "--target", "tflite-micro").exit_code == 0
    wrong = run("convert", path, "-o", converted, "--no-verify", "--c-array", tmp_path / "m.txt")
    assert wrong.exit_code == 2
    assert ".cc, .cpp, .cxx" in wrong.output
