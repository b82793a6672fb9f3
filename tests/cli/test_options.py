"""What every command has: --quiet, --verbose and --json where that means something; completion in shells."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from tests.json_schemas import FORMATS, schema
from tests.reports.shape import misfits

COMMANDS: dict[str, Any] = get_command(cli.app).commands  # type: ignore[attr-defined]
NO_JSON = {
    "demo": "an example to look at",
}
CALLS = {
    "convert": ("jfuse.verification", ["{model}", "-o", "{out}"]),
    "quantize": ("jfuse.verification", ["{model}", "-o", "{out}", "--recipe", "float16"]),
    "quantize-report": ("jfuse.quantize_report", ["{int8}", "--against", "{model}"]),
    "optimize": ("jfuse.verification", ["{model}", "-o", "{out}"]),
    "tune": ("jfuse.verification", ["{model}", "-o", "{out}"]),
    "verify": ("jfuse.verification", ["{model}"]),
    "explain": ("jfuse.verification", ["{model}"]),
    "check": ("jfuse.check", ["{model}", "--target", "litert"]),
    "diff": ("jfuse.diff", ["{model}", "{model}"]),
    "bench": ("jfuse.benchmark", ["{model}", "--threads", "1", "--seconds", "0.01"]),
    "ops": ("jfuse.ops", ["Relu"]),
    "rules": ("jfuse.rules", []),
    "passes": ("jfuse.passes", []),
    "inspect": ("jfuse.cost", ["{model}"]),
}
QUICK = {"check", "diff", "explain", "inspect", "ops", "passes", "quantize", "rules"}


def options_of(command: str) -> set[str]:
    return {name for parameter in COMMANDS[command].params for name in parameter.opts}


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_can_be_quiet_and_verbose_and_tell_it_as_json(command: str) -> None:
    assert {"--quiet", "--verbose"} <= options_of(command)
    assert ("--json" in options_of(command)) is (command not in NO_JSON)
    assert (command in CALLS) is (command not in NO_JSON)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("options")
    converted = jfuse.convert(jax.nn.softmax, [jax.ShapeDtypeStruct((2, 3), np.float32)], verify=False)
    return converted.save(folder / "model.tflite")


@pytest.mark.parametrize(
    "command", [c if c in QUICK else pytest.param(c, marks=pytest.mark.slow) for c in sorted(CALLS)]
)
def test_a_quiet_command_prints_nothing_and_writes_json(command: str, model: Path, tmp_path: Path) -> None:
    name, words = CALLS[command]
    places = {"{model}": str(model), "{out}": str(tmp_path / "out.tflite"), "{int8}": str(tmp_path / "int8.tflite")}
    if "{int8}" in words:
        jfuse.quantize(model, "int8", "random", verify=False).save(places["{int8}"])
    report = tmp_path / "report.json"
    words = [command, *(places.get(word, word) for word in words), "--quiet", "--json", str(report)]
    done = CliRunner().invoke(cli.app, words)
    assert (done.exit_code, done.output) == (0, "")
    found = json.loads(report.read_text())
    assert (found["format"], found["version"]) == (name, 1)
    assert misfits(found, schema(FORMATS[name])) == []


def test_a_quiet_command_still_tells_errors(tmp_path: Path) -> None:
    (tmp_path / "m.tflite").write_bytes(b"no model")
    done = CliRunner().invoke(cli.app, ["inspect", str(tmp_path / "m.tflite"), "--quiet"])
    assert done.exit_code == 1
    assert "BadFlatbuffer" in done.output


MAIN = [sys.executable, "-c", "import sys; sys.argv[0] = 'jfuse'; from jfuse.cli import main; main()"]


def test_the_package_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "jfuse", "ops", "NotAnOp"], capture_output=True, text=True)
    assert (done.returncode, done.stdout.split(";")[0]) == (1, "NotAnOp is no op that jfuse reads")


def completed(shell: str, line: str) -> list[str]:
    words = line.split(" ")
    asked = {"_JFUSE_COMPLETE": f"complete_{shell}", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    asked |= {"_TYPER_COMPLETE_ARGS": line}
    run = subprocess.run(MAIN, env={**os.environ, **asked}, capture_output=True, text=True, check=False)
    return run.stdout.split()


def test_a_shell_completes_commands_and_options() -> None:
    assert completed("bash", "jfuse con") == ["convert"]
    assert set(completed("bash", "jfuse convert --qu")) == {"--quantize", "--quiet"}
    assert completed("bash", "jfuse convert --loop un") == ["unroll"]
    assert completed("bash", "jfuse convert --target cm") == ["cmsis-nn"]
    assert completed("bash", "jfuse quantize --recipe int16") == ["int16x8"]


def test_the_script_of_a_shell_is_shown() -> None:
    words = [*MAIN, "--show-completion", "bash"]
    environment = {**os.environ, "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1"}
    run = subprocess.run(words, env=environment, capture_output=True, text=True, check=True)
    assert "_JFUSE_COMPLETE=complete_bash" in run.stdout
    assert "complete -o default" in run.stdout
