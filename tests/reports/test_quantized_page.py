"""The page and the JSON of a conversion with quantization: the errors of the quantized graph."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

import jfuse
from jfuse.base.measure import Measure
from jfuse.cli import app as cli
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.quantization.recipe_json import to_json
from jfuse.reports.noise import LayerNoise, layers_of
from jfuse.verification.quantization_noise.report import TensorNoise
from tests.passes.quantize.models import drawn, program_of
from tests.tflite.programs import f32


@pytest.fixture
def file(tmp_path: Path) -> Path:
    weights = drawn(40, 32, scale=0.2)
    Model(program_of(lambda x: ops.tanh(ops.fully_connected(x, weights, None)), f32(2, 32))).save(tmp_path / "m.tflite")
    np.savez(tmp_path / "data.npz", x0=drawn(40, 32))
    return tmp_path / "m.tflite"


def test_the_page_has_the_errors_of_the_quantized_graph(file: Path) -> None:
    places = {name: file.with_suffix(f".{name}") for name in ("html", "json")}
    words = ["convert", file, "-o", file.with_name("q.tflite"), "--quantize", "int8", "--calibration"]
    words += [file.with_name("data.npz"), "--html", places["html"], "--json", places["json"]]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    assert re.search(r"^largest error +\d\.\de-0[1-3] of the largest number, SNR [2-5]\d\.\d dB", done.output, re.M)
    assert re.search(r"^latency .* of the float file's", done.output, re.M)
    (text,) = re.findall(r'id="data">(.*?)</script>', places["html"].read_text(encoding="utf-8"), re.DOTALL)
    page = json.loads(text)
    errors = [e for graph in page["sides"]["after"]["graphs"] for e in graph["errors"] if e["pair"] == "as it arrives"]

    sizes = [e["relative"] for e in errors]
    assert 1e-3 < sizes[-1] < 0.1, sizes  # half a step of 8 bits is 2e-3 of the range
    layers = {layer["layer"]: layer for layer in page["layers"]}
    assert sum(layer["tensors"] for layer in layers.values()) == len(errors)
    last = -20 * np.log10(sizes[-1])  # the relative error of a row is of its largest number, the SNR of all
    assert last < layers["tanh"]["arrives"] < last + 20
    assert 30 < layers["tanh"]["alone"] < 60
    assert page["verification"]["differences"][0]["pair"] == "quantized in LiteRT/floats"
    told = json.loads(places["json"].read_text())["conversion"]
    assert told["latency"]["ratio"] > 0
    assert 0 < told["noise"][0]["error"] < 0.1


def tensor(name: str, own: float, arrives: float) -> TensorNoise:
    measure = Measure(0.0, 0.0, 0.0, 1.0, arrives)
    return TensorNoise(
        "s", (0,), 0, "op", name, "i8[2]", "", "", arrives, 0.0, own, 0.0, 0.0, None, None, True, measure
    )


def test_a_layer_is_as_good_as_its_worst_tensor() -> None:
    noise = [tensor("a/conv/Relu;1", 40.0, 39.0), tensor("b/Tanh", 50.0, 20.0), tensor("a/conv/Add", 45.0, 30.0)]
    assert layers_of([*noise, tensor(";exp", 60.0, 10.0)]) == [
        LayerNoise("a/conv", 2, 40.0, 30.0, "a/conv/Relu;1"),
        LayerNoise("b", 1, 50.0, 20.0, "b/Tanh"),
        LayerNoise("exp", 1, 60.0, 10.0, ";exp"),
    ]


def test_a_recipe_that_does_nothing_has_exit_code_1_with_strict(file: Path) -> None:
    recipe = file.with_name("recipe.json")
    recipe.write_text(to_json(jfuse.Recipe((jfuse.QuantizeRule("dynamic", min_elements=10_000),))))
    words = ["quantize", str(file), "-o", str(file.with_name("q.tflite")), "--recipe", str(recipe)]
    done = CliRunner().invoke(cli.app, words)
    assert done.exit_code == 0, done.output
    assert re.search(r"^warning .*quantized nothing: [\d,]+ bytes, [\d,]+ in floats", done.output, re.M)
    refused = CliRunner().invoke(cli.app, [*words, "--strict"])
    assert refused.exit_code == 1
    assert "quantized nothing" in refused.output
