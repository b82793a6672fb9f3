"""What `jfuse check` says of files, whoever wrote them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import jfuse
from jfuse.kernels import ops
from jfuse.running.ethos import has_ethos
from jfuse.running.micro import has_micro
from jfuse.tflite.targets.names import Target
from jfuse.tflite.write.file import to_bytes
from tests.corpus import quantized
from tests.tflite.programs import BATCH, f32, program
from tests.tflite.write.test_intermediates import lstm


def written(folder: Path, function: Any, *types: Any) -> Path:
    path = folder / "model.tflite"
    path.write_bytes(to_bytes(program(function, *types)))
    return path


def test_operators_that_fare_alike_are_one_line(tmp_path: Path) -> None:
    path = written(tmp_path, lambda x: ops.tile(ops.neg(ops.neg(ops.neg(x))), [1, 2]), f32(2, 3))
    found = jfuse.check(path, "tflite-micro")
    assert [(o.builtin, o.count, o.version, o.types, o.where) for o in found.operators] == [
        ("NEG", 3, 1, "f32", "runs"),
        ("TILE", 1, 1, "f32", "refused"),
    ]
    assert list(found.lines()) == [
        "tflite-micro: does not take the file",
        "  runs          3 x NEG v1 f32",
        "  refused       1 x TILE v1 f32: tflite-micro has no TILE",
    ]
    assert jfuse.check(path, "litert").runs


def test_without_a_target_each_one_is_asked(tmp_path: Path) -> None:
    found = jfuse.check(written(tmp_path, lambda x: ops.tile(ops.neg(x), [2, 1]), f32(2, 3)))
    assert {"litert", "compiled-model", "litert-gpu", "google-tensor"} == set(found.takes_it)
    lines = dict(line.split(None, 1) for line in found.lines())
    assert lines["compiled-model"] == "takes the file"
    assert lines["tflite-micro"] == "refuses the file: TILE: tflite-micro has no TILE"


def test_of_compiled_model_whole_files_count(tmp_path: Path) -> None:
    found = jfuse.check(written(tmp_path, ops.neg, f32(0, 3)), "compiled-model")
    assert not found.runs
    assert any("takes no tensors without elements" in line for line in found.lines())


def test_open_sizes_and_the_accelerator(tmp_path: Path) -> None:
    path = written(tmp_path, lambda x: ops.zeros_like(ops.relu(x)), f32(BATCH, 3))
    found = jfuse.check(path, "ethos-u55")
    assert [o.where for o in found.operators] == ["CPU", "CPU"]
    assert not found.runs
    assert found.open_inputs == ("x0: f32[B,3]",)
    assert any("computes on integers" in text for text in found.losses)


@pytest.mark.skipif(not has_micro(), reason="the wheel is for Python 3.11 alone")
def test_the_arena_is_measured(tmp_path: Path) -> None:
    small = jfuse.check(written(tmp_path, ops.neg, f32(1, 1000)), "tflite-micro").arena_bytes
    found = jfuse.check(written(tmp_path, ops.neg, f32(1, 2000)), "tflite-micro")
    assert small is not None
    assert found.arena_bytes is not None
    assert found.arena_bytes - small == 2 * 1000 * 4  # an input and an output of so many more numbers
    assert found.arena_bytes_32 is not None
    assert found.arena_bytes // 2 < found.arena_bytes_32 < found.arena_bytes
    assert any("on 32 bits (an estimate)" in line for line in found.lines())


def test_a_source_is_no_file() -> None:
    import keras

    source = jfuse.load(keras.Sequential([keras.Input((5, 3)), keras.layers.LSTM(4)]))
    with pytest.raises(jfuse.JfuseError, match="a source is no file yet"):
        jfuse.check(source, "litert")


def test_variables_are_operators_of_the_file(tmp_path: Path) -> None:
    from tests.tflite.write.test_states import SWAP

    (tmp_path / "swap.tflite").write_bytes(to_bytes(SWAP))
    rows: list[tuple[Target, str, str]] = [
        ("google-tensor", "CPU", "NPU or GPU"),
        ("litert-gpu", "refused", "NPU or GPU"),
        ("tflite-micro", "runs", "runs"),
    ]
    for target, variables, additions in rows:
        found = {o.builtin: o for o in jfuse.check(tmp_path / "swap.tflite", target).operators}
        assert (found["VAR_HANDLE"].where, found["ADD"].where) == (variables, additions)


@pytest.mark.skipif(not has_ethos(), reason="the compiler is not installed")
def test_the_compiler_for_an_npu_is_asked(tmp_path: Path) -> None:
    """It leaves all floats to the CPU, too, and takes of i8 what the table has."""
    path = written(tmp_path, lambda x: ops.relu(ops.neg(x)), f32(1, 8))
    assert jfuse.check(path, "ethos-u55").compiler == "0 operators on the NPU, 2 on the CPU: ;neg, ;relu"
    x, y = (quantized.integers(3, scale=0.5, zero_point=1) for _ in range(2))
    integers = quantized.file_of("relu", quantized.apply(ops.relu, [x], y))
    (tmp_path / "i8.tflite").write_bytes(integers.make())
    found = jfuse.check(tmp_path / "i8.tflite", "ethos-u55")
    assert [o.where for o in found.operators] == ["NPU or GPU"]
    assert found.compiler.endswith("0 on the CPU")
    (tmp_path / "lstm.tflite").write_bytes(to_bytes(lstm()))
    found = jfuse.check(tmp_path / "lstm.tflite", "ethos-u55")  # which is why `losses` tells of it
    assert not found.runs
    assert "UNIDIRECTIONAL_SEQUENCE_LSTM" in found.compiler
    assert any("refuses a file with an LSTM of floats" in text for text in found.losses)
