"""Weights in files beside the .tflite file: read as LiteRT's CompiledModel reads them, and saved in the file."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.compiled_model import CompiledModel
from ai_edge_litert.interpreter import Interpreter

import jfuse
from jfuse.base.errors import BadFlatbuffer, ImportFailed, JfuseError, LowerError
from jfuse.ir.graph import Const
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite.programs import WEIGHTS, dense
from tests.tflite.read.test_whole import changed, read

START = 64  # of the weights in their file; LiteRT asks for multiples of 64
ID = 0x80000000  # as the official exporter numbers external buffers
BIAS = 2  # the tensor of the bias


def described(model: Any, name: str = "weights/part.bin") -> None:
    """Let tensor 1 be a slice of a file, and the bias another one."""
    group = schema.ExternalBufferGroupT()
    group.name = name
    model.externalBufferGroups = [schema.ExternalBufferGroupT(), group]
    model.externalBuffers = []
    place = START
    for i, tensor in enumerate(model.subgraphs[0].tensors[1 : BIAS + 1]):
        buffer = schema.ExternalBufferT()
        buffer.id, buffer.group, buffer.offset = ID + i, 1, place
        buffer.length, buffer.packing = model.buffers[tensor.buffer].data.size, "unpacked"
        model.externalBuffers.append(buffer)
        model.buffers[tensor.buffer].data = None
        tensor.buffer, tensor.externalBuffer = 0, buffer.id
        place += 64 * -(-buffer.length // 64)


def saved(folder: Path, change: Callable[[Any], object] = described, size: int | None = None) -> Path:
    """The file and its weights, of which `size` bytes are written."""
    model = read(to_bytes(dense()))
    parts = [model.buffers[t.buffer].data.tobytes() for t in model.subgraphs[0].tensors[1 : BIAS + 1]]
    blob = bytes(START) + b"".join(part.ljust(64 * -(-len(part) // 64), b"\xff") for part in parts)
    (folder / "weights").mkdir()
    (folder / "weights/part.bin").write_bytes(blob[:size])
    path = folder / "model.tflite"
    path.write_bytes(changed(dense(), change))
    return path


def inputs() -> list[np.ndarray]:
    rng = np.random.default_rng(3)
    return [rng.normal(size=(1, 8)).astype(np.float32) for _ in range(2)]


def answers(data: bytes) -> list[np.ndarray]:
    interpreter = Interpreter(model_content=data)
    interpreter.allocate_tensors()
    found = []
    for x in inputs():
        interpreter.set_tensor(0, x)
        interpreter.invoke()
        found.append(interpreter.get_tensor(interpreter.get_output_details()[0]["index"]))
    return found


def test_litert_answers_alike_for_the_file_and_for_the_saved_one(tmp_path: Path) -> None:
    path = saved(tmp_path)
    with pytest.raises(RuntimeError, match="lacks data"):  # so the weights are put into the file
        answers(path.read_bytes())
    model = jfuse.load(path)
    whole = model.to_bytes()
    compiled = CompiledModel.from_file(str(path))
    given, results = compiled.create_input_buffers(0), compiled.create_output_buffers(0)
    for x, found in zip(inputs(), answers(whole), strict=True):
        given[0].write(x)
        compiled.run_by_index(0, given, results)
        wanted = np.asarray(results[0].read(5, np.float32))
        assert found.ravel().tolist() == wanted.tolist()
        np.testing.assert_allclose(model(x)["y0"].ravel(), wanted, rtol=1e-6, atol=1e-6)  # 8 products in f32
    assert str(load_tflite(whole)) == str(model)
    assert read(whole).externalBuffers is None
    assert all(t.externalBuffer == 0 for t in read(whole).subgraphs[0].tensors)


def test_such_a_file_is_verified(tmp_path: Path) -> None:
    path = saved(tmp_path)
    found = jfuse.verify(path)
    assert found.samples > 1
    assert str(path) in found.subject
    assert jfuse.verify(path, to_bytes(dense())).first is None


def test_weights_are_views_of_their_file(tmp_path: Path) -> None:
    eqns = load_tflite(saved(tmp_path)).signatures[0].graph.eqns
    weights = next(a for a in eqns[0].inputs if isinstance(a, Const) and a.array.shape == WEIGHTS.shape)
    assert np.array_equal(weights.array, WEIGHTS)
    assert not weights.array.flags.owndata
    assert not weights.array.flags.writeable


def test_a_folder_whose_files_are_links(tmp_path: Path) -> None:
    """As downloads are often kept: what a link in the folder leads to is its owner's choice."""
    (tmp_path / "blobs").mkdir()
    path = saved(tmp_path / "blobs")
    (tmp_path / "snapshot/weights").mkdir(parents=True)
    (tmp_path / "snapshot/x.tflite").symlink_to(path)
    (tmp_path / "snapshot/weights/part.bin").symlink_to(path.parent / "weights/part.bin")
    assert str(load_tflite(tmp_path / "snapshot/x.tflite")) == str(load_tflite(path))


