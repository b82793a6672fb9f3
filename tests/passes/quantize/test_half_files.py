"""Files with constants in f16: quantized as those with constants in f32 are, and never larger for what stays float."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.ir.types import DType
from jfuse.kernels import ops
from jfuse.running.interpreter import LiteRt
from tests.passes.quantize.models import KEY, drawn, names_of, program_of, quantized, snr_db
from tests.tflite.programs import f32

LARGE, SMALL = drawn(160, 128, scale=0.1).astype(np.float16), drawn(5, 160, scale=0.1).astype(np.float16)


def network(x: Any) -> Any:
    """Two dense layers, of which one has more numbers than a folded constant may have."""
    hidden = ops.relu(ops.fully_connected(x, LARGE.astype(np.float32), None))
    return ops.fully_connected(hidden, SMALL.astype(np.float32), None)


def wanted(x: np.ndarray) -> np.ndarray:
    found: np.ndarray = np.maximum(x @ LARGE.T.astype(np.float64), 0) @ SMALL.T.astype(np.float64)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    halves = quantized(program_of(network, f32(2, 128)), jfuse.Recipe.named("float16"))
    assert names_of(halves.program).count("dequantize") == 2
    halves.save(tmp_path / "halves.tflite")
    return tmp_path / "halves.tflite"


@pytest.mark.parametrize(
    ("recipe", "share", "least"), [("dynamic", 0.62, 30), ("int8_weights", 0.62, 35), ("int4_weights", 0.4, 12)]
)
def test_a_file_of_halves(file: Path, recipe: Any, share: float, least: float) -> None:
    """Weights of any size have few bits; those below the least size stay in f16."""
    before = file.stat().st_size
    lite = jfuse.quantize(file, recipe)
    assert lite.size_bytes < share * before
    assert [q.form == "float" for q in lite.report.quantized] == [False, True]
    last = [e.inputs[0] for e in lite.program.graphs()[0].eqns if e.op.name == "dequantize"][-1]
    assert last is not None
    assert last.type.dtype is DType.f16
    x = drawn(2, 128, seed=1)
    (y,) = LiteRt(lite.to_bytes()).run(KEY, {"x0": x}).values()
    assert snr_db(y, wanted(x)) > least


def test_integers_of_a_file_of_halves(file: Path) -> None:
    samples = [drawn(2, 128, seed=seed) for seed in range(8)]
    lite = jfuse.quantize(file, "int8", samples)
    assert {q.form for q in lite.report.quantized} == {"i8 activations"}
    assert lite.size_bytes < 0.62 * file.stat().st_size
    (y,) = LiteRt(lite.to_bytes()).run(KEY, {"x0": samples[0]}).values()
    assert snr_db(y, wanted(samples[0])) > 25


def test_halves_once_more_are_told(file: Path) -> None:
    lite = jfuse.quantize(file, "float16")
    (warning,) = lite.report.warnings
    assert "'float16' made the file" in warning
    assert f"{lite.size_bytes:,} bytes, {file.stat().st_size:,} in floats" in warning
