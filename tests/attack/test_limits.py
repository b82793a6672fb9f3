"""Small files that name much: bodies that branches share, deep nesting, loops without end, large tensors."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import flatbuffers
import numpy as np
import pytest
from ai_edge_litert import schema_py_generated as schema

import jfuse
from jfuse.base.limits import Limits
from jfuse.ir.text import format_program
from jfuse.ir.types import DType, TensorType
from jfuse.kernels import ops
from jfuse.model import Model
from jfuse.running.interpreter import LiteRt
from jfuse.tflite.read.file import load_tflite
from jfuse.tflite.write.file import to_bytes
from tests.tflite import programs
from tests.tflite.programs import KEY, f32, program

SECONDS = 20.0  # for each file here, on a busy machine; without sharing they take minutes
X = np.ones(2, np.float32)


def packed(model: Any) -> bytes:
    builder = flatbuffers.Builder(2**16)
    builder.Finish(model.Pack(builder), b"TFL3")
    return bytes(builder.Output())


def tensor(name: str, shape: list[int], kind: int = 0) -> Any:
    table = schema.TensorT()
    table.name, table.shape, table.type = name, np.array(shape, np.int32), kind
    return table


def nested_branches(depth: int) -> bytes:
    """IFs in each other, both branches of each the same subgraph; the innermost adds x to itself."""
    model = schema.ModelT()
    model.version, model.buffers, model.operatorCodes, model.subgraphs = 3, [schema.BufferT()], [], []
    for number in (schema.BuiltinOperator.IF, schema.BuiltinOperator.ADD):
        code = schema.OperatorCodeT()
        code.builtinCode = code.deprecatedBuiltinCode = number
        code.version = 1
        model.operatorCodes.append(code)
    for level in range(depth + 1):
        graph, operator = schema.SubGraphT(), schema.OperatorT()
        graph.name = f"level_{level}"
        graph.tensors = [tensor("flag", [], schema.TensorType.BOOL), tensor("x", [2]), tensor("y", [2])]
        graph.inputs, graph.outputs, graph.operators = np.array([0, 1], np.int32), np.array([2], np.int32), [operator]
        operator.outputs = np.array([2], np.int32)
        if level < depth:
            operator.opcodeIndex, operator.inputs = 0, np.array([0, 0, 1], np.int32)
            operator.builtinOptionsType, operator.builtinOptions = schema.BuiltinOptions.IfOptions, schema.IfOptionsT()
            operator.builtinOptions.thenSubgraphIndex = operator.builtinOptions.elseSubgraphIndex = level + 1
        else:
            operator.opcodeIndex, operator.inputs = 1, np.array([1, 1], np.int32)
            operator.builtinOptionsType, operator.builtinOptions = (
                schema.BuiltinOptions.AddOptions,
                schema.AddOptionsT(),
            )
        model.subgraphs.append(graph)
    return packed(model)


def aliased_subgraphs(count: int) -> bytes:
    """A file of one subgraph of forty operators, with a list of subgraphs that names it so often."""

    def many(x: Any) -> Any:
        for _ in range(20):
            x = ops.add(ops.mul(x, x), 1.0)
        return x

    data = to_bytes(program(many, f32(2)))
    root = int.from_bytes(data[:4], "little")
    fields = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    place = root + int.from_bytes(data[fields + 8 : fields + 10], "little")  # of the third field, the subgraphs
    vector = place + int.from_bytes(data[place : place + 4], "little")
    graph = vector + 4 + int.from_bytes(data[vector + 4 : vector + 8], "little")
    # Offsets of a flatbuffer lead forwards: a new root and the list stand before all that was there.
    return _with_list(data, root, place, graph, count)


def _with_list(data: bytes, root: int, place: int, graph: int, count: int) -> bytes:
    builder = bytearray(data[:8])
    length = int.from_bytes(data[root - int.from_bytes(data[root : root + 4], "little", signed=True) :][:2], "little")
    fields = root - int.from_bytes(data[root : root + 4], "little", signed=True)
    table = int.from_bytes(data[fields + 2 : fields + 4], "little")
    builder += data[fields : fields + length]
    builder += bytes(-len(builder) % 4)
    new_root = len(builder)
    new_table = bytearray(data[root : root + table])
    new_table[:4] = (new_root - 8).to_bytes(4, "little")
    builder += new_table
    builder += bytes(-len(builder) % 4)
    listed = len(builder)
    shift = listed + 4 + 4 * count
    shift += -shift % 16
    builder += count.to_bytes(4, "little")
    builder += b"".join((shift + graph - (listed + 4 + 4 * i)).to_bytes(4, "little") for i in range(count))
    builder += bytes(shift - len(builder))
    builder += data
    builder[:4] = new_root.to_bytes(4, "little")
    for slot in range(4, length, 2):  # fields that are offsets lead to where the old file's tables are now
        at = int.from_bytes(data[fields + slot : fields + slot + 2], "little")
        if at and slot != 4:
            old = root + at + int.from_bytes(data[root + at : root + at + 4], "little")
            builder[new_root + at : new_root + at + 4] = (shift + old - (new_root + at)).to_bytes(4, "little")
    at = place - root
    builder[new_root + at : new_root + at + 4] = (listed - (new_root + at)).to_bytes(4, "little")
    return bytes(builder)


@pytest.mark.parametrize("depth", [16, 200])
def test_shared_bodies_stay_shared(depth: int, tmp_path: Path) -> None:
    started = time.monotonic()
    data = nested_branches(depth)
    path = tmp_path / "nested.tflite"
    path.write_bytes(data)
    model = jfuse.load(path)
    text = str(model)
    assert len(text) < 500_000
    saved = model.to_bytes()
    assert len(saved) < 2 * len(data)
    assert str(jfuse.parse(text)) == text
    for flag in (True, False):
        np.testing.assert_array_equal(model(flag, X), X + X)
        np.testing.assert_array_equal(LiteRt(saved).run(KEY, {"flag": np.array(flag), "x": X})["y"], X + X)
    assert jfuse.verify(data).passed
    with pytest.raises(jfuse.LowerError, match=r"share bodies.*\n.*at most 20,000"):
        jfuse.lower(model)
    assert time.monotonic() - started < SECONDS


LIMITED: list[tuple[Callable[[], bytes], Limits, str]] = [
    (lambda: nested_branches(201), Limits(), "too deep in each other"),
    (lambda: nested_branches(5), Limits(nesting=4), "too deep in each other"),
    (lambda: to_bytes(programs.dense()), Limits(equations=2), "too many operators"),
    (lambda: to_bytes(programs.dense()), Limits(constant_bytes=100), "constants of the file are too large"),
]


@pytest.mark.parametrize(("make", "limits", "message"), LIMITED)
def test_limits_of_reading(make: Callable[[], bytes], limits: Limits, message: str, tmp_path: Path) -> None:
    path = tmp_path / "model.tflite"
    path.write_bytes(make())
    with pytest.raises(jfuse.BadFlatbuffer, match=rf"{message}(.|\n)*limits=jfuse.Limits") as refused:
        jfuse.load(path, limits=limits)
    assert len(str(refused.value)) < 1000


def test_one_subgraph_in_many_places_is_read_once() -> None:
    started = time.monotonic()
    data = aliased_subgraphs(16_000)
    found = load_tflite(data)
    assert len(format_program(found)) < 10_000
    assert len(to_bytes(found)) < 10_000
    x = np.array([0.1, 0.2], np.float32)
    np.testing.assert_allclose(Model(found)(x), LiteRt(to_bytes(found)).run(KEY, {"x0": x})["y0"], rtol=1e-5)
    assert time.monotonic() - started < SECONDS


def test_a_loop_without_end_on_xla() -> None:
    model = Model(programs.loop(), limits=Limits(seconds=0.5))
    endless = (np.int32(0), np.int32(0), np.zeros((2, 3), np.float32))
    good = model(np.int32(1), np.int32(1), endless[2])
    assert int(good["y0"]) == programs.loop_reference(1, 1, endless[2])[0]
    started = time.monotonic()
    with pytest.raises(jfuse.JfuseError, match=r"does not come to an end at the loop body\n.*within 0.5 s"):
        model(*endless)
    assert time.monotonic() - started < SECONDS
    assert int(model(np.int32(1), np.int32(1), endless[2])["y0"]) == int(good["y0"])


@pytest.mark.usefixtures("python_interrupts")
def test_ctrl_c_ends_a_loop_on_xla() -> None:
    model = Model(programs.loop(), limits=Limits(seconds=60))
    model(np.int32(1), np.int32(1), np.zeros((2, 3), np.float32))
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        model(np.int32(0), np.int32(0), np.zeros((2, 3), np.float32))
    assert time.monotonic() - started < SECONDS


def test_a_result_that_no_memory_holds() -> None:
    of = program(lambda x: ops.tile(x, np.array([30000, 30000], np.int32)), f32(4, 4))
    with pytest.raises(jfuse.JfuseError, match=r"more memory than it may take\n.*\n.*57,600,000,000 bytes"):
        Model(of, limits=Limits())(np.ones((4, 4), np.float32))


def test_an_input_that_no_memory_holds() -> None:
    """Found by bench/fuzz.py: the file is small, and its input states 13 GB."""
    of = program(lambda x: ops.reduce_max(x, np.array([1], np.int32)), f32(2, 2**31 - 1))
    with pytest.raises(jfuse.JfuseError, match=r"'x0' .* is too large to be drawn\n.*\n.*17,179,869,176 bytes"):
        jfuse.verify(to_bytes(of))


def test_sizes_without_number() -> None:
    """Found by bench/fuzz.py: each number of a computed shape got a name, sixteen million of them here."""
    started = time.monotonic()
    with pytest.raises(jfuse.JfuseError, match=r"states sizes.* has too many numbers\n.*at most 1024"):
        program(ops.reshape, f32(4), TensorType((2**24,), DType.i32))
    assert time.monotonic() - started < SECONDS
