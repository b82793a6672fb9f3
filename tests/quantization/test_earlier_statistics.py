"""What a conversion saw of its data, saved, merged and given again: as one conversion with all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.model import Model
from tests.passes.quantize.models import drawn, mlp, program_of, quantization
from tests.tflite.programs import f32

CALLS = [{"x0": drawn(4, 32, seed=seed, scale=1 + seed / 10)} for seed in range(12)]


def quantized(data: Any, recipe: Any = "int8") -> Model:
    return jfuse.quantize(Model(program_of(mlp, f32(4, 32))), recipe, data, verify=False)


def ranges_of(model: Model) -> list[Any]:
    eqns = model.program.signatures[0].graph.eqns
    return [quantization(v) for eqn in eqns for v in eqn.outputs if v.type.quantization is not None]


def shards(folder: Path, recipe: Any = "int8") -> Path:
    """A folder with the statistics of each third of the calls."""
    folder.mkdir()
    for number in range(3):
        found = quantized(CALLS[4 * number : 4 * number + 4], recipe).statistics
        assert found is not None
        found.save(folder / f"{number}.npz")
    return folder


@pytest.mark.parametrize("algorithm", ["extrapolated", "moving_average", "entropy"])
def test_parts_make_the_file_of_the_whole(tmp_path: Path, algorithm: str) -> None:
    recipe = [jfuse.QuantizeRule("integer", range_algorithm=algorithm, bias_correction=True, min_elements=0)]
    whole = quantized(CALLS, recipe)
    folder = shards(tmp_path / "shards", recipe)
    files = sorted(folder.iterdir())
    again = [quantized(data, recipe) for data in (folder, files, [str(f) for f in files])]
    assert len(ranges_of(whole)) >= 4
    for model in again:
        for found, wanted in zip(ranges_of(model), ranges_of(whole), strict=True):
            np.testing.assert_allclose(found.scale, wanted.scale, rtol=1e-6)
            assert found.zero_point == wanted.zero_point
    assert again[0].to_bytes() == again[1].to_bytes() == again[2].to_bytes()
    half = quantized(files[:1], recipe)
    assert ranges_of(half) != ranges_of(whole), "the test sees no difference"


def test_what_does_not_go_together_is_refused(tmp_path: Path) -> None:
    files = sorted(shards(tmp_path / "shards").iterdir())
    with pytest.raises(JfuseError, match="statistics replace all calibration data"):
        quantized([files[0], CALLS[0]])
    with pytest.raises(JfuseError, match="of another program"):
        jfuse.quantize(Model(program_of(mlp, f32(5, 32))), "int8", files, verify=False)
    with pytest.raises(JfuseError, match="do not have what the recipe rounds weights by"):
        quantized(files, "int4_gptq")
    mse = [jfuse.QuantizeRule("integer", range_algorithm="mse", min_elements=0)]
    with pytest.raises(JfuseError, match="mse needs a histogram"):
        quantized(files, mse)


def test_statistics_without_what_biases_need_are_told() -> None:
    plain = [jfuse.QuantizeRule("integer", min_elements=0)]
    model = quantized(quantized(CALLS, plain).statistics)
    assert [n for n in model.report.notes if "are not corrected: the statistics are those of another recipe" in n]
    assert not any("not corrected" in n for n in quantized(CALLS).report.notes)
