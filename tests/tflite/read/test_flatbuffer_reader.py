"""The checked reader gives what the generated module's own gives, and refuses what that one would follow anywhere."""

from __future__ import annotations

import inspect
import struct
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

from jfuse.base.errors import BadFlatbuffer
from jfuse.ir.graph import Program
from jfuse.kernels import ops
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.read.flatbuffer_reader import fields_of, object_of, read_root
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import dense, f32, program

TABLES: list[Any] = [c for c in vars(schema).values() if inspect.isclass(c) and hasattr(c, "Init")]


def plain(value: Any) -> Any:
    """An object of the generated module as dictionaries, lists and bytes."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tobytes()
    if isinstance(value, list):
        return [plain(v) for v in value]
    return {k: plain(v) for k, v in vars(value).items()} if hasattr(value, "__dict__") else value


def test_every_field_of_the_schema_is_known() -> None:
    assert len(TABLES) > 100
    for table in TABLES:
        assert {f.name for f in fields_of(table)} == set(vars(object_of(table)()))


@pytest.mark.parametrize("make", programs.ALL)
def test_the_same_objects_as_the_generated_reader(make: Callable[[], Program]) -> None:
    data = to_bytes(make())
    assert plain(read_root(data, schema.Model)) == plain(schema.ModelT.InitFromPackedBuf(data, 0))


def test_vectors_are_views() -> None:
    data = to_bytes(dense())
    buffers = read_root(data, schema.Model).buffers
    assert all(np.shares_memory(b.data, np.frombuffer(data, np.uint8)) for b in buffers if b.data is not None)


def place_of(data: bytes | bytearray, *path: int) -> int:
    """The place of a field's offset: slots from the root table on, the first item of vectors of tables between them."""
    place = 0
    for depth, slot in enumerate(path):
        table = place + struct.unpack_from("<I", data, place)[0]
        fields = table - struct.unpack_from("<i", data, table)[0]
        place = table + struct.unpack_from("<H", data, fields + 4 + 2 * slot)[0]
        if depth + 1 < len(path):
            place += struct.unpack_from("<I", data, place)[0] + 4
    return place


SUBGRAPHS, TENSORS, SHAPE = 2, 0, 0  # slots of Model, SubGraph and Tensor


@pytest.mark.parametrize("value", [0xFFFFFFFF, 0x7FFFFFFF, 0x80000000, 1 << 24])
def test_offsets_that_lead_out_of_the_file(value: int) -> None:
    data = bytearray(to_bytes(dense()))
    struct.pack_into("<I", data, place_of(data, SUBGRAPHS, TENSORS, SHAPE), value)
    with pytest.raises(BadFlatbuffer, match=r"leads out of the file at subgraphs\[0\].tensors\[0\].shape") as caught:
        read_root(bytes(data), schema.Model)
    assert f"{len(data)} bytes in all" in str(caught.value)


def test_lengths_that_lead_out_of_the_file() -> None:
    data = bytearray(to_bytes(dense()))
    place = place_of(data, SUBGRAPHS, TENSORS, SHAPE)
    struct.pack_into("<I", data, place + struct.unpack_from("<I", data, place)[0], 2**31)
    with pytest.raises(BadFlatbuffer, match=r"leads out of the file at subgraphs\[0\].tensors\[0\].shape"):
        read_root(bytes(data), schema.Model)


def test_parts_that_overlap_are_not_read_again_and_again() -> None:
    """Two thousand names of a hundred kilobytes, each beginning four bytes after the one before, in a small file."""
    codes, length = 2000, 100_000
    data = bytearray(struct.pack("<I4sHHHHiI", 20, b"TFL3", 8, 8, 0, 4, 12, 4))
    root = 20  # a table with one field, the vector of operator codes
    struct.pack_into("<HHHHiI", data, 8, 8, 8, 0, 4, root - 8, 4)
    struct.pack_into("<I", data, 0, root - 4)
    root -= 4
    data += struct.pack("<I", codes)
    vector = len(data)
    fields = vector + 4 * codes
    first = fields + 8
    data += bytes(4 * codes) + struct.pack("<HHHH", 8, 8, 0, 4)  # the second field of each is its name
    names = first + 8 * codes
    for i in range(codes):
        table = first + 8 * i
        struct.pack_into("<I", data, vector + 4 * i, table - (vector + 4 * i))
        data += struct.pack("<iI", table - fields, names + 4 * i - (table + 4))
    data += struct.pack("<I", length) * codes + b"y" * length
    with pytest.raises(BadFlatbuffer, match=r"the parts of the file overlap at operatorCodes\[\d+\].customCode"):
        read_root(bytes(data), schema.Model)


def test_a_file_with_many_operators_loads_fast() -> None:
    """A thousand operators in less than a second beyond what their types cost."""

    def chain(x: Any) -> Any:
        for _ in range(1000):
            x = ops.neg(x)
        return x

    data = to_bytes(program(chain, f32(4)))
    started = time.perf_counter()
    read_root(data, schema.Model)
    tables = time.perf_counter() - started
    load_tflite(data)
    started = time.perf_counter()
    load_tflite(data)
    whole = time.perf_counter() - started
    assert (tables < 2, whole < 5) == (True, True)  # seconds; measured on a busy core: 0.08 and 0.6
