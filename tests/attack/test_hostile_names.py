"""Every command on files whose names hold escape sequences and markup: nothing of them is obeyed where it is shown."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.cli import app as cli
from jfuse.ir.graph import Const, FileFacts, Program, Signature, Source
from jfuse.ir.trace import at_source, trace_graph
from jfuse.kernels import ops
from jfuse.tf_nodes.messages import message_class
from jfuse.tflite.write.distinct_outputs import prepare_outputs
from jfuse.tflite.write.file import to_bytes
from tests.slow import slow_but
from tests.tflite.programs import BATCH, f32

OBEYED = ("\x1b]", "\x9b", "\x07", "\x08", "\u202e")  # the beginning of a title, of colours, a bell, deletion, bidi
TAG = "<img src=x onerror=alert(1)>"
EVIL = f"e[red]\x1b]0;title\x07\x9b31m\x08\u202e{TAG}</script>"
PATH = "evil[red]\x1b]0;title\x07\u202e<img>"


@dataclass(frozen=True)
class Hostile:
    """A file, its integer form, one that differs, a SavedModel, what is none of these, and a folder to write to."""

    file: Path
    small: Path
    other: Path
    folder: Path
    damaged: Path
    missing: Path
    out: Path


def _program(scale: float = 1.0) -> Program:
    rng = np.random.default_rng(4)
    weights = [rng.uniform(-0.5, 0.5, (4, n)).astype(np.float32) * np.float32(scale) for n in (3,) * 4 + (4,) * 4]
    biases = [np.full(4, 0.1, np.float32)] * 4

    def main(x: Any) -> Any:
        with at_source(Source(EVIL, EVIL, (EVIL,))):
            first = ops.strided_slice(x, [0, 0, 0], [0, 1, 1], [1, 1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
            states = [ops.tile(ops.zeros_like(first), [1, 4]) for _ in range(2)]
            y, *_ = ops.unidirectional_sequence_lstm(x, *weights, None, None, None, *biases, None, None, *states)
            return ops.tanh(y)

    graph = prepare_outputs(trace_graph(main, [f32(BATCH, 6, 3)], EVIL))
    facts = FileFacts(EVIL, ((EVIL, Const(np.frombuffer(EVIL.encode(), np.uint8))),))
    return Program((Signature(EVIL, graph, (EVIL,), (f"{EVIL}!",)),), facts=facts)


def _saved_model(path: Path) -> None:
    """A SavedModel with a loop; every node, argument and function of its library is renamed."""
    import tensorflow as tf

    from tests.attack.test_damaged_folders import Looping

    tf.saved_model.save(Looping(), str(path))
    file = path / "saved_model.pb"
    message = message_class("SavedModel").FromString(file.read_bytes())
    for function in message.meta_graphs[0].graph_def.library.function:
        names = {n.name: f"{EVIL}{n.name}" for n in function.node_def}
        for node in function.node_def:
            node.name = names[node.name]
            for i, reference in enumerate(node.input):
                name, colon, rest = reference.removeprefix("^").partition(":")
                node.input[i] = f"{'^' * reference.startswith('^')}{names.get(name, name)}{colon}{rest}"
        for key, reference in list(function.ret.items()):
            name, colon, rest = reference.partition(":")
            function.ret[key] = f"{names.get(name, name)}{colon}{rest}"
    for item in message.meta_graphs[0].object_graph_def.nodes:
        if item.WhichOneof("kind") == "variable":
            item.variable.name = EVIL
    file.write_bytes(message.SerializeToString())


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Hostile:
    root = tmp_path_factory.mktemp("hostile")
    folder = root / PATH
    folder.mkdir()
    names = ("file.tflite", "small.tflite", "other.tflite", "saved", "damaged.tflite", "missing.tflite", "out.tflite")
    found = Hostile(*(folder / f"{PATH}{name}" for name in names))
    found.file.write_bytes(to_bytes(_program()))
    found.other.write_bytes(to_bytes(_program(0.9)))
    found.damaged.write_bytes(found.file.read_bytes()[:-200])
    _saved_model(found.folder)
    return found


COMMANDS: dict[str, str] = {
    "inspect": "inspect {file}",
    "inspect a folder": "inspect {folder}",
    "inspect in tables": "inspect {file} --table",
    "inspect after a pass": "inspect {folder} --stage fuse --html {out}.html",
    "inspect after no pass": "inspect {folder} --stage {evil}",
    "inspect what is damaged": "inspect {damaged}",
    "inspect what is missing": "inspect {missing}",
    "inspect another signature": "inspect {folder} --signature {evil}",
    "explain": "explain {folder} --json {out}.json",
    "convert": "convert {folder} -o {out} --html {out}.html --json {out}.json --no-verify",
    "convert, verified": "convert {folder} -o {out}",
    "convert to itself": "convert {folder} -o {folder}/x",
    "quantize": "quantize {file} -o {out} --recipe dynamic --json {out}.json",
    "quantize to integers": "quantize {file} -o {out} --recipe int8 --calibration random",
    "quantize by a recipe": "quantize {file} -o {out} --recipe {evil}",
    "quantize-report": "quantize-report {small} --against {file} --html {out}.html --explorer {out}.json",
    "optimize": "optimize {file} -o {out} --json {out}.json",
    "tune": "tune {file} -o {out} --json {out}.json",
    "verify": "verify {file} --html {out}.html --json {out}.json --samples 4",
    "verify what differs": "verify {file} --against {other} --save-failing {out}-failing --samples 4",
    "check": "check {file} --target tflite-micro --json {out}.json",
    "bench": "bench {file} --html {out}.html --json {out}.json --seconds 0.01 --threads 1 --against {other}",
    "diff": "diff {file} {other} --json {out}.json",
    "diff of what is damaged": "diff {file} {damaged}",
    "ops": "ops {evil}",
    "a module": "inspect {file} --import {evil}",
    "no such option": "inspect {file} --{evil}",
    "no such file": "bench {file} --against {missing}",
    "a size": "verify {file} --size {evil}",
}  # fmt: skip
_QUICK = frozenset(COMMANDS) - {
    "verify what differs",
    "convert, verified",
    "tune",
    "bench",
    "quantize",
    "quantize to integers",
    "quantize-report",
    "optimize",
    "verify",
}


@pytest.mark.parametrize("name", slow_but(_QUICK.__contains__, COMMANDS))
@pytest.mark.parametrize("terminal", slow_but(lambda terminal: terminal, (True, False)))
def test_commands(name: str, terminal: bool, hostile: Hostile, monkeypatch: pytest.MonkeyPatch) -> None:
    if terminal:
        monkeypatch.setenv("FORCE_COLOR", "1")  # rich prints as on a terminal: progress, colours
    places = {field: str(getattr(hostile, field)) for field in hostile.__dataclass_fields__}
    if "{small}" in COMMANDS[name]:
        jfuse.quantize(hostile.file, "int8", "random", verify=False).save(hostile.small)
    words = [word.format(evil=EVIL, **places) for word in COMMANDS[name].split()]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code in (0, 1, 2)
    assert isinstance(done.exception, SystemExit | None), done.exception
    assert "jfuse itself failed" not in done.output
    assert done.output
    assert [c for c in OBEYED if c in done.output] == [], ascii(done.output)
    for made in hostile.out.parent.glob("*.html"):
        text = made.read_text()
        made.unlink()
        assert [c for c in (*OBEYED, TAG) if c in text] == []
        assert text.count("</script") == text.count("<script")
    for made in hostile.out.parent.glob("*.json"):
        text = made.read_text()
        made.unlink()
        assert text.isascii()
        json.loads(text)
