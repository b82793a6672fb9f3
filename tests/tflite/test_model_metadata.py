"""The entry TFLITE_METADATA and associated files, read back by the slots of tflite-support's schema."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import flatbuffers
import flatbuffers.table
import jax
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema
from ai_edge_litert.interpreter import Interpreter
from flatbuffers.number_types import Float32Flags, Int8Flags, UOffsetTFlags
from typer.testing import CliRunner

import jfuse
from jfuse.base.errors import JfuseError
from jfuse.cli import app as cli


class Table:
    """A table of a flatbuffer, by slots."""

    def __init__(self, data: bytes, place: int) -> None:
        self._table = flatbuffers.table.Table(data, place)

    @classmethod
    def root(cls, data: bytes) -> Table:
        assert data[4:8] == b"M001"
        return cls(data, flatbuffers.encode.Get(UOffsetTFlags.packer_type, data, 0))

    def _offset(self, slot: int) -> int:
        return int(self._table.Offset(4 + 2 * slot))

    def text(self, slot: int) -> str:
        at = self._offset(slot)
        return self._table.String(at + self._table.Pos).decode() if at else ""

    def byte(self, slot: int) -> int:
        at = self._offset(slot)
        return int(self._table.Get(Int8Flags, at + self._table.Pos)) if at else 0

    def table(self, slot: int) -> Table:
        return Table(self._table.Bytes, self._table.Indirect(self._offset(slot) + self._table.Pos))

    def tables(self, slot: int) -> list[Table]:
        at = self._offset(slot)
        start, count = (self._table.Vector(at), self._table.VectorLen(at)) if at else (0, 0)
        return [Table(self._table.Bytes, self._table.Indirect(start + 4 * i)) for i in range(count)]

    def floats(self, slot: int) -> list[float]:
        return [float(v) for v in self._table.GetVectorAsNumpy(Float32Flags, self._offset(slot))]


def entry(data: bytes) -> Table:
    model = schema.Model.GetRootAs(data, 0)
    (found,) = [
        model.Buffers(model.Metadata(i).Buffer()).DataAsNumpy().tobytes()
        for i in range(model.MetadataLength())
        if model.Metadata(i).Name() == b"TFLITE_METADATA"
    ]
    return Table.root(found)


def two(x: Any, ids: Any) -> dict[str, Any]:
    return {"scores": jax.nn.softmax(x), "ids": ids + 1}


SPECS = {"x": jax.ShapeDtypeStruct((2, 3), np.float32), "ids": jax.ShapeDtypeStruct((4,), np.int32)}


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "labels.txt").write_text("cat\ndog\ncow\n")
    (tmp_path / "words.txt").write_text("the\na\n")
    (tmp_path / "LICENSE").write_text("free\n")
    return tmp_path


def test_every_field_is_where_the_schema_has_it(files: Path) -> None:
    metadata = jfuse.Metadata(
        name="Animals",
        description="Which animal it is.",
        version="v2",
        author="Ada",
        license="MIT",
        inputs={
            "x": jfuse.TensorMetadata(
                description="pixels",
                dimension_names=("row", "channel"),
                mean=[127.5],
                std=[128.0],
                minimum=[-1],
                maximum=[1, 2],
                content="image",
                colour_space="grayscale",
            ),
            "ids": jfuse.TensorMetadata("words", vocabulary=files / "words.txt"),
        },
        outputs={"scores": jfuse.TensorMetadata(labels=files / "labels.txt")},
        files=[files / "LICENSE"],
    )
    model = jfuse.convert(two, SPECS).with_metadata(metadata)
    data = model.to_bytes()
    root = entry(data)
    assert [root.text(slot) for slot in (0, 1, 2, 4, 5, 7)] == [
        "Animals",
        "Which animal it is.",
        "v2",
        "Ada",
        "MIT",
        "1.0.1",
    ]
    assert [f.text(0) for f in root.tables(6)] == ["LICENSE"]
    (graph,) = root.tables(3)
    table = schema.ModelT.InitFromPackedBuf(data, 0)
    named = {t.tensorIndex: t.name.decode() for t in table.signatureDefs[0].inputs}
    order = [named[i] for i in table.subgraphs[0].inputs]
    inputs = dict(zip(order, graph.tables(2), strict=True))  # as many, and in the order of the subgraph
    x, ids = inputs["x"], inputs["ids"]
    assert (x.text(0), x.text(1), ids.text(0)) == ("x", "pixels", "words")
    assert (x.table(3).byte(0), x.table(3).table(1).byte(0)) == (2, 2)  # ImageProperties, GRAYSCALE
    (unit,) = x.tables(4)
    assert (unit.byte(0), unit.table(1).floats(0), unit.table(1).floats(1)) == (1, [127.5], [128.0])
    assert (x.table(5).floats(0), x.table(5).floats(1)) == ([1.0, 2.0], [-1.0])
    assert [(f.text(0), f.byte(2)) for f in ids.tables(6)] == [("words.txt", 5)]
    named = {t.tensorIndex: t.name.decode() for t in table.signatureDefs[0].outputs}
    outputs = dict(zip([named[i] for i in table.subgraphs[0].outputs], graph.tables(3), strict=True))
    assert [(f.text(0), f.byte(2)) for f in outputs["scores"].tables(6)] == [("labels.txt", 2)]
    archive = zipfile.ZipFile(io.BytesIO(data))
    assert sorted(archive.namelist()) == ["LICENSE", "labels.txt", "words.txt"]
    assert archive.read("labels.txt") == b"cat\ndog\ncow\n"
    assert data == jfuse.convert(two, SPECS, verify=False).with_metadata(metadata).to_bytes()


def test_the_file_still_runs_and_keeps_its_entry(files: Path) -> None:
    model = jfuse.convert(two, SPECS, verify=False).with_metadata(
        {"outputs": {"scores": {"labels": files / "labels.txt"}}}
    )
    path = model.save(files / "m.tflite")
    runner = Interpreter(model_path=str(path)).get_signature_runner()
    x = np.eye(2, 3, dtype=np.float32)
    found = runner(x=x, ids=np.arange(4, dtype=np.int32))
    np.testing.assert_allclose(found["scores"], np.exp(x) / np.exp(x).sum(1, keepdims=True), atol=1e-6)
    assert [name for name, _ in jfuse.load(path).program.facts.metadata] == ["TFLITE_METADATA"]
    other = jfuse.load(path).with_metadata({"name": "other"})
    assert entry(other.to_bytes()).text(0) == "other"


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        ({"title": "x"}, "no such field as title"),
        ({"outputs": {"y": {}}}, "no signature has an output 'y'"),
        ({"inputs": {"x": {"labels": "absent.txt"}}}, "an associated file cannot be read at absent.txt"),
        ({"inputs": {"x": {"content": "sound"}}}, "no content 'sound'"),
        ({"inputs": {"x": {"mean": [1.0]}}}, "mean and std have one length"),
        ({"inputs": {"x": 3}}, "a tensor is a mapping"),
        ({"inputs": 3}, "inputs are a mapping"),
        ("absent.json", "the metadata cannot be read at absent.json"),
    ],
)
def test_what_is_wrong_is_told(metadata: Any, message: str) -> None:
    with pytest.raises(JfuseError, match=message):
        jfuse.convert(two, SPECS, verify=False).with_metadata(metadata)


def test_two_files_of_one_name_are_refused(files: Path) -> None:
    (files / "other").mkdir()
    (files / "other" / "labels.txt").write_text("else")
    given = {"files": [files / "labels.txt", files / "other" / "labels.txt"]}
    with pytest.raises(JfuseError, match="two associated files have one name"):
        jfuse.convert(two, SPECS, verify=False).with_metadata(given)


def test_from_the_command_line(files: Path) -> None:
    """Of a file as source; paths in the JSON are beside it."""
    source, out = files / "m.tflite", files / "out.tflite"
    jfuse.convert(jax.nn.softmax, [SPECS["x"]], verify=False).save(source)
    about = files / "about.json"
    about.write_text(json.dumps({"name": "Animals", "files": ["LICENSE"]}))
    words = ["convert", source, "-o", out, "--no-verify", "--metadata", about, "--labels", files / "labels.txt"]
    done = CliRunner().invoke(cli.app, [str(word) for word in words])
    assert done.exit_code == 0, done.output
    root = entry(out.read_bytes())
    assert root.text(0) == "Animals"
    assert [f.text(0) for t in root.tables(3)[0].tables(3) for f in t.tables(6)] == ["labels.txt"]
    assert sorted(zipfile.ZipFile(out).namelist()) == ["LICENSE", "labels.txt"]
    wrong = CliRunner().invoke(cli.app, ["convert", str(source), "-o", str(out), "--labels", "y=absent.txt"])
    assert wrong.exit_code == 2
