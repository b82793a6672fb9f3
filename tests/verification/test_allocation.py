"""Files that nobody ran: LiteRT allocates their tensors before they are returned."""

from __future__ import annotations

from typing import Any

import flatbuffers
import numpy as np
import pytest
import tensorflow as tf
from ai_edge_litert import schema_py_generated as schema

import jfuse
from jfuse.base.errors import LowerError
from jfuse.base.limits import Limits
from jfuse.running.loaded_file import LoadedFile
from jfuse.running.worker import LiteRtFailed, Refused
from jfuse.verification import allocation
from jfuse.verification.allocation import need_allocation


def model(call: Any, *shape: int | None) -> jfuse.Model:
    spec = tf.TensorSpec(shape, tf.float32, name="x")
    return jfuse.convert(tf.function(call, input_signature=[spec], autograph=False), verify=False)


def with_axis(data: bytes, axis: int) -> bytes:
    """The file with another axis for its reduction."""
    file = schema.ModelT.InitFromPackedBuf(bytearray(data), 0)
    for buffer in file.buffers:
        if buffer.data is not None and len(buffer.data) == 4:
            buffer.data = np.frombuffer(np.int32(axis).tobytes(), np.uint8)
    builder = flatbuffers.Builder(1024)
    builder.Finish(file.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def test_a_file_that_cannot_be_allocated_is_refused() -> None:
    lite = model(lambda x: tf.reduce_sum(x, [1]), 2, 3)
    with pytest.raises(LowerError, match=r"does not allocate the tensors of the file, for the signature"):
        need_allocation(lite.program, with_axis(lite.to_bytes(), 5))


def test_conversion_asks_where_nothing_is_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing(LoadedFile):
        def ask(self, method: str, *arguments: Any) -> Any:
            if method == "allocate":
                raise Refused("no such axis", 0)
            return super().ask(method, *arguments)

    monkeypatch.setattr(allocation, "LoadedFile", Refusing)
    with pytest.raises(LowerError, match=r"does not allocate(.|\n)*no such axis"):
        model(tf.nn.relu, 2, 3)
    assert "with none of the sizes" in model(tf.nn.relu, None, 3).report.notes[0]
    lite = jfuse.load(jfuse.convert(lambda x: x, [np.zeros(2, np.float32)]).to_bytes())
    with pytest.raises(LowerError, match="does not allocate"):
        jfuse.quantize(lite, "dynamic", verify=False)


def test_open_sizes_of_which_only_some_fit() -> None:
    assert not model(lambda x: tf.batch_to_space(x, [2, 2], [[0, 0], [0, 0]]), None, 3, 3, 2).report.notes


@pytest.mark.parametrize(("cause", "is_told"), [("memory", True), ("time", True), ("crash", False)])
def test_limits_are_told_and_refuse_nothing(cause: str, is_told: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(*arguments: Any, **options: Any) -> Any:
        error = LiteRtFailed("LiteRT was ended")
        error.cause = cause
        raise error

    lite = model(tf.nn.relu, 2, 3)
    monkeypatch.setattr(allocation, "LoadedFile", failing)
    if is_told:
        assert need_allocation(lite.program, lite.to_bytes(), Limits()) == [
            "LiteRT was not seen to allocate the file: LiteRT was ended"
        ]
    else:
        with pytest.raises(LiteRtFailed):
            need_allocation(lite.program, lite.to_bytes())