def test_a_file_given_as_its_bytes(tmp_path: Path) -> None:
    with pytest.raises(ImportFailed, match=r"the data of a tensor is in another file at .*tensor 1(.|\n)*by its path"):
        load_tflite(saved(tmp_path).read_bytes())


def buffers(change: Callable[[Any], object]) -> Callable[[Any], object]:
    def changed_too(model: Any) -> None:
        described(model)
        change(model)

    return changed_too


def first(**fields: Any) -> Callable[[Any], object]:
    return buffers(lambda m: vars(m.externalBuffers[0]).update(fields))


def named(name: str) -> Callable[[Any], object]:
    return lambda m: described(m, name)


def both(model: Any) -> None:
    model.subgraphs[0].tensors[1].buffer = next(i for i, b in enumerate(model.buffers) if b.data is not None)


WRONG: dict[str, tuple[Callable[[Any], object], type[JfuseError], str]] = {
    "no such id": (first(id=7), BadFlatbuffer, "there is no such external buffer"),
    "no tables": (
        buffers(lambda m: setattr(m, "externalBuffers", None)),
        BadFlatbuffer,
        "there is no such external buffer",
    ),
    "one id twice": (first(id=ID + 1), BadFlatbuffer, "two external buffers have one id"),
    "group": (first(group=2), BadFlatbuffer, "there is no such group of external buffers"),
    "group without a name": (first(group=0), BadFlatbuffer, "not in the folder of the .tflite file"),
    "offset": (first(offset=2**64 - 1), BadFlatbuffer, "beyond the end of 'weights/part.bin'"),
    "length": (first(length=2**40), BadFlatbuffer, "beyond the end of 'weights/part.bin'"),
    "too short": (first(length=8), BadFlatbuffer, r"data of a constant f32\[5, 8\] is too short"),
    "packing": (first(packing="tiled"), LowerError, "packed in another file in a way that jfuse does not know"),
    "name": (first(packing=b"\xff"), BadFlatbuffer, "a name is not UTF-8"),
    "twice": (buffers(both), BadFlatbuffer, "in the file and in another one"),
    "missing": (named("weights/gone.bin"), ImportFailed, "the weights' file is missing"),
    "a folder": (named("weights"), ImportFailed, "the weights' file is missing"),
    "above": (named("../part.bin"), BadFlatbuffer, "not in the folder of the .tflite file"),
    "above within": (named("weights/../../part.bin"), BadFlatbuffer, "not in the folder of the .tflite file"),
    "absolute": (named("/etc/hostname"), BadFlatbuffer, "not in the folder of the .tflite file"),
    "nul": (named("weights/part.bin\0x"), BadFlatbuffer, "not in the folder of the .tflite file"),
    "long": (named("x" * 5000), ImportFailed, "the weights' file cannot be read"),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_does_not_fit(name: str, tmp_path: Path) -> None:
    change, kind, message = WRONG[name]
    with pytest.raises(kind, match=message) as caught:
        load_tflite(saved(tmp_path, change))
    assert type(caught.value) is kind
    place = "external buffers" if name == "one id twice" else "subgraph 0 tensor 1"
    assert f"model.tflite, {place}" in str(caught.value)


def test_files_of_weights_that_were_cut(tmp_path: Path) -> None:
    path = saved(tmp_path)
    for size in (0, START, START + 100):
        os.truncate(path.parent / "weights/part.bin", size)
        with pytest.raises(BadFlatbuffer, match=r"beyond the end of 'weights/part\.bin'"):
            load_tflite(path)


def test_a_pipe_is_no_file_of_weights(tmp_path: Path) -> None:
    path = saved(tmp_path, named("pipe"))
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ImportFailed, match="the weights' file is missing"):
        load_tflite(path)


def test_what_is_written_in_place_has_no_data() -> None:
    def change(model: Any) -> None:
        model.subgraphs[0].tensors[1].isVariable = True

    with pytest.raises(BadFlatbuffer, match=r"a tensor that is written in place has data at .*tensor 1"):
        load_tflite(changed(dense(), change))
    with pytest.raises(ValueError, match="Tensor 1 is a variable tensor with buffer"):
        Interpreter(model_content=changed(dense(), change))
