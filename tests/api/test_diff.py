"""`jfuse.diff`: each kind of difference is found, nothing else is, and long models take no longer than their length."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.cli import app as cli
from jfuse.differences.programs import ProgramDiff
from jfuse.ir.graph import Const, FileFacts
from jfuse.kernels import ops
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import f32, program

TEXT = """program {
  signature "serving_default"("x") -> ("y") = graph 0
  graph main(a: f32[1,3]) {
    b: f32[1,3] = mul a f32[1,3](2.0 2.0 2.0)
    c: f32[1,3] = neg a
    d: f32[1,3] = add b c
    e: f32[3,1] = transpose d i32[2](1 0)
    return e
  }
}
"""
QUANTIZED = """program {
  signature "serving_default"("x") -> ("y") = graph 0
  graph main(a: i8[1,3]{scale=(0.5,) zero_point=(0,) axis=0}) {
    b: i8[1,3]{scale=(0.25,) zero_point=(3,) axis=0} = logistic a
    return b
  }
}
"""


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ('("x")', '("z")', ["input", "input"]),
        ('("y")', '("z")', ["output", "output"]),
        ('"serving_default"', '"train"', ["signature", "signature"]),
        ("2.0 2.0 2.0", "2.0 2.5 2.0", ["constant"]),
        ("= neg a", "= abs a", ["operator", "operator"]),
        ("add b c", "add c b", ["operand", "operand"]),
        ("add b c", "add b a", ["operand"]),
        ("add b c", 'add[fused_activation_function="RELU"] b c', ["option"]),
        ("f32[1,3](2.0 2.0 2.0)", "2.0", ["constant"]),
        ("f32[1,3](2.0 2.0 2.0)", "a", ["operand"]),
    ],
)
def test_each_kind_is_found(before: str, after: str, expected: list[str]) -> None:
    assert before in TEXT
    found = jfuse.diff(TEXT, TEXT.replace(before, after, 1))
    assert [finding.kind for finding in found.findings] == expected, found.lines()
    assert not found.equal


def test_sizes_are_types() -> None:
    found = jfuse.diff(
        TEXT, TEXT.replace("[1,3]", "[2,3]").replace("[3,1]", "[3,2]").replace("2.0)", "2.0 1.0 1.0 1.0)")
    )
    assert {finding.kind for finding in found.findings} == {"input", "output", "type", "constant"}
    assert "mul: f32[1,3] / f32[2,3]" in str(found)


def test_quantization_is_told_apart_from_types() -> None:
    assert jfuse.diff(QUANTIZED, QUANTIZED).equal
    (found,) = [
        f
        for f in jfuse.diff(QUANTIZED, QUANTIZED.replace("zero_point=(3,)", "zero_point=(4,)")).findings
        if f.kind != "output"
    ]
    assert (found.kind, found.where) == ("quantization", "serving_default: logistic")
    assert "zero_point=(3,)" in found.a


def test_the_largest_difference_of_constants() -> None:
    """Of 600 numbers, three of which differ: by 0.5 at most."""
    weights = np.linspace(-1, 1, 600, dtype=np.float32).reshape(3, 200)
    other = weights.copy()
    other[[0, 1, 2], [5, 0, 199]] += np.array([0.125, -0.5, 0.25], np.float32)
    files = [to_bytes(program(lambda x, w=w: ops.fully_connected(x, w.T, None), f32(1, 3))) for w in (weights, other)]
    models = [jfuse.load(_written(data)) for data in files]
    (found,) = jfuse.diff(*models).findings
    assert found.kind == "constant"
    assert found.largest == pytest.approx(0.5, abs=1e-6)
    assert jfuse.diff(models[0], models[0]).equal


_COUNT = iter(range(100))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def _written(data: bytes) -> Path:
    path = Path(f"{next(_COUNT)}.tflite")
    path.write_bytes(data)
    return path


def test_metadata() -> None:
    one = jfuse.parse(TEXT).program  # type: ignore[union-attr]
    entry = Const(np.arange(5, dtype=np.uint8))
    other = replace(one, facts=FileFacts(description="other", metadata=(("LABELS", entry),)))
    compared = ProgramDiff(one, other)
    compared.run()
    assert [(f.kind, f.where, f.a, f.b) for f in compared.findings] == [
        ("metadata", "description", "jfuse", "other"),
        ("metadata", "LABELS", "", "5 bytes"),
    ]


def test_the_order_of_equal_operators_is_a_difference() -> None:
    swapped = TEXT.replace("    b: f32[1,3] = mul a f32[1,3](2.0 2.0 2.0)\n    c: f32[1,3] = neg a\n", "").replace(
        "    d:", "    c: f32[1,3] = neg a\n    b: f32[1,3] = mul a f32[1,3](2.0 2.0 2.0)\n    d:"
    )
    assert [finding.kind for finding in jfuse.diff(TEXT, swapped).findings] == ["order"]


def test_one_operator_between_many_is_one_difference() -> None:
    """What follows an operator that was put in has its counterparts all the same."""

    def long(x: object, extra: bool) -> object:
        for number in range(3000):
            x = ops.neg(x) if number % 2 else ops.abs_(x)
            if extra and number == 7:
                x = ops.tanh(x)
        return x

    one, other = (jfuse.Model(program(lambda x, e=e: long(x, e), f32(1, 3))) for e in (False, True))
    found = jfuse.diff(one, other)
    assert [f.kind for f in found.findings] == ["operator", "operand"]
    assert (found.matched, dict(found.operators)) == (3000, {"tanh": (0, 1)})


def test_a_text_stands_for_its_model() -> None:
    """Long constants are known by their digests there."""
    weights = np.linspace(-1, 1, 600, dtype=np.float32).reshape(200, 3)
    path = _written(to_bytes(program(lambda x: ops.fully_connected(x, weights, None), f32(1, 3))))
    text = str(jfuse.load(path))
    Path("model.txt").write_text(text)
    assert jfuse.diff(path, "model.txt").equal
    changed = _written(to_bytes(program(lambda x: ops.fully_connected(x, weights + 1, None), f32(1, 3))))
    (found,) = jfuse.diff(changed, text).findings
    assert (found.kind, found.largest) == ("constant", None)
    Path("other.txt").write_text("hello")
    with pytest.raises(JfuseError, match="no text of a model"):
        jfuse.diff(path, "other.txt")


def test_exit_codes_and_json() -> None:
    one = _written(to_bytes(program(ops.neg, f32(1, 3))))
    other = _written(to_bytes(program(ops.abs_, f32(1, 3))))
    run = CliRunner().invoke
    assert run(cli.app, ["diff", str(one), str(one)]).exit_code == 0
    done = run(cli.app, ["diff", str(one), str(other), "--json", "diff.json"])
    assert done.exit_code == 1
    assert "operators, A/B: abs 0/1, neg 1/0" in done.output
    data = json.loads(Path("diff.json").read_text())
    assert (data["format"], data["equal"]) == ("jfuse.diff", False)
    assert [f["kind"] for f in data["findings"]] == ["operator", "operator"]
    quiet = run(cli.app, ["diff", str(one), str(other), "--quiet"])
    assert (quiet.exit_code, quiet.output) == (1, "")
    Path("broken.tflite").write_bytes(b"no file")
    assert run(cli.app, ["diff", str(one), "broken.tflite"]).exit_code == 2
